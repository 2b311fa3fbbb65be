"""Who gives a port its lease, and so whose word a port waits for before it is ACTIVE.

That is the DHCP agent of the port's own host where that one answers the ports of its host itself (`dhcp_distributed`):
requests do not leave such a host, so what others could give counts for nothing. Elsewhere it is the agents that the
network is scheduled to, and any of them will do. An agent that is set down gives no leases; one that is dead gives none
that is worth waiting for. A network that is scheduled to nobody has no DHCP port, and so no copy of one either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server.db import tables as t
from neutrino.server.ipam.delegated import PROVISIONAL
from neutrino.server.ml2.ports.provisioning import WaitingPort

MOST_IDS = 1000
_a, _b, _s = t.agents.c, t.network_dhcp_agents.c, t.subnets.c
_COLUMNS = (_a.id, _a.host, _a.admin_state_up, _a.heartbeat_timestamp, _a.configurations)
_CONCERNED = (
    sa.select(*_COLUMNS, _b.network_id.is_not(None).label("scheduled"))
    .select_from(
        t.agents.outerjoin(
            t.network_dhcp_agents, sa.and_(_b.agent_id == _a.id, _b.network_id == sa.bindparam("network"))
        )
    )
    .where(_a.agent_type == words.DHCP, sa.or_(_b.network_id.is_not(None), _a.host == sa.bindparam("on_host")))
)
_CONCERNED_IF_DHCP = _CONCERNED.where(
    # On a subnet that waits for its prefix there is nothing to lease.
    sa.exists().where(_s.id.in_(sa.bindparam("subnets", expanding=True)), _s.enable_dhcp, _s.cidr != PROVISIONAL)
)
_ALL = sa.select(*_COLUMNS).where(_a.agent_type == words.DHCP)
_SCHEDULED = sa.select(_b.network_id, _b.agent_id).where(_b.network_id.in_(sa.bindparam("networks", expanding=True)))


@dataclass(frozen=True, slots=True)
class Agent:
    host: str
    admin_state_up: bool = True
    heartbeat: str = ""
    distributed: bool = False


def choose_answering(scheduled: Collection[Agent], on_host: Iterable[Agent]) -> list[Agent]:
    """Of the agents that a port's network is scheduled to, and those on the port's host, the ones to wait for. Pure."""
    own = [agent for agent in on_host if agent.distributed and agent.admin_state_up] if scheduled else []
    return own or [agent for agent in scheduled if agent.admin_state_up]


def answers(connection: Connection, network_id: str, port_host: str, host: str) -> bool:
    """Whether a host's word counts for ports of a network that are bound to `port_host`."""
    rows = connection.execute(_CONCERNED, {"network": network_id, "on_host": port_host}).all()
    return any(agent.host == host for agent in _answering(rows, port_host))


def is_answered(connection: Connection, network_id: str, subnets: Sequence[str], host: str, cutoff: str) -> bool:
    """Whether a port on these subnets, bound to the host, gets a lease from somebody who is there: then it waits."""
    known = {"network": network_id, "on_host": host, "subnets": list(subnets)}
    rows = connection.execute(_CONCERNED_IF_DHCP, known).all()
    return any(agent.heartbeat >= cutoff for agent in _answering(rows, host))


def unanswered(connection: Connection, ports: Sequence[WaitingPort], cutoff: str) -> list[WaitingPort]:
    """Those whose agents are all dead or set down, or that have none."""
    if not ports:
        return []
    agents = {row.id: _agent(row) for row in connection.execute(_ALL)}
    on_host: defaultdict[str, list[Agent]] = defaultdict(list)
    for agent in agents.values():
        on_host[agent.host].append(agent)
    scheduled: defaultdict[str, list[Agent]] = defaultdict(list)
    for some in _batches(sorted({port.network_id for port in ports})):
        for network_id, agent_id in connection.execute(_SCHEDULED, {"networks": some}):
            if agent_id in agents:
                scheduled[network_id].append(agents[agent_id])
    return [
        port
        for port in ports
        if not any(
            agent.heartbeat >= cutoff
            for agent in choose_answering(scheduled.get(port.network_id, ()), on_host.get(port.host, ()))
        )
    ]


def _answering(rows: Iterable[Any], host: str) -> list[Agent]:
    known = [(row.scheduled, _agent(row)) for row in rows]
    return choose_answering([agent for is_so, agent in known if is_so], (a for _, a in known if a.host == host))


def _agent(row: Any) -> Agent:
    says = msgspec.json.decode(row.configurations)
    distributed = says.get(words.DHCP_DISTRIBUTED) is True
    return Agent(row.host, bool(row.admin_state_up), row.heartbeat_timestamp, distributed)


def _batches(items: Sequence[str]) -> Iterator[list[str]]:
    return (list(items[start : start + MOST_IDS]) for start in range(0, len(items), MOST_IDS))
