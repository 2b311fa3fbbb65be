"""On which hosts routers are: those that they are scheduled to, and those whose ports a distributed router serves.

A centralized router is on the hosts of the agents that it is scheduled to. A distributed one is also on every host with an
L3 agent in a DVR mode and a port of an instance, of DHCP or of a load balancer on one of its subnets. These hosts are not
stored: they follow from the bindings of ports, including those that a live migration prepares.
"""

from collections import defaultdict
from collections.abc import Mapping
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.tables import router_l3_agents, router_ports, routers
from neutrino.model import agents as words
from neutrino.model.agents import DVR_MODES
from neutrino.model.device_owners import GATEWAY, HA_INTERFACE, INTERFACES, SNAT
from neutrino.model.trunks import SUBPORT_OWNER
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.feed.readers.rows import Ids, grouped, one_of, read_rows
from neutrino.server.hosts.serving import serving
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND

AgentModes = Mapping[str, str]  # host → agent_mode of its L3 agent
Hosts = Mapping[str, frozenset[str]]  # by the id of a port or a router
Placement = tuple[str | None, str | None]  # id of the host's HA port, HA state of the router there
_L3 = t.agents.c.agent_type == words.L3
REPLICATED: Final = (HA_INTERFACE, GATEWAY, SNAT)  # of an HA router: on all its hosts
_IS_DISTRIBUTED = sa.and_(routers.c.distributed, one_of(router_ports.c.port_type, INTERFACES))
_ON_SEVERAL_HOSTS = RowsLookup(
    sa.select(router_ports.c.port_id, router_ports.c.router_id, _IS_DISTRIBUTED.label("is_distributed"))
    .join(routers, routers.c.id == router_ports.c.router_id)
    .where(sa.or_(_IS_DISTRIBUTED, sa.and_(routers.c.ha, one_of(router_ports.c.port_type, REPLICATED))))
)
_local = t.ip_allocations.alias("local_allocations")
# Ports whose packets their host routes itself.
ROUTED_LOCALLY: Final = sa.or_(
    t.ports.c.device_owner.like("compute:%"),
    t.ports.c.device_owner.in_(
        ("network:dhcp", "neutron:LOADBALANCER", "neutron:LOADBALANCERV2", "Octavia", SUBPORT_OWNER)
    ),
)
# Routers and the hosts with such ports on their subnets. By bindings: the host that a live migration prepares needs the
# router before the instance runs there.
LOCAL_HOSTS: Final = (
    sa.select(router_ports.c.router_id, t.port_bindings.c.host)
    .join(t.ip_allocations, t.ip_allocations.c.port_id == router_ports.c.port_id)
    .join(_local, _local.c.subnet_id == t.ip_allocations.c.subnet_id)
    .join(t.ports, sa.and_(t.ports.c.id == _local.c.port_id, ROUTED_LOCALLY))
    .join(t.port_bindings, t.port_bindings.c.port_id == t.ports.c.id)
    .where(router_ports.c.port_type.in_(INTERFACES), t.port_bindings.c.host != "")
    .distinct()
)


def agents_with_ports(connection: Connection, router_id: str) -> list[str]:
    """The L3 agents on the hosts that need a distributed router, by the ports on its subnets."""
    hosts = LOCAL_HOSTS.with_only_columns(t.port_bindings.c.host).where(router_ports.c.router_id == router_id)
    return list(
        connection.execute(
            sa.select(t.agents.c.id).where(t.agents.c.agent_type == words.L3, t.agents.c.host.in_(hosts))
        ).scalars()
    )


class RouterHosts(NamedTuple):
    """The ports that several hosts have, with these hosts."""

    replicated: Hosts  # all hosts that the router is scheduled to: of an HA router active and standby
    distributed: Hosts  # of interfaces of distributed routers: all hosts that have the router


def read_router_hosts(connection: Connection, ports: Ids) -> RouterHosts:
    """The hosts of those of these ports that several hosts have."""
    rows = list(read_rows(connection, _ON_SEVERAL_HOSTS, router_ports.c.port_id, ports))
    if not rows:
        return RouterHosts({}, {})
    central = read_placements(connection, sorted({row.router_id for row in rows}))
    replicated = {r.port_id: frozenset(central[r.router_id]) for r in rows if r.router_id in central}
    interfaces = {row.port_id: row.router_id for row in rows if row.is_distributed}
    router_ids = sorted(set(interfaces.values()))
    local = read_local_hosts(connection, router_ids, read_agent_modes(connection)) if router_ids else {}
    nowhere = frozenset[str]()
    distributed = {key: replicated.get(key, nowhere) | local.get(r, nowhere) for key, r in interfaces.items()}
    return RouterHosts(replicated, distributed)


def read_agent_modes(connection: Connection) -> AgentModes:
    """The hosts whose L3 agents are in a DVR mode and serve."""
    rows = connection.execute(sa.select(t.agents.c.host, t.agents.c.configurations).where(_L3, serving(connection)))
    modes = ((row.host, msgspec.json.decode(row.configurations).get(words.AGENT_MODE)) for row in rows)
    return {host: mode for host, mode in modes if mode in DVR_MODES}


def read_local_hosts(connection: Connection, ids: Ids, modes: AgentModes) -> dict[str, frozenset[str]]:
    """Distributed router → the hosts with ports on its subnets."""
    if not modes:
        return {}
    bound = LOCAL_HOSTS.where(t.port_bindings.c.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]))
    statement = bound.join(routers, sa.and_(routers.c.id == router_ports.c.router_id, routers.c.distributed.is_(True)))
    by_router = grouped(connection, statement, router_ports.c.router_id, ids, attrgetter("host"))
    return {router_id: local for router_id, hosts in by_router.items() if (local := frozenset(hosts) & modes.keys())}


def read_placements(connection: Connection, ids: Ids) -> dict[str, dict[str, Placement]]:
    """Router → the hosts whose agents it is scheduled to; without those that are disabled and do not serve it."""
    statement = (
        sa.select(
            router_l3_agents.c.router_id, router_l3_agents.c.ha_port_id, router_l3_agents.c.ha_state, t.agents.c.host
        )
        .join(t.agents, t.agents.c.id == router_l3_agents.c.agent_id)
        .where(_L3, serving(connection))
        .order_by(t.agents.c.host)
    )
    placements: defaultdict[str, dict[str, Placement]] = defaultdict(dict)
    for row in read_rows(connection, statement, router_l3_agents.c.router_id, ids):
        placements[row.router_id][row.host] = row.ha_port_id, row.ha_state
    return dict(placements)


def read_disabled_hosts(connection: Connection, ids: Ids) -> dict[str, list[str]]:
    """Router → the hosts whose agents it is scheduled to, and which do not serve it as their admin_state_up is false."""
    statement = (
        sa.select(router_l3_agents.c.router_id, t.agents.c.host)
        .join(t.agents, t.agents.c.id == router_l3_agents.c.agent_id)
        .where(sa.not_(serving(connection)))
        .order_by(t.agents.c.host)
    )
    return grouped(connection, statement, router_l3_agents.c.router_id, ids, attrgetter("host"))
