"""Lease providers: the DHCP agents that give a port its lease. The port is not ACTIVE before one of them is ready.

    the DHCP agent of the port's host has    providers
    dhcp_distributed, and is enabled         that agent alone: DHCP requests do not leave such a host
    anything else                            the agents that the network is scheduled to; one of them is enough

On a routed network only agents on the port's segment count: those whose host has a DHCP port on one of its subnets, and the
distributed agent of the port's host, which has a copy of one.

A disabled agent gives no leases, unless disabled agents serve, and ports do not wait for a dead one. A network that is
scheduled to no agent has no DHCP port, and so no distributed copy of one either.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server.db import tables as t
from neutrino.server.db.sql import NamedRow
from neutrino.server.hosts.serving import disabled_agents_serve
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ipam.delegated import PROVISIONAL

BATCH = 1000  # ids in one statement
_server = t.ip_allocations.alias()
# The subnet has a DHCP port, on the agent's host, or elsewhere if the port's own host has the agent.
_SERVES_SUBNET = sa.exists().where(
    t.ip_allocations.c.subnet_id == t.subnets.c.id,
    t.ip_allocations.c.port_id == t.ports.c.id,
    t.ports.c.device_owner == DHCP_OWNER,
    sa.or_(t.ports.c.host == t.agents.c.host, t.agents.c.host == sa.bindparam("on_host")),
)
_COLUMNS = (
    t.agents.c.id,
    t.agents.c.host,
    t.agents.c.admin_state_up,
    t.agents.c.heartbeat_timestamp,
    t.agents.c.configurations,
)
# The agents that a network is scheduled to and the one of a port's host, in one query: every port that is bound runs it.
_CONCERNED = (
    sa.select(*_COLUMNS, t.network_dhcp_agents.c.network_id.is_not(None).label("scheduled"))
    .select_from(
        t.agents.outerjoin(
            t.network_dhcp_agents,
            sa.and_(
                t.network_dhcp_agents.c.agent_id == t.agents.c.id,
                t.network_dhcp_agents.c.network_id == sa.bindparam("network"),
            ),
        )
    )
    .where(
        t.agents.c.agent_type == words.DHCP,
        sa.or_(t.network_dhcp_agents.c.network_id.is_not(None), t.agents.c.host == sa.bindparam("on_host")),
    )
)
_CONCERNED_IF_DHCP = _CONCERNED.where(
    # A subnet that waits for its delegated prefix has no addresses to lease.
    sa.exists().where(
        t.subnets.c.id.in_(sa.bindparam("subnets", expanding=True)),
        t.subnets.c.enable_dhcp,
        t.subnets.c.cidr != PROVISIONAL,
        sa.or_(t.subnets.c.segment_id.is_(None), _SERVES_SUBNET),
    )
)
# For each port on a routed network, the hosts with DHCP ports on its subnets.
_SEGMENT_SERVERS = (
    sa.select(t.ip_allocations.c.port_id, t.ports.c.host)
    .where(
        t.ip_allocations.c.port_id.in_(sa.bindparam("ports", expanding=True)),
        t.ip_allocations.c.subnet_id == t.subnets.c.id,
        t.subnets.c.segment_id.is_not(None),
        _server.c.subnet_id == t.subnets.c.id,
        t.ports.c.id == _server.c.port_id,
        t.ports.c.device_owner == DHCP_OWNER,
    )
    .distinct()
)
_ON_SEGMENTS = sa.select(t.ip_allocations.c.port_id).where(
    t.ip_allocations.c.port_id.in_(sa.bindparam("ports", expanding=True)),
    t.ip_allocations.c.subnet_id == t.subnets.c.id,
    t.subnets.c.segment_id.is_not(None),
)
_ALL = sa.select(*_COLUMNS).where(t.agents.c.agent_type == words.DHCP)
_SCHEDULED = sa.select(t.network_dhcp_agents.c.network_id, t.network_dhcp_agents.c.agent_id).where(
    t.network_dhcp_agents.c.network_id.in_(sa.bindparam("networks", expanding=True))
)


class WaitingPort(NamedTuple):
    """A port with a DHCP block."""

    port_id: str
    network_id: str
    host: str


@dataclass(frozen=True, slots=True)
class DhcpAgent:
    host: str
    serves: bool = True
    heartbeat: str = ""
    distributed: bool = False


def choose_providers(scheduled: Collection[DhcpAgent], on_host: DhcpAgent | None) -> list[DhcpAgent]:
    """The providers among the agents that a port's network is scheduled to and the one of the port's host. Pure."""
    if scheduled and on_host is not None and on_host.distributed and on_host.serves:
        return [on_host]
    return [agent for agent in scheduled if agent.serves]


def provider_hosts(connection: Connection, network_id: str, port_host: str) -> frozenset[str]:
    """The hosts whose DHCP agents give leases to ports of the network that are bound to `port_host`."""
    rows = connection.execute(_CONCERNED, {"network": network_id, "on_host": port_host}).all()
    return frozenset(agent.host for agent in _providers(connection, rows, port_host))


def has_live_provider(connection: Connection, network_id: str, subnets: Sequence[str], host: str, cutoff: str) -> bool:
    """Whether a port on these subnets, bound to the host, gets a lease from a live agent: then it waits for it."""
    known = {"network": network_id, "on_host": host, "subnets": list(subnets)}
    rows = connection.execute(_CONCERNED_IF_DHCP, known).all()
    return any(agent.heartbeat >= cutoff for agent in _providers(connection, rows, host))


def without_live_provider(connection: Connection, ports: Sequence[WaitingPort], cutoff: str) -> list[WaitingPort]:
    """The ports whose lease providers are all dead or disabled, or that have none."""
    # One query for all agents: when DHCP agents die, many ports wait at once.
    all_serve = disabled_agents_serve(connection)
    agents = {row.id: _agent(row, all_serve) for row in connection.execute(_ALL)}
    on_host = {agent.host: agent for agent in agents.values()}
    scheduled: defaultdict[str, list[DhcpAgent]] = defaultdict(list)
    networks = sorted({port.network_id for port in ports})
    for start in range(0, len(networks), BATCH):
        for network_id, agent_id in connection.execute(_SCHEDULED, {"networks": networks[start : start + BATCH]}):
            if agent_id in agents:
                scheduled[network_id].append(agents[agent_id])

    servers = _servers_on_segments(connection, [port.port_id for port in ports])

    def is_served(port: WaitingPort) -> bool:
        near = servers.get(port.port_id)  # None: not on a routed network
        able = [agent for agent in scheduled[port.network_id] if near is None or agent.host in near]
        providers = choose_providers(able, on_host.get(port.host))
        return any(agent.heartbeat >= cutoff for agent in providers)

    return [port for port in ports if not is_served(port)]


def _servers_on_segments(connection: Connection, port_ids: Sequence[str]) -> dict[str, set[str]]:
    """Return, for each port with addresses on a routed network, the hosts that have DHCP ports on its subnets."""
    out: dict[str, set[str]] = {}
    for start in range(0, len(port_ids), BATCH):
        some = {"ports": list(port_ids[start : start + BATCH])}
        out |= {port_id: set() for port_id in connection.execute(_ON_SEGMENTS, some).scalars()}
        for port_id, host in connection.execute(_SEGMENT_SERVERS, some):
            out[port_id].add(host)
    return out


def _providers(connection: Connection, rows: Sequence[NamedRow], host: str) -> list[DhcpAgent]:
    all_serve = disabled_agents_serve(connection)
    known = [(row.scheduled, _agent(row, all_serve)) for row in rows]
    on_host = next((agent for _, agent in known if agent.host == host), None)
    return choose_providers([agent for scheduled, agent in known if scheduled], on_host)


def _agent(row: NamedRow, all_serve: bool) -> DhcpAgent:
    distributed = msgspec.json.decode(row.configurations).get(words.DHCP_DISTRIBUTED) is True
    return DhcpAgent(row.host, all_serve or bool(row.admin_state_up), row.heartbeat_timestamp, distributed)
