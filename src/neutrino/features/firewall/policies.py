"""Firewall policies: the API, with the actions that insert and remove single rules.

A policy may have its own project's rules and shared ones, a shared policy only shared ones. Every change resets `audited`,
unless the request sets it. The policies of default groups cannot be updated; administrators may insert and remove rules.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall import errors
from neutrino.features.firewall.resources import MAX_RULES
from neutrino.features.firewall.rules import FirewallCollection, change_groups
from neutrino.features.firewall.tables import firewall_groups, firewall_rules, policy_rules
from neutrino.features.firewall.views import POLICIES, visible_rows
from neutrino.model.objects import Object
from neutrino.server.api.types import UUID
from neutrino.server.context import Context
from neutrino.server.db.objects import exists, fresh
from neutrino.server.db.session import retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.errors import InvalidInput

DEFAULT_NAMES = ("default ingress", "default egress")  # of the policies of default groups


class FirewallPolicies(FirewallCollection):
    def new(self, context: Context, values: Object) -> Object:
        _check_name(values)
        return fresh(values)

    def changed(self, context: Context, before: Object, values: Object) -> Object:
        _refuse_default(before)
        _check_name(values)
        return {**before, "audited": False, **values}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for policy in objects:
            _check_rules(connection, context, policy)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        _check_sharing(connection, before, after)
        if after["firewall_rules"] != before["firewall_rules"]:
            _check_rules(connection, context, after)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        # A group that gets the policy later makes the transaction fail on its foreign key, and it is decided again.
        if exists(connection, is_used(before["id"])):
            raise errors.FirewallPolicyInUse(id=before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is None or (before and before["firewall_rules"] == after["firewall_rules"]):
            return
        if before is not None:
            tx.write(sa.delete(policy_rules).where(policy_rules.c.firewall_policy_id == before["id"]))
            change_groups(tx, [before["id"]])
        insert_policy_rules(tx, after["id"], after["firewall_rules"])

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
        return self._write_rules(before, rules)

    @retried
    def remove_rule(self, context: Context, key: str, body: object) -> Object:
        rule_id: str = _asked(body)["firewall_rule_id"]
        with self.db.read() as connection:
            before = _policy_before_action(connection, context, key)
            if rule_id not in before["firewall_rules"]:
                visible_rows(connection, context, firewall_rules, [rule_id], errors.FirewallRuleNotFound)
                raise errors.FirewallRuleNotAssociatedWithPolicy(rule_id=rule_id, policy_id=key)
        return self._write_rules(before, [rule for rule in before["firewall_rules"] if rule != rule_id])

    def _write_rules(self, before: Object, rules: Sequence[str]) -> Object:
        return self.write_change(before, {**before, "firewall_rules": rules, "audited": False})


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
