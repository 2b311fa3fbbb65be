"""Whether a router has the agents that it needs: the status that the API shows, and the reason where it has not.

A router with something to do (an interface, a gateway, HA) and no agent forwards nothing, and so does a distributed one
where no L3 agent runs in a DVR mode: it is DOWN. That follows from what is stored (`router_l3_agents`, `router_ports`,
what agents reported), so it is asked with every read and kept nowhere. An agent that has the router and is dead does not
count: the router has its place, and the agent's own `alive` says the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.server.db import tables as t
from neutrino.server.l3.device_owners import GATEWAY, INTERFACES
from neutrino.server.l3.scheduling.candidates import DVR, DVR_NO_EXTERNAL, DVR_SNAT, L3Agent, fits, modes_for

DOWN: Final = "DOWN"
MOST_NAMED: Final = 10  # agents in one line of the log
DVR_MODES: Final = (DVR, DVR_SNAT, DVR_NO_EXTERNAL)
_r, _rp, _b, _a = t.routers.c, t.router_ports.c, t.router_l3_agents.c, t.agents.c


def _has(*port_types: str) -> sa.ColumnElement[bool]:
    return sa.exists().where(_rp.router_id == _r.id, _rp.port_type.in_(port_types))


_HAS_AGENT = sa.exists().where(_b.router_id == _r.id)
# In the text of a JSON object, as agents' configurations are stored. Few rows, and asked once for a whole list.
_HAS_DVR = sa.exists().where(
    _a.agent_type == words.L3,
    sa.or_(*(_a.configurations.contains(f'"{words.AGENT_MODE}":"{mode}"', autoescape=True) for mode in DVR_MODES)),
)
_NEEDS_AGENT = sa.or_(
    _r.ha,
    sa.and_(_r.distributed, _r.gw_network_id.is_not(None)),
    sa.and_(sa.not_(_r.distributed), _has(GATEWAY, *INTERFACES)),
)
STATUS: Final[sa.ColumnElement[str]] = sa.case(
    (sa.and_(_NEEDS_AGENT, sa.not_(_HAS_AGENT)), DOWN),
    (sa.and_(_r.distributed, sa.not_(_HAS_DVR), _has(*INTERFACES)), DOWN),
    else_=_r.status,
)


def why_unhosted(
    router: Mapping[str, Any], agents: Sequence[L3Agent], hints: Sequence[str], *, has_agent: bool, is_attached: bool
) -> str:
    """The reason why a router is DOWN, for operators; empty if there is none any more.

    `has_agent`: it is scheduled to one; `is_attached`: it has an interface.
    """
    reasons = []
    if router["distributed"] and is_attached and not any(agent.mode in DVR_MODES for agent in agents):
        reasons.append(f"it is distributed, and no L3 agent has agent_mode {', '.join(DVR_MODES[:-1])}")
    needs_agent = router["ha"] or router["gw_network_id"] is not None or (is_attached and not router["distributed"])
    if needs_agent and not has_agent:
        modes = " or ".join(modes_for(router))
        named = sorted(agents, key=lambda agent: agent.host)
        others = [f"{agent.host}: {', '.join(_unfit(agent, router, hints))}" for agent in named[:MOST_NAMED]]
        others += [f"and {len(agents) - MOST_NAMED} more"] if len(agents) > MOST_NAMED else []
        reasons.append(f"no L3 agent with agent_mode {modes} can take it ({'; '.join(others) or 'none has reported'})")
    return "; ".join(reasons)


def _unfit(agent: L3Agent, router: Mapping[str, Any], hints: Sequence[str]) -> Iterator[str]:
    """Why an agent does not take a router."""
    if not agent.candidate.alive:
        yield "dead"
    if not agent.candidate.admin_state_up:
        yield "administratively down"
    if hints and agent.candidate.zone not in hints:
        yield f"not in zone {', '.join(hints)}"
    if agent.mode not in modes_for(router):
        yield f"agent_mode {agent.mode}"
    elif not fits(agent, router):
        yield "for other routers (handle_internal_only_routers, gateway_external_network_id)"
    elif agent.candidate.serves and (not hints or agent.candidate.zone in hints):
        yield "not asked, as router_auto_schedule is off"
