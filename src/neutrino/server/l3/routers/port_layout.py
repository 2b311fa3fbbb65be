"""Which ports a router has and where they are, by its kind: pure.

    kind             interfaces            gateway        besides
    centralized      on its agent's host   there too
    HA               on the active host    there too      an HA port on each of its hosts
    distributed      on every host         SNAT's host    a SNAT port per interface while there is a gateway
    distributed, HA  on every host         active host    both

Whatever changes (an interface, the gateway, the kind, the agents), the ports are held against this and made so. Nothing
is remembered of how it came about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from neutrino.server.l3.device_owners import GATEWAY, HA_PORT, INTERFACES, SNAT, interface_owner
from neutrino.server.l3.routers.state import RouterPort, Serving

ACTIVE: Final = "active"
STANDBY: Final = "standby"
EVERY_HOST: Final = ""


@dataclass(frozen=True, slots=True)
class Place:
    """What a port is to be: its owner and its host."""

    type: str
    host: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What is to be done to a router's ports."""

    move: Mapping[str, Place]  # by the port's id
    snat_for: tuple[RouterPort, ...]  # interfaces on a subnet of which no SNAT port is
    snat_trim: tuple[RouterPort, ...]  # SNAT ports with an address on a subnet that the router has left
    going: tuple[RouterPort, ...]
    ha_for: tuple[Serving, ...]  # agents that lack an HA port


def central_host(agents: Sequence[Serving], now: str = "") -> str:
    """The host that has what is at one place: the active one; else where it is, if there is an agent; else any."""
    active = [agent.host for agent in agents if agent.ha_state == ACTIVE]
    hosts = active or [agent.host for agent in agents]
    return now if now in hosts else (hosts[0] if hosts else "")


def interface_place(router: Mapping[str, Any], agents: Sequence[Serving], now: str = "") -> Place:
    owner = interface_owner(router)
    return Place(owner, EVERY_HOST if router["distributed"] else central_host(agents, now))


def plan_ports(router: Mapping[str, Any], ports: Sequence[RouterPort], agents: Sequence[Serving]) -> Difference:
    """The difference between the ports that there are and those that there should be."""
    now = next((port.host for port in ports if port.type == GATEWAY or not router["distributed"]), "")
    central = central_host(agents, now)
    interface = Place(interface_owner(router), EVERY_HOST if router["distributed"] else central)
    wanted: dict[str, Place] = {}
    for port in ports:
        if port.type in INTERFACES:
            wanted[port.id] = interface
        elif port.type in (GATEWAY, SNAT):
            wanted[port.id] = Place(port.type, central)
    has_snat = router["distributed"] and router["gw_network_id"] is not None
    interfaces = [port for port in ports if port.type in INTERFACES]
    served = {a.subnet_id for port in ports if port.type == SNAT for a in port.addresses}
    lacking = tuple(p for p in interfaces if has_snat and any(a.subnet_id not in served for a in p.addresses))
    routed = {a.subnet_id for port in interfaces for a in port.addresses}
    ours = {agent.ha_port_id for agent in agents}
    going = tuple(
        port
        for port in ports
        if (port.type == SNAT and not (has_snat and any(a.subnet_id in routed for a in port.addresses)))
        or (port.type == HA_PORT and not (router["ha"] and port.id in ours))
    )
    gone = {port.id for port in going}
    staying = [port for port in ports if port.id in wanted and port.id not in gone]
    move = {port.id: wanted[port.id] for port in staying if Place(port.type, port.host) != wanted[port.id]}
    trim = tuple(p for p in staying if p.type == SNAT and any(a.subnet_id not in routed for a in p.addresses))
    ha_for = tuple(agent for agent in agents if router["ha"] and agent.ha_port_id is None)
    return Difference(move, lacking, trim, going, ha_for)
