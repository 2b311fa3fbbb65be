"""Which L3 agents can serve a router, and which of them does: a pure choice, by what the agents last reported."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from neutrino.model import agents as words
from neutrino.server.scheduling.candidates import Candidate, choose

LEGACY, DVR, DVR_SNAT, DVR_NO_EXTERNAL = "legacy", "dvr", "dvr_snat", "dvr_no_external"
CHANCE: Final = "ChanceScheduler"
LEAST: Final = ("LeastRoutersScheduler", "AZLeastRoutersScheduler")
ALL_AGENTS: Final = 0  # as max_l3_agents_per_router


@dataclass(frozen=True, slots=True)
class L3Agent:
    candidate: Candidate
    host: str
    configurations: Mapping[str, Any]

    @property
    def mode(self) -> str:
        return str(self.configurations.get(words.AGENT_MODE) or LEGACY)


def modes_for(router: Mapping[str, Any]) -> tuple[str, ...]:
    """The modes of agents that a router is scheduled to; of a distributed one, for its SNAT."""
    return (DVR_SNAT,) if router["distributed"] else (LEGACY, DVR_SNAT)


def fits(agent: L3Agent, router: Mapping[str, Any]) -> bool:
    """Whether an agent takes such routers: by its mode, and by the external network that it may be kept for."""
    if agent.mode not in modes_for(router):
        return False
    gateway = router["gw_network_id"]
    if gateway is None:
        return agent.configurations.get(words.HANDLE_INTERNAL_ONLY_ROUTERS, True) is not False
    return agent.configurations.get(words.GATEWAY_EXTERNAL_NETWORK_ID) in (None, "", gateway)


def wanted_agents(router: Mapping[str, Any], most: int, available: int) -> int:
    """How many agents a router is to have."""
    if not router["ha"]:
        return 1
    return available if most == ALL_AGENTS else most


def choose_agents(
    agents: Sequence[L3Agent],
    router: Mapping[str, Any],
    serving: Collection[str],
    hints: Sequence[str],
    most: int,
    driver: str,
) -> list[L3Agent]:
    """The agents to add to those that have the router."""
    fitting = [agent for agent in agents if fits(agent, router) or agent.candidate.id in serving]
    candidates = [agent.candidate for agent in fitting]
    if driver == CHANCE:
        candidates = [replace(candidate, load=random.randrange(1 << 30)) for candidate in candidates]
    wanted = wanted_agents(router, most, sum(candidate.serves for candidate in candidates))
    by_id = {agent.candidate.id: agent for agent in fitting}
    return [by_id[key] for key in choose(candidates, wanted, hints, serving)]


def driver_named(option: str) -> str:
    """The scheduler that `router_scheduler_driver` names, by its class or its whole path."""
    name = option.rpartition(".")[2]
    if name not in (CHANCE, *LEAST):
        raise ValueError(f"router_scheduler_driver: {option!r} is none of {', '.join((CHANCE, *LEAST))}")
    return name
