"""Firewall policies: the API, with the actions that insert and remove single rules.

A policy may have its own project's rules and shared ones, a shared policy only shared ones. Every change resets `audited`,
unless the request sets it. The policies of default groups cannot be updated; administrators may insert and remove rules.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall import errors
from neutrino.features.firewall.resources import MAX_RULES
from neutrino.features.firewall.rules import EnsureDefault, change_groups
from neutrino.features.firewall.tables import firewall_groups, firewall_policies, firewall_rules, policy_rules
from neutrino.features.firewall.views import POLICIES, visible_rows
from neutrino.model.objects import Object
from neutrino.server.access import sharing
from neutrino.server.api.types import UUID
from neutrino.server.collection import Listing
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, exists, fresh, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.errors import InvalidInput
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

KIND = "firewall_policy"
DEFAULT_NAMES = ("default ingress", "default egress")  # of the policies of default groups


class FirewallPolicies(Listing):
    def __init__(self, db: Database, quotas: Quotas, ensure_default: EnsureDefault) -> None:
        super().__init__(db, POLICIES)
        self._quotas = quotas
        self._ensure_default = ensure_default

    def index(self, context: Context, query: Query) -> list[Object]:
        self._ensure_default(context, query)
        return super().index(context, query)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        made = [fresh(item) for item in items]
        with self.db.read() as connection:
            for policy in made:
                _check_name(policy)
                _check_rules(connection, context, policy)
            limits = self._quotas.limits(connection, KIND, made)
        with self.db.transaction() as tx:
            tx.insert(firewall_policies, [as_row(firewall_policies, policy) for policy in made], limits)
            for policy in made:
                insert_policy_rules(tx, policy["id"], policy["firewall_rules"])
        return made

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = POLICIES.get(connection, key, revision=revision)
            _refuse_default(before)
            _check_name(values)
            after = {**before, "audited": False, **values}
            _check_sharing(connection, before, after)
            if "firewall_rules" in values:
                _check_rules(connection, context, after)
        return self._write(before, {**values, "audited": after["audited"]})

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            if exists(connection, is_used(key)):
                raise errors.FirewallPolicyInUse(id=key)
            before = POLICIES.get(connection, key, revision=revision)
        with self.db.transaction() as tx:
            # A group that has got the policy since makes this fail on its foreign key, and it is decided again.
            sharing.delete_object(tx, firewall_policies, before)

    # --- single rules -------------------------------------------------------------------------------------------------

    @retried
    def insert_rule(self, context: Context, key: str, body: object) -> Object:
        """Insert a rule before or after another one, at the top if none is named. As in Neutron `insert_before` wins."""
        asked = _asked(body)
        rule_id: str = asked["firewall_rule_id"]
        with self.db.read() as connection:
            before = _policy_before_action(connection, context, key)
            rules = list(before["firewall_rules"])
            if rule_id in rules:
                raise errors.FirewallRuleAlreadyAssociated(rule_id=rule_id, policy_id=key)
            found = visible_rows(connection, context, firewall_rules, [rule_id], errors.FirewallRuleNotFound)[rule_id]
            _check_rule(before, found)
        if len(rules) >= MAX_RULES:
            full = f"firewall policy {key} has {len(rules)} rules, and at most {MAX_RULES} are allowed"
            raise InvalidInput(error_message=full)
        rules.insert(_position(key, rules, asked), rule_id)
        return self._write(before, {"firewall_rules": rules, "audited": False})

    @retried
    def remove_rule(self, context: Context, key: str, body: object) -> Object:
        rule_id: str = _asked(body)["firewall_rule_id"]
        with self.db.read() as connection:
            before = _policy_before_action(connection, context, key)
            if rule_id not in before["firewall_rules"]:
                visible_rows(connection, context, firewall_rules, [rule_id], errors.FirewallRuleNotFound)
                raise errors.FirewallRuleNotAssociatedWithPolicy(rule_id=rule_id, policy_id=key)
        left = [each for each in before["firewall_rules"] if each != rule_id]
        return self._write(before, {"firewall_rules": left, "audited": False})

    def _write(self, before: Object, values: Object) -> Object:
        with self.db.transaction() as tx:
            stamp = update_row(tx, firewall_policies, before, values)
            rules = values["firewall_rules"] if "firewall_rules" in values else before["firewall_rules"]
            if rules != before["firewall_rules"]:
                tx.write(sa.delete(policy_rules).where(policy_rules.c.firewall_policy_id == before["id"]))
                insert_policy_rules(tx, before["id"], rules)
                change_groups(tx, [before["id"]])
        return {**before, **values, **stamp}


def insert_policy_rules(tx: Transaction, policy_id: str, rules: Sequence[str]) -> None:
    rows = [
        {"firewall_policy_id": policy_id, "firewall_rule_id": rule_id, "position": position}
        for position, rule_id in enumerate(rules, 1)
    ]
    tx.insert(policy_rules, rows)


def is_used(policy_id: str) -> sa.ColumnElement[bool]:
    """The condition of groups that have the policy."""
    return sa.or_(
        firewall_groups.c.ingress_firewall_policy_id == policy_id,
        firewall_groups.c.egress_firewall_policy_id == policy_id,
    )


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_name(values: Object) -> None:
    if values.get("name") in DEFAULT_NAMES:
        raise errors.FirewallDefaultParameterExists(name=values["name"], resource_type="Firewall Policy")


def _refuse_default(policy: Object) -> None:
    if policy["name"] in DEFAULT_NAMES:
        raise errors.FirewallDefaultObjectUpdateRestricted(resource_id=policy["id"], resource_type="Firewall Policy")


def _check_rules(connection: Connection, context: Context, policy: Object) -> None:
    """Refuse rules that the caller may not see, or that the policy may not have."""
    found = visible_rows(connection, context, firewall_rules, policy["firewall_rules"], errors.FirewallRuleNotFound)
    for rule in found.values():
        _check_rule(policy, rule)


def _check_rule(policy: Object, rule: NamedRow) -> None:
    if policy["shared"] and not rule.shared:
        raise errors.FirewallRuleSharingConflict(policy_id=policy["id"], rule_id=rule.id)
    if not rule.shared and rule.project_id != policy["project_id"]:
        raise errors.FirewallRuleConflict(rule_id=rule.id, project_id=rule.project_id)


def _check_sharing(connection: Connection, before: Object, after: Object) -> None:
    key = before["id"]
    if after["shared"] and not before["shared"] and after["firewall_rules"] == before["firewall_rules"]:
        own = (
            policy_rules.c.firewall_policy_id == key,
            policy_rules.c.firewall_rule_id == firewall_rules.c.id,
            sa.not_(firewall_rules.c.shared),
        )
        unshared = connection.execute(sa.select(firewall_rules.c.id).where(*own).limit(1)).scalar()
        if unshared is not None:
            raise errors.FirewallPolicySharingConflict(policy_id=key, rule_id=unshared)
    if not after["shared"] and exists(connection, is_used(key), firewall_groups.c.project_id != before["project_id"]):
        raise errors.FirewallPolicyInUse(id=key)


def _policy_before_action(connection: Connection, context: Context, key: str) -> Object:
    """The policy that gets or loses a rule; an error if the caller may not change its rules."""
    before = POLICIES.get(connection, key)
    if not context.is_admin:
        _refuse_default(before)
    return before


def _asked(body: object) -> Object:
    """The request of an action, which has the id of a rule."""
    if not isinstance(body, dict) or "firewall_rule_id" not in body:
        raise errors.FirewallRuleInfoMissing()
    rule_id = body["firewall_rule_id"]
    if not isinstance(rule_id, str) or not UUID.fullmatch(rule_id):
        raise errors.FirewallRuleNotFound(id=rule_id)
    return body


def _position(policy_id: str, rules: Sequence[str], body: Object) -> int:
    for name, offset in (("insert_before", 0), ("insert_after", 1)):
        reference = body.get(name)
        if reference:  # clients send the empty string for none
            if reference not in rules:
                raise errors.FirewallRuleNotAssociatedWithPolicy(rule_id=reference, policy_id=policy_id)
            return rules.index(reference) + offset
    return 0
