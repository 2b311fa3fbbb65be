"""Port layout of routers: which ports a router has and on which hosts, by its kind. Pure.

    kind             interfaces            gateway        further ports
    centralized      on its agent's host   same host
    HA               on the active host    same host      an HA port on each of its agents' hosts
    distributed      on every host         SNAT's host    a SNAT port per interface while it has a gateway
    distributed, HA  on every host         active host    both

After every change (interface, gateway, kind, agents) `plan_ports` compares the ports that exist with this table. The plan
depends on the current state alone, so it is the same whichever way the router got there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from neutrino.model.device_owners import DVR_INTERFACE, GATEWAY, HA_INTERFACE, HA_PORT, INTERFACE, INTERFACES, SNAT
from neutrino.model.objects import Values
from neutrino.model.routing import ACTIVE

EVERY_HOST: Final = ""  # as the host of a distributed router's interfaces: bound to none, on all that need it


@dataclass(frozen=True, slots=True)
class Address:
    subnet_id: str
    ip_address: str
    cidr: str

    @property
    def fixed_ip(self) -> dict[str, str]:
        return {"subnet_id": self.subnet_id, "ip_address": self.ip_address}


@dataclass(frozen=True, slots=True)
class RouterPort:
    """A port of a router. `type` is the device owner it was created with: clients may clear the port's own."""

    id: str
    type: str
    network_id: str
    host: str
    vif_type: str
    addresses: tuple[Address, ...] = ()

    @property
    def is_interface(self) -> bool:
        return self.type in INTERFACES

    @property
    def subnet_ids(self) -> frozenset[str]:
        return frozenset(address.subnet_id for address in self.addresses)


@dataclass(frozen=True, slots=True)
class RouterAgent:
    """An agent that serves a router."""

    agent_id: str
    host: str
    ha_port_id: str | None = None
    ha_state: str | None = None


@dataclass(frozen=True, slots=True)
class PortTarget:
    """The device owner and the host that a port should have."""

    type: str
    host: str


@dataclass(frozen=True, slots=True)
class PortPlan:
    """The changes that give a router the ports of its layout."""

    move: Mapping[str, PortTarget]  # by port id
    add_snat_for: tuple[RouterPort, ...]  # interfaces with a subnet that no SNAT port has an address on
    trim_snat: tuple[RouterPort, ...]  # SNAT ports with an address on a subnet that the router has left
    delete: tuple[RouterPort, ...]
    add_ha_port_for: tuple[RouterAgent, ...]


def interface_owner(router: Values) -> str:
    """The device owner of the ports on a router's own subnets."""
    if router["distributed"]:
        return DVR_INTERFACE
    return HA_INTERFACE if router["ha"] else INTERFACE


def central_host(agents: Sequence[RouterAgent], current: str = "") -> str:
    """The host of the ports that are on one host: the active agent's, else the current one, else any agent's."""
    active = [agent.host for agent in agents if agent.ha_state == ACTIVE]
    hosts = active or [agent.host for agent in agents]
    # Of two that claim to be active, as after a partition, the current one stays: moving the port would cut traffic.
    return current if current in hosts else (hosts[0] if hosts else "")


def central_port_host(router: Values, ports: Sequence[RouterPort]) -> str:
    """The host on which the ports that are on one host are now."""
    return next((port.host for port in ports if port.type == GATEWAY or not router["distributed"]), "")


def interface_target(router: Values, agents: Sequence[RouterAgent], current: str = "") -> PortTarget:
    return PortTarget(interface_owner(router), EVERY_HOST if router["distributed"] else central_host(agents, current))


def plan_ports(router: Values, ports: Sequence[RouterPort], agents: Sequence[RouterAgent]) -> PortPlan:
    central = central_host(agents, central_port_host(router, ports))
    interfaces = [port for port in ports if port.is_interface]
    snat_ports = [port for port in ports if port.type == SNAT]
    routed = {subnet_id for port in interfaces for subnet_id in port.subnet_ids}
    has_snat = router["distributed"] and router["gw_network_id"] is not None
    with_snat = {subnet_id for port in snat_ports for subnet_id in port.subnet_ids}
    wanted_ha_ports = {agent.ha_port_id for agent in agents} if router["ha"] else set()
    delete = [port for port in snat_ports if not (has_snat and port.subnet_ids & routed)]
    delete += [port for port in ports if port.type == HA_PORT and port.id not in wanted_ha_ports]
    targets = {port.id: interface_target(router, agents, central) for port in interfaces}
    targets |= {port.id: PortTarget(port.type, central) for port in ports if port.type in (GATEWAY, SNAT)}
    staying = [port for port in ports if port.id in targets and port not in delete]
    return PortPlan(
        move={p.id: targets[p.id] for p in staying if PortTarget(p.type, p.host) != targets[p.id]},
        add_snat_for=tuple(port for port in interfaces if has_snat and port.subnet_ids - with_snat),
        trim_snat=tuple(port for port in staying if port.type == SNAT and port.subnet_ids - routed),
        delete=tuple(delete),
        add_ha_port_for=tuple(agent for agent in agents if router["ha"] and agent.ha_port_id is None),
    )
