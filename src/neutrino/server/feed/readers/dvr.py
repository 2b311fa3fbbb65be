"""Reads distributed routers: which hosts need one, and what each of them gets.

A distributed router is on every host with an L3 agent in a DVR mode and a port of an instance, of DHCP or of a load
balancer on one of its subnets, and on the host that its SNAT is scheduled to. The set of hosts is not stored: it is derived
from the bindings of ports, including those that a live migration prepares.
"""

from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents
from neutrino.model.routing import Router, RouterInterface
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, grouped, read_rows
from neutrino.server.l3.routers.port_layout import INTERFACES
from neutrino.server.l3.scheduling.dvr import EXTERNAL_MODES, ROUTED_LOCALLY
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND

AgentModes = Mapping[str, str]  # host → agent_mode of its L3 agent
DVR_MODES: Final = frozenset({"dvr", "dvr_snat", "dvr_no_external"})
_r, _rp, _ra, _p, _b = t.routers.c, t.router_ports.c, t.router_l3_agents.c, t.ports.c, t.port_bindings.c
_al, _f, _a = t.ip_allocations.c, t.floatingips.c, t.agents.c
_L3_AGENTS = sa.and_(_a.agent_type == agents.L3, _a.admin_state_up.is_(True))


def read_agent_modes(connection: Connection) -> AgentModes:
    """The hosts whose L3 agents are in a DVR mode and administratively up."""
    rows = connection.execute(sa.select(_a.host, _a.configurations).where(_L3_AGENTS))
    modes = ((row.host, msgspec.json.decode(row.configurations).get(agents.AGENT_MODE)) for row in rows)
    return {host: mode for host, mode in modes if mode in DVR_MODES}


def read_local_hosts(connection: Connection, ids: Ids, modes: AgentModes) -> dict[str, frozenset[str]]:
    """Distributed router → the hosts with ports on its subnets."""
    if not modes:
        return {}
    theirs = t.ip_allocations.alias()
    statement = (
        sa.select(_rp.router_id, _b.host)
        .join(t.routers, sa.and_(_r.id == _rp.router_id, _r.distributed.is_(True)))
        .join(t.ip_allocations, _al.port_id == _rp.port_id)
        .join(theirs, theirs.c.subnet_id == _al.subnet_id)
        .join(t.ports, sa.and_(_p.id == theirs.c.port_id, ROUTED_LOCALLY))
        .join(t.port_bindings, _b.port_id == _p.id)
        .where(_rp.port_type.in_(INTERFACES), _b.host != "", _b.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]))
        .distinct()
    )
    found = grouped(read_rows(connection, statement, _rp.router_id, ids), "router_id", attrgetter("host"))
    return {router_id: local for router_id, hosts in found.items() if (local := frozenset(hosts) & modes.keys())}


def read_distributed_ports(connection: Connection, ports: Ids) -> dict[str, frozenset[str]]:
    """Interfaces of distributed routers → the hosts of the router, which all have the port."""
    statement = (
        sa.select(_rp.port_id, _rp.router_id)
        .join(t.routers, _r.id == _rp.router_id)
        .where(_r.distributed.is_(True), _rp.port_type.in_(INTERFACES))
    )
    routers = {row.port_id: row.router_id for row in read_rows(connection, statement, _rp.port_id, ports)}
    if not routers:
        return {}
    ids = sorted(set(routers.values()))
    local = read_local_hosts(connection, ids, read_agent_modes(connection))
    scheduled = sa.select(_ra.router_id, _a.host).join(t.agents, _a.id == _ra.agent_id).where(_L3_AGENTS)
    hosts = grouped(read_rows(connection, scheduled, _ra.router_id, ids), "router_id", attrgetter("host"))
    return {
        port_id: frozenset(hosts[router_id]) | local.get(router_id, frozenset())
        for port_id, router_id in routers.items()
    }


def distributed_routers_of(connection: Connection, ports: Ids, networks: Collection[str], agent_ids: Ids) -> set[str]:
    """The distributed routers that are affected though none of their own ports changed.

    A port decides by where it is bound which hosts its networks' routers are on, and where its floating IP is translated;
    `networks` are those of ports that are deleted. The mode of an L3 agent affects all of them.
    """
    floating = sa.select(_f.router_id).where(_f.router_id.is_not(None))
    found = {row.router_id for row in read_rows(connection, floating, _f.port_id, ports)}
    where = sa.select(_p.network_id).distinct()
    affected = sorted({row.network_id for row in read_rows(connection, where, _p.id, ports)} | set(networks))
    routers = (
        sa.select(_rp.router_id)
        .join(t.ports, _p.id == _rp.port_id)
        .join(t.routers, _r.id == _rp.router_id)
        .where(_r.distributed.is_(True))
    )
    found |= {row.router_id for row in read_rows(connection, routers, _p.network_id, affected)}
    l3_agents = sa.select(_a.id).where(_a.agent_type == agents.L3)
    if agent_ids is None or any(True for _ in read_rows(connection, l3_agents, _a.id, agent_ids)):
        found |= set(connection.execute(sa.select(_r.id).where(_r.distributed.is_(True))).scalars())
    return found


def render_for_hosts(
    base: Router,
    local: frozenset[str],
    central: frozenset[str],
    modes: AgentModes,
    gateways: Mapping[str, RouterInterface],
) -> Iterator[tuple[str, Router]]:
    """A distributed router as each host gets it.

    `local`: hosts with ports on its subnets; `central`: hosts of its SNAT; `gateways`: host → agent gateway port. A
    floating IP is translated on the host of its port if that host reaches the external network itself, else centrally.
    """
    outward = {host for host in local if modes.get(host) in EXTERNAL_MODES}
    for host in sorted(local | central):
        floating = [fip for fip in base.floating_ips if fip.host == host and host in outward and host in gateways]
        if host in central:
            others = (fip for fip in base.floating_ips if fip.host not in outward)
            floating += [msgspec.structs.replace(fip, host="") for fip in others]
        router = msgspec.structs.replace(
            base,
            floating_ips=tuple(floating),
            port_forwardings=base.port_forwardings if host in central else (),
            centralized=host in central,
            agent_gateway=gateways.get(host) if any(fip.host for fip in floating) else None,
        )
        yield host, router
