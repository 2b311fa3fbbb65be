"""Which L3 agents can serve a router, by what they last reported; and the status of a router without such agents.

A router with an interface or a gateway, and any HA router, needs an agent; a distributed one needs agents in a DVR mode.
Without them it forwards nothing and is DOWN. That follows from other rows (placements, ports, reports), so it is computed
with every read and stored nowhere. A dead agent that has the router does not make it DOWN: the agent's own `alive` shows
that.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from neutrino.features.router.errors import RouterNotFound
from neutrino.features.router.tables import router_l3_agents, router_ports, routers
from neutrino.model import agents as words
from neutrino.model.agents import DVR, DVR_MODES, DVR_NO_EXTERNAL, DVR_SNAT, LEGACY
from neutrino.model.device_owners import GATEWAY, INTERFACES
from neutrino.model.objects import Values
from neutrino.server.db import tables as t
from neutrino.server.scheduling.placements import Candidate, PlacementTable, choose

Router = Values
NOT_SCHEDULED_TO: Final = (DVR, DVR_NO_EXTERNAL)  # they get routers by the ports on their host
CHANCE: Final = "ChanceScheduler"
LEAST: Final = ("LeastRoutersScheduler", "AZLeastRoutersScheduler")
ALL_AGENTS: Final = 0  # as max_l3_agents_per_router
DOWN: Final = "DOWN"
MAX_NAMED: Final = 10  # agents in one log message

PLACEMENTS: Final = PlacementTable(
    "router",
    words.L3,
    "l3",
    router_l3_agents,
    routers,
    RouterNotFound,
    movable=sa.not_(routers.c.ha),  # the agents of an HA router elect another active one by VRRP
    reads_configurations=True,
)

# --- the choice -------------------------------------------------------------------------------------------------------


def mode(agent: Candidate) -> str:
    return str(agent.configurations.get(words.AGENT_MODE) or LEGACY)


def modes_for(router: Router) -> tuple[str, ...]:
    """The modes of agents that a router is scheduled to; a distributed one only for its SNAT."""
    return (DVR_SNAT,) if router["distributed"] else (LEGACY, DVR_SNAT)


def fits(agent: Candidate, router: Router) -> bool:
    """Whether an agent takes such routers: by its mode, and by the external network it is reserved for."""
    if mode(agent) not in modes_for(router):
        return False
    gateway = router["gw_network_id"]
    if gateway is None:
        return agent.configurations.get(words.HANDLE_INTERNAL_ONLY_ROUTERS, True) is not False
    return agent.configurations.get(words.GATEWAY_EXTERNAL_NETWORK_ID) in (None, "", gateway)


def choose_agents(
    agents: Sequence[Candidate],
    router: Router,
    hosted: Collection[str],
    hints: Sequence[str],
    max_agents: int,
    driver: str,
) -> list[Candidate]:
    """The agents to add to those that have the router (`hosted`)."""
    fitting = [agent for agent in agents if fits(agent, router) or agent.id in hosted]
    if driver == CHANCE:
        fitting = [replace(agent, load=random.randrange(1 << 30)) for agent in fitting]
    wanted = 1
    if router["ha"]:
        all_of_them = sum(agent.serves or agent.id in hosted for agent in fitting)
        wanted = all_of_them if max_agents == ALL_AGENTS else max_agents
    by_id = {agent.id: agent for agent in fitting}
    return [by_id[key] for key in choose(fitting, wanted, hints, hosted)]


def driver_named(option: str) -> str:
    """The scheduler driver of `router_scheduler_driver`, given by class name or by Neutron's full path."""
    name = option.rpartition(".")[2]
    if name not in (CHANCE, *LEAST):
        raise ValueError(f"router_scheduler_driver: {option!r} is none of {', '.join((CHANCE, *LEAST))}")
    return name


# --- status -----------------------------------------------------------------------------------------------------------


def _has(*port_types: str) -> sa.ColumnElement[bool]:
    # No IN: SQLAlchemy writes its list anew with each execution.
    return sa.exists().where(
        router_ports.c.router_id == routers.c.id, sa.or_(*(router_ports.c.port_type == one for one in port_types))
    )


_HAS_AGENT = sa.exists().where(router_l3_agents.c.router_id == routers.c.id)
# A search in the JSON text of all L3 agents' configurations: few rows, and the database evaluates it once per list.
_HAS_DVR_AGENT = sa.exists().where(
    t.agents.c.agent_type == words.L3,
    # As `encode` writes it, without a space after the colon.
    sa.or_(
        *(t.agents.c.configurations.contains(f'"{words.AGENT_MODE}":"{mode}"', autoescape=True) for mode in DVR_MODES)
    ),
)
_NEEDS_AGENT = sa.or_(
    routers.c.ha,
    sa.and_(routers.c.distributed, routers.c.gw_network_id.is_not(None)),
    sa.and_(sa.not_(routers.c.distributed), _has(GATEWAY, *INTERFACES)),
)
STATUS: Final[sa.ColumnElement[str]] = sa.case(
    (sa.and_(_NEEDS_AGENT, sa.not_(_HAS_AGENT)), DOWN),
    (sa.and_(routers.c.distributed, sa.not_(_HAS_DVR_AGENT), _has(*INTERFACES)), DOWN),
    else_=routers.c.status,
)


def needs_agent(router: Router, *, has_interface: bool) -> bool:
    """Whether a router has to be scheduled: `_NEEDS_AGENT` for a router that was read."""
    if router["ha"] or router["gw_network_id"] is not None:
        return True
    return has_interface and not router["distributed"]


def why_down(
    router: Router, agents: Sequence[Candidate], hints: Sequence[str], *, has_agent: bool, has_interface: bool
) -> str:
    """The reason why a router is DOWN, for operators; empty if there is none any more. `has_agent`: it is placed."""
    reasons = []
    if router["distributed"] and has_interface and not any(mode(agent) in DVR_MODES for agent in agents):
        reasons.append(f"it is distributed, and no L3 agent has agent_mode {', '.join(DVR_MODES[:-1])}")
    if needs_agent(router, has_interface=has_interface) and not has_agent:
        modes = " or ".join(modes_for(router))
        named = sorted(agents, key=lambda agent: agent.host)
        others = [f"{agent.host}: {', '.join(_obstacles(agent, router, hints))}" for agent in named[:MAX_NAMED]]
        others += [f"and {len(agents) - MAX_NAMED} more"] if len(agents) > MAX_NAMED else []
        reasons.append(f"no L3 agent with agent_mode {modes} can take it ({'; '.join(others) or 'none has reported'})")
    return "; ".join(reasons)


def _obstacles(agent: Candidate, router: Router, hints: Sequence[str]) -> Iterator[str]:
    """Why an agent does not take a router."""
    if not agent.alive:
        yield "dead"
    if not agent.admin_state_up:
        yield "administratively down"
    if hints and agent.zone not in hints:
        yield f"not in zone {', '.join(hints)}"
    if mode(agent) not in modes_for(router):
        yield f"agent_mode {mode(agent)}"
    elif not fits(agent, router):
        yield "for other routers (handle_internal_only_routers, gateway_external_network_id)"
    elif agent.serves and (not hints or agent.zone in hints):
        yield "not scheduled, as router_auto_schedule is off"
