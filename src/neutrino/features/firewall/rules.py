"""Firewall rules: the API.

A change of a rule is a change of all policies that have it, which are no longer audited, and of their groups, whose hosts
have to apply it.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall import errors
from neutrino.features.firewall.checks import PENDING_UPDATE, RULE_MATCH, check_rule
from neutrino.features.firewall.tables import firewall_groups, firewall_policies, policy_rules
from neutrino.features.firewall.views import MAX_PARAMETERS, RULES
from neutrino.model.objects import Object
from neutrino.server.collection import DefaultedCollection
from neutrino.server.context import Context
from neutrino.server.db.objects import exists, fresh
from neutrino.server.db.transaction import Transaction, now

_POLICIES = sa.select(policy_rules.c.firewall_policy_id).where(
    policy_rules.c.firewall_rule_id == sa.bindparam("rule", type_=sa.String)
)


class FirewallCollection(DefaultedCollection):
    """Rules, policies or groups. A list has those of the project's default group."""

    def new(self, context: Context, values: Object) -> Object:
        return fresh(values)


class FirewallRules(FirewallCollection):
    def new(self, context: Context, values: Object) -> Object:
        check_rule(values)
        return new_rule(values)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        check_rule(after)
        if before["shared"] and not after["shared"]:
            _check_unshared(connection, before)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        # A policy that gets the rule later makes the transaction fail on its foreign key, and it is decided again.
        if exists(connection, policy_rules.c.firewall_rule_id == before["id"]):
            raise errors.FirewallRuleInUse(id=before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None or after is None:
            return
        policies = sorted(tx.execute(_POLICIES, {"rule": before["id"]}).scalars())
        revision_number = firewall_policies.c.revision_number + 1
        changed = {"audited": False, "revision_number": revision_number, "updated_at": now()}
        for some in _batches(policies):
            tx.write(sa.update(firewall_policies).where(firewall_policies.c.id.in_(some)).values(changed))
        if any(after[name] != before[name] for name in RULE_MATCH):
            change_groups(tx, policies)
        after["firewall_policy_id"] = policies or None

    def load(self, connection: Connection, context: Context, key: str, revision: int | None) -> Object:
        return RULES.get(connection, key, revision=revision)  # without its policies, which are read when it is written


def new_rule(values: Object) -> Object:
    return fresh({**values, "firewall_policy_id": None})


def _check_unshared(connection: Connection, rule: Object) -> None:
    """Refuse to unshare a rule that policies have which could not get it any more."""
    with_rule = policy_rules.c.firewall_rule_id == rule["id"]
    having = policy_rules.c.firewall_policy_id == firewall_policies.c.id
    elsewhere = firewall_policies.c.project_id != rule["project_id"]
    if exists(connection, with_rule, having, sa.or_(firewall_policies.c.shared, elsewhere)):
        raise errors.FirewallRuleInUse(id=rule["id"])


def change_groups(tx: Transaction, policies: Sequence[str]) -> None:
    """Raise the revision of groups with one of these policies: hosts have to apply it.

    The change log has the rule or the policy, from which the feed derives the groups, also those that are created now.
    """
    changed = {"status": PENDING_UPDATE, "revision_number": firewall_groups.c.revision_number + 1, "updated_at": now()}
    for some in _batches(policies):
        # Ids, not a subquery: with one in each part of an OR, PostgreSQL and MariaDB read all groups.
        having = sa.or_(
            firewall_groups.c.ingress_firewall_policy_id.in_(some),
            firewall_groups.c.egress_firewall_policy_id.in_(some),
        )
        tx.write(sa.update(firewall_groups).where(having).values(changed))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + MAX_PARAMETERS] for start in range(0, len(ids), MAX_PARAMETERS))
