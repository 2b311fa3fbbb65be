"""Reads firewall groups, with the enabled rules of both policies, and which group filters a port.

A change of a rule or a policy is logged with the rule or the policy; `groups_of` finds the groups that it affects.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.server.api.resources.common import protocol_number
from neutrino.server.db import tables as t
from neutrino.server.feed.declarations import Changed
from neutrino.server.feed.readers.rows import Ids, build, grouped, read_ids, read_rows, select

_g, _r, _pr, _gp = t.firewall_groups.c, t.firewall_rules.c, t.firewall_policy_rules.c, t.firewall_group_ports.c
_POLICIES = (_g.ingress_firewall_policy_id, _g.egress_firewall_policy_id)
_GROUPS = select(FirewallGroup, t.firewall_groups, *_POLICIES)
_PORTS = (_r.source_port, _r.destination_port)
_RULES = (
    select(FirewallRule, t.firewall_rules, _pr.firewall_policy_id, *_PORTS)
    .join(t.firewall_policy_rules, _pr.firewall_rule_id == _r.id)
    .where(_r.enabled)
    .order_by(_pr.firewall_policy_id, _pr.position)
)
# The group that filters a port of the outer statement. One without any policy filters nothing.
_ENFORCED = (
    sa.select(_gp.firewall_group_id)
    .join(t.firewall_groups, _g.id == _gp.firewall_group_id)
    .where(_gp.port_id == t.ports.c.id, sa.or_(*(policy.is_not(None) for policy in _POLICIES)))
    .correlate(t.ports)
)
_IS_OF_ROUTER = sa.exists().where(t.router_ports.c.port_id == _gp.port_id).correlate(t.firewall_group_ports)


def _or_none(group: sa.Select[tuple[str]]) -> sa.Label[str]:
    return sa.func.coalesce(group.scalar_subquery(), "").label("firewall_group_id")


ROUTER_PORT_GROUP = _or_none(_ENFORCED)
# The L2 role filters ports of instances; those of routers are filtered in the router.
PORT_GROUP = _or_none(_ENFORCED.where(sa.not_(_IS_OF_ROUTER)))


def groups_of(connection: Connection, changed: Changed) -> set[str]:
    """The groups with a changed policy, or with a policy that has a changed rule."""
    rules, policies = changed.named("firewall_rule"), changed.named("firewall_policy")
    found = set(policies) | read_ids(connection, sa.select(_pr.firewall_policy_id), _pr.firewall_rule_id, rules)
    return {group for column in _POLICIES for group in read_ids(connection, sa.select(_g.id), column, sorted(found))}


def read_firewall_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, FirewallGroup]]:
    rows = list(read_rows(connection, _GROUPS, _g.id, ids))
    policies = {policy for row in rows for policy in (row.ingress_firewall_policy_id, row.egress_firewall_policy_id)}
    wanted = None if ids is None else sorted(policy for policy in policies if policy is not None)
    rules = grouped(connection, _RULES, _pr.firewall_policy_id, wanted, _rule)
    for row in rows:
        ingress, egress = rules[row.ingress_firewall_policy_id], rules[row.egress_firewall_policy_id]
        yield row.id, build(FirewallGroup, row, ingress=tuple(ingress), egress=tuple(egress))


def _rule(row: Any) -> FirewallRule:
    return FirewallRule(
        id=row.id,
        action=row.action,
        ip_version=row.ip_version,
        protocol=None if row.protocol is None else protocol_number(row.protocol),
        source_ip_address=_prefix(row.source_ip_address),
        destination_ip_address=_prefix(row.destination_ip_address),
        **_ports("source", row.source_port),
        **_ports("destination", row.destination_port),
    )


def _prefix(address: str | None) -> str | None:
    return None if address is None else str(ipaddress.ip_interface(address).network)


def _ports(side: str, text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    first, _, last = text.partition(":")
    return {f"{side}_port_first": int(first), f"{side}_port_last": int(last or first)}
