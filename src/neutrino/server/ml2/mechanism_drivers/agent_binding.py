"""Shared by drivers with an agent on the host: live agents, and the first segment that one of them can wire."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from neutrino.server.ml2.driver_api import PortToBind, Segment

Agent = Mapping[str, Any]


def usable_agents(port: PortToBind, agent_type: str) -> Iterator[Agent]:
    for agent in port.agents:
        if agent["agent_type"] == agent_type and agent["alive"] and agent["admin_state_up"]:
            yield agent


def first_segment(port: PortToBind, agent: Agent, can_wire: Callable[[Segment, Agent], bool]) -> Segment | None:
    return next((segment for segment in port.segments if can_wire(segment, agent)), None)


def reaches_physical_network(segment: Segment, mappings: Any) -> bool:
    """Whether the host has a bridge (or devices) on the segment's physical network."""
    return isinstance(mappings, Mapping) and segment.physical_network in mappings
