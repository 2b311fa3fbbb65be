"""Firewall rules: the API.

A change of a rule is a change of all policies that have it, which are no longer audited, and of their groups, whose hosts
have to apply it.
"""

from collections.abc import Callable, Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, exists, fresh, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.fwaas.checks import PENDING_UPDATE, RULE_MATCH, check_rule
from neutrino.server.fwaas.views import MAX_PARAMETERS, RULES
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas
from neutrino.server.view_collection import ViewCollection

KIND = "firewall_rule"
EnsureDefault = Callable[[Context, Query], None]  # creates the default group of a listed project, with its rules
_p, _g, _pr = t.firewall_policies.c, t.firewall_groups.c, t.firewall_policy_rules.c
_POLICIES = sa.select(_pr.firewall_policy_id).where(_pr.firewall_rule_id == sa.bindparam("rule", type_=sa.String))


class FirewallRules(ViewCollection):
    def __init__(self, db: Database, quotas: Quotas, ensure_default: EnsureDefault) -> None:
        super().__init__(db, RULES)
        self._quotas = quotas
        self._ensure_default = ensure_default

    def index(self, context: Context, query: Query) -> list[Object]:
        self._ensure_default(context, query)
        return super().index(context, query)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        for item in items:
            check_rule(item)
        made = [new_rule(item) for item in items]
        with self.db.read() as connection:
            limits = self._quotas.limits(connection, KIND, made)
        with self.db.transaction() as tx:
            tx.insert(t.firewall_rules, [as_row(t.firewall_rules, rule) for rule in made], limits)
        return made

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = RULES.get(connection, key, revision=revision)
            after = {**before, **values}
            check_rule(after)
            if before["shared"] and not after["shared"]:
                _check_unshared(connection, before)
        with self.db.transaction() as tx:
            stamp = update_row(tx, t.firewall_rules, before, values)
            policies = sorted(tx.execute(_POLICIES, {"rule": key}).scalars())
            changed = {"audited": False, "revision_number": _p.revision_number + 1, "updated_at": now()}
            for some in _batches(policies):
                tx.write(sa.update(t.firewall_policies).where(_p.id.in_(some)).values(changed))
            if any(after[name] != before[name] for name in RULE_MATCH):
                change_groups(tx, policies)
        return {**after, **stamp, "firewall_policy_id": policies or None}

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            if exists(connection, _pr.firewall_rule_id == key):
                raise errors.FirewallRuleInUse(id=key)
            before = RULES.get(connection, key, revision=revision)
        with self.db.transaction() as tx:
            # A policy that has got the rule since makes this fail on its foreign key, and it is decided again.
            sharing.delete_object(tx, t.firewall_rules, before)


def new_rule(values: Object) -> Object:
    return fresh({**values, "firewall_policy_id": None})


def _check_unshared(connection: Connection, rule: Object) -> None:
    """Refuse to unshare a rule that policies have which could not get it any more."""
    having = _pr.firewall_rule_id == rule["id"], _pr.firewall_policy_id == _p.id
    if exists(connection, *having, sa.or_(_p.shared, _p.project_id != rule["project_id"])):
        raise errors.FirewallRuleInUse(id=rule["id"])


def change_groups(tx: Transaction, policies: Sequence[str]) -> None:
    """Raise the revision of groups with one of these policies: hosts have to apply it.

    The change log has the rule or the policy, from which the feed derives the groups, also those that are created now.
    """
    changed = {"status": PENDING_UPDATE, "revision_number": _g.revision_number + 1, "updated_at": now()}
    for some in _batches(policies):
        # Ids, not a subquery: with one in each part of an OR, PostgreSQL and MariaDB read all groups.
        having = sa.or_(_g.ingress_firewall_policy_id.in_(some), _g.egress_firewall_policy_id.in_(some))
        tx.write(sa.update(t.firewall_groups).where(having).values(changed))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + MAX_PARAMETERS] for start in range(0, len(ids), MAX_PARAMETERS))
