"""Reading firewall rules, policies and groups: the views of the API, and which objects a project may refer to.

A project sees its own objects and those that are shared. `shared` is a column, set by administrators: unlike networks,
these objects have no RBAC policies.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall import errors
from neutrino.features.firewall.checks import DOWN, INACTIVE
from neutrino.features.firewall.tables import (
    firewall_groups,
    firewall_policies,
    firewall_rules,
    group_ports,
    policy_rules,
)
from neutrino.model.objects import Object
from neutrino.server.context import Context
from neutrino.server.db.sql import Column
from neutrino.server.db.view import PROJECT, Added, FilterRule, View, among, own_ids, viewed_by
from neutrino.server.errors import ApiError

MAX_PARAMETERS = 10_000  # in one query; SQLite's limit is the lowest, at 32,766


def _view(table: sa.Table, not_found: type[ApiError], **more: Any) -> View:
    shared = table.alias()
    return View(
        table,
        scope=sa.or_(table.c.project_id == PROJECT, table.c.shared),
        listed=among(table, own_ids(table), sa.select(shared.c.id).where(shared.c.shared)),
        not_found=not_found,
        **more,
    )


def _having(column: Column, member: Column, key: Column) -> FilterRule:
    """The filter of a list attribute: objects with one of the values as a member."""
    return lambda values: key.in_(sa.select(column).where(member.in_(list(values))))


def _lists(
    of: Column, member: Column, empty: Callable[[], object]
) -> Callable[[Connection, Sequence[Object]], Iterable[object]]:
    """Reads the members of each row's object, ordered; `empty` for those without any."""

    def read(connection: Connection, rows: Sequence[Object]) -> list[object]:
        found: dict[str, list[str]] = defaultdict(list)
        keys = [row["id"] for row in rows]
        for start in range(0, len(keys), MAX_PARAMETERS):
            some = sa.select(of, member).where(of.in_(keys[start : start + MAX_PARAMETERS])).order_by(member)
            for key, value in connection.execute(some):
                found[key].append(value)
        return [found[key] if key in found else empty() for key in keys]

    return read


_HAS_PORTS = sa.exists(sa.select(group_ports.c.port_id).where(group_ports.c.firewall_group_id == firewall_groups.c.id))
_HAS_POLICY = sa.or_(
    firewall_groups.c.ingress_firewall_policy_id.is_not(None), firewall_groups.c.egress_firewall_policy_id.is_not(None)
)
# Derived when it is read: ports are deleted without a look at their group.
_STATUS = sa.case(
    (sa.not_(sa.and_(_HAS_PORTS, _HAS_POLICY)), INACTIVE),
    (sa.not_(firewall_groups.c.admin_state_up), DOWN),
    else_=firewall_groups.c.status,
)

_RULE, _POLICY = policy_rules.c.firewall_rule_id, policy_rules.c.firewall_policy_id
RULES = _view(
    firewall_rules,
    errors.FirewallRuleNotFound,
    filters={"firewall_policy_id": _having(_RULE, _POLICY, firewall_rules.c.id)},
    # As in Neutron, the policies of a rule without any are null and not an empty list.
).composed({"firewall_policy_id": Added(("id",), _lists(_RULE, _POLICY, lambda: None))})
POLICIES = _view(
    firewall_policies,
    errors.FirewallPolicyNotFound,
    filters={"firewall_rules": _having(_POLICY, _RULE, firewall_policies.c.id)},
)
GROUPS = _view(
    firewall_groups,
    errors.FirewallGroupNotFound,
    computed={"status": _STATUS},
    filters={"ports": _having(group_ports.c.firewall_group_id, group_ports.c.port_id, firewall_groups.c.id)},
    hidden=("is_default",),
).composed({"ports": Added(("id",), _lists(group_ports.c.firewall_group_id, group_ports.c.port_id, list))})


def visible_rows(
    connection: Connection, context: Context, table: sa.Table, ids: Iterable[str], not_found: type[ApiError]
) -> Object:
    """Project and sharing of these rules or policies by id; an error for one that the caller may not see."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    statement = sa.select(table.c.id, table.c.project_id, table.c.shared).where(table.c.id.in_(wanted))
    if not context.is_admin:
        statement = statement.where(sa.or_(table.c.project_id == PROJECT, table.c.shared))
    rows = {row.id: row for row in connection.execute(statement, viewed_by(context.project_id))}
    for key in wanted:
        if key not in rows:
            raise not_found(id=key)
    return rows
