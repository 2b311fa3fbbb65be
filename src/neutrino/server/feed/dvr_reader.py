"""Reading distributed routers for the feed: which hosts need one, and what each of them gets.

A distributed router is on every host that has an L3 agent that takes part and a port of an instance, of DHCP or of a load
balancer on one of its subnets, and on the host that its SNAT is scheduled to. None of that is written anywhere: it follows
from the ports, also from those that a live migration is about to bring.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.routing import FloatingIp, Router, RouterInterface
from neutrino.model.state import DvrMac
from neutrino.server.db import tables as t
from neutrino.server.feed.rows import Ids, read_rows
from neutrino.server.l3.routers.port_layout import AGENT_GATEWAY, INTERFACES
from neutrino.server.l3.scheduling.dvr import EXTERNAL_MODES, ROUTED_LOCALLY
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND

Modes = Mapping[str, str]  # host, to the agent_mode of its L3 agent
DISTRIBUTING: Final = frozenset({"dvr", "dvr_snat", "dvr_no_external"})
_r, _rp, _ra, _p, _b = t.routers.c, t.router_ports.c, t.router_l3_agents.c, t.ports.c, t.port_bindings.c
_al, _f, _a, _m = t.ip_allocations.c, t.floatingips.c, t.agents.c, t.dvr_host_macs.c


def read_modes(connection: Connection) -> Modes:
    """The hosts whose L3 agents take part in distributed routers. An agent that is set down serves none."""
    statement = sa.select(_a.host, _a.configurations).where(_a.agent_type == words.L3, _a.admin_state_up.is_(True))
    says = ((row.host, msgspec.json.decode(row.configurations)) for row in connection.execute(statement))
    return {host: mode for host, said in says if (mode := said.get(words.AGENT_MODE)) in DISTRIBUTING}


def read_near(connection: Connection, ids: Ids, modes: Modes) -> dict[str, frozenset[str]]:
    """Distributed routers, each with the hosts that have something on its subnets."""
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
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in read_rows(connection, statement, _rp.router_id, ids):
        if row.host in modes:
            found[row.router_id].add(row.host)
    return {router_id: frozenset(hosts) for router_id, hosts in found.items()}


def read_distributed_ports(connection: Connection, ports: Ids) -> dict[str, frozenset[str]]:
    """These ports of distributed routers that are on every host, each with the hosts that it is on."""
    statement = (
        sa.select(_rp.port_id, _rp.router_id)
        .join(t.routers, _r.id == _rp.router_id)
        .where(_r.distributed.is_(True), _rp.port_type.in_(INTERFACES))
    )
    routers = {row.port_id: row.router_id for row in read_rows(connection, statement, _rp.port_id, ports)}
    if not routers:
        return {}
    ids = sorted(set(routers.values()))
    near = read_near(connection, ids, read_modes(connection))
    scheduled = (
        sa.select(_ra.router_id, _a.host)
        .join(t.agents, _a.id == _ra.agent_id)
        .where(_a.agent_type == words.L3, _a.admin_state_up.is_(True))
    )
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for row in read_rows(connection, scheduled, _ra.router_id, ids):
        hosts[row.router_id].add(row.host)
    return {
        port_id: frozenset(hosts[router_id]) | near.get(router_id, frozenset())
        for port_id, router_id in routers.items()
    }


def distributed_routers_of(connection: Connection, ports: Ids, networks: Collection[str], agents: Ids) -> set[str]:
    """The distributed routers that these concern without being part of them.

    `networks` are those of ports that are gone. Floating IPs follow their ports from host to host.
    """
    behind = sa.select(_f.router_id).where(_f.router_id.is_not(None))
    found = {row.router_id for row in read_rows(connection, behind, _f.port_id, ports)}
    where = sa.select(_p.network_id).distinct()
    concerned = sorted({row.network_id for row in read_rows(connection, where, _p.id, ports)} | set(networks))
    inside = (
        sa.select(_rp.router_id)
        .join(t.ports, _p.id == _rp.port_id)
        .join(t.routers, _r.id == _rp.router_id)
        .where(_r.distributed.is_(True))
    )
    found |= {row.router_id for row in read_rows(connection, inside, _p.network_id, concerned)}
    l3 = sa.select(_a.id).where(_a.agent_type == words.L3)
    if agents is None or any(True for _ in read_rows(connection, l3, _a.id, agents)):
        found |= set(connection.execute(sa.select(_r.id).where(_r.distributed.is_(True))).scalars())
    return found


def agent_gateway_ports(connection: Connection, networks: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The ports by which hosts reach these networks themselves, with network and host."""
    statement = sa.select(_p.id, _p.network_id, _p.host).where(_p.device_owner == AGENT_GATEWAY, _p.host != "")
    rows = read_rows(connection, statement, _p.network_id, sorted(set(networks)))
    return {row.id: (row.network_id, row.host) for row in rows}


def render_for_hosts(
    base: Router,
    near: frozenset[str],
    central: frozenset[str],
    modes: Modes,
    gateways: Mapping[str, RouterInterface],
) -> Iterator[tuple[str, Router]]:
    """A distributed router as each host gets it; `gateways` are the hosts' own ports on the network outside.

    A floating IP is translated where its port is, if that host reaches the outside itself, else where the SNAT is.
    """
    own = {host for host in near if modes.get(host) in EXTERNAL_MODES}
    for host in sorted(near | central):
        floating = [each for each in base.floating_ips if each.host == host and host in own and host in gateways]
        if host in central:
            floating += [_central(each) for each in base.floating_ips if each.host not in own]
        yield (
            host,
            msgspec.structs.replace(
                base,
                floating_ips=tuple(floating),
                port_forwardings=base.port_forwardings if host in central else (),
                centralized=host in central,
                agent_gateway=gateways.get(host) if any(each.host for each in floating) else None,
            ),
        )


def _central(floating_ip: FloatingIp) -> FloatingIp:
    return msgspec.structs.replace(floating_ip, host="")


def read_macs(connection: Connection, agents: Ids) -> Iterator[tuple[str, DvrMac]]:
    """By the id of the host's agent: its reports are what brings a host's MAC about."""
    statement = sa.select(_a.id, _m.host, _m.mac_address).join(
        t.dvr_host_macs, sa.and_(_m.host == _a.host, _a.agent_type == words.OVS)
    )
    for row in read_rows(connection, statement, _a.id, agents):
        yield row.id, DvrMac(id=row.host, mac_address=row.mac_address)
