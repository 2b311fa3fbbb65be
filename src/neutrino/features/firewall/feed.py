"""Reads firewall groups, with the enabled rules of both policies, and which group filters a port.

A change of a rule or a policy is logged with the rule or the policy; `groups_of` finds the groups that it affects.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.engine import Connection

from neutrino.features.firewall.tables import firewall_groups, firewall_rules, group_ports, policy_rules
from neutrino.features.router.tables import router_ports
from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.model.kinds import KINDS
from neutrino.model.roles import L2, L3
from neutrino.model.routing import Router, RouterInterface
from neutrino.model.state import Port
from neutrino.server.api.resources.common import protocol_number
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.declarations import NO_ADDITIONS, Additions, Affects, Changed, Feed, Inner, Part, Reference
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.readers.rows import Ids, build, grouped, read_ids, read_rows, select
from neutrino.server.feed.reports.rules import DONE_OR_NOT, ReportedStatus

_POLICIES = (firewall_groups.c.ingress_firewall_policy_id, firewall_groups.c.egress_firewall_policy_id)
_GROUPS = select(FirewallGroup, firewall_groups, *_POLICIES)
_PORTS = (firewall_rules.c.source_port, firewall_rules.c.destination_port)
_RULES = (
    select(FirewallRule, firewall_rules, policy_rules.c.firewall_policy_id, *_PORTS)
    .join(policy_rules, policy_rules.c.firewall_rule_id == firewall_rules.c.id)
    .where(firewall_rules.c.enabled)
    .order_by(policy_rules.c.firewall_policy_id, policy_rules.c.position)
)
# The groups that filter ports. One without any policy filters nothing.
_FILTERED = (
    sa.select(group_ports.c.port_id, group_ports.c.firewall_group_id)
    .join(firewall_groups, firewall_groups.c.id == group_ports.c.firewall_group_id)
    .where(sa.or_(*(policy.is_not(None) for policy in _POLICIES)))
)
_IS_OF_ROUTER = sa.exists().where(router_ports.c.port_id == group_ports.c.port_id)
# The L2 role filters ports of instances; those of routers are filtered in the router.
_OF_PORTS = RowsLookup(_FILTERED.where(sa.not_(_IS_OF_ROUTER)))
_OF_ROUTERS = RowsLookup(_FILTERED.join(router_ports, router_ports.c.port_id == group_ports.c.port_id))


def read_port_groups(connection: Connection, ids: Ids) -> dict[str, dict[str, str]]:
    rows = read_rows(connection, _OF_PORTS, group_ports.c.port_id, ids)
    return {row.port_id: {"firewall_group_id": row.firewall_group_id} for row in rows}


def read_router_groups(connection: Connection, routers: Ids) -> Callable[[Router], Router]:
    rows = read_rows(connection, _OF_ROUTERS, router_ports.c.router_id, routers)
    return partial(_filtered, {row.port_id: row.firewall_group_id for row in rows})


def _filtered(groups: Mapping[str, str], router: Router) -> Router:
    """The router with the firewall groups of its interfaces.

    Traffic between a subnet of a distributed router and the external network passes the SNAT port, not the interface: it
    has the group of the interface on its subnet.
    """
    subnets = {a.subnet_id: groups[port.id] for port in router.interfaces if port.id in groups for a in port.addresses}
    if not subnets:
        return router

    def with_group(port: RouterInterface, group_id: str) -> RouterInterface:
        return replace(port, firewall_group_id=group_id)

    interfaces = (with_group(port, groups.get(port.id, "")) for port in router.interfaces)
    snat = (
        with_group(port, next((subnets[a.subnet_id] for a in port.addresses if a.subnet_id in subnets), ""))
        for port in router.snat_interfaces
    )
    return replace(router, interfaces=tuple(interfaces), snat_interfaces=tuple(snat))


def groups_of(connection: Connection, changed: Changed) -> set[str]:
    """The groups with a changed policy, or with a policy that has a changed rule."""
    rules, policies = changed.named("firewall_rule"), changed.named("firewall_policy")
    having = sa.select(policy_rules.c.firewall_policy_id)
    changed_policies = sorted({*policies, *read_ids(connection, having, policy_rules.c.firewall_rule_id, rules)})
    groups = sa.select(firewall_groups.c.id)
    return {key for column in _POLICIES for key in read_ids(connection, groups, column, changed_policies)}


def read_firewall_groups(
    connection: Connection, ids: Ids, additions: Additions = NO_ADDITIONS
) -> Iterator[tuple[str, FirewallGroup]]:
    rows = list(read_rows(connection, _GROUPS, firewall_groups.c.id, ids))
    policies = {policy for row in rows for policy in (row.ingress_firewall_policy_id, row.egress_firewall_policy_id)}
    wanted = None if ids is None else sorted(policy for policy in policies if policy is not None)
    rules = grouped(connection, _RULES, policy_rules.c.firewall_policy_id, wanted, _rule)
    added = additions.read(connection, ids)
    for row in rows:
        ingress, egress = rules[row.ingress_firewall_policy_id], rules[row.egress_firewall_policy_id]
        yield row.id, build(FirewallGroup, row, ingress=tuple(ingress), egress=tuple(egress), **added.fields(row.id))


def _rule(row: NamedRow) -> FirewallRule:
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


def _of_port(port: Port) -> Iterable[str]:
    return (port.firewall_group_id,) if port.firewall_group_id else ()


def _of_router(router: Router) -> Iterable[str]:
    return filter(None, (port.firewall_group_id for port in (*router.interfaces, *router.snat_interfaces)))


_KIND = KINDS["firewall_group"]
FEED = Feed(
    kinds=(ServedKind(_KIND, SharedObjects, source="firewall_group", read=read_firewall_groups, takes_additions=True),),
    parts=(Part(of="port", defaults={"firewall_group_id": ""}, read=read_port_groups),),
    inner=(Inner(of="router", read=read_router_groups),),
    references=(
        Reference("firewall_group", "port", _of_port),
        Reference("firewall_group", "router", _of_router),
    ),
    affects=(Affects(records="firewall_group", named=("firewall_rule", "firewall_policy"), find=groups_of),),
    statuses={"firewall_group": ReportedStatus(DONE_OR_NOT, frozenset({L2, L3}))},
)
