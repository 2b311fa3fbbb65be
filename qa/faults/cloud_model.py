"""Model of a small cloud: its desired state, and which machine must therefore reach which address. Pure."""

from __future__ import annotations

import dataclasses

from neutrino.model.objects import Object

OUTSIDE = "outside"  # the machine on the external network


@dataclasses.dataclass
class Net:
    name: str
    number: int  # of its subnets
    made: Object  # as the API and the lab's helpers have it


@dataclasses.dataclass
class Machine:
    name: str
    net: str
    host: str
    port_id: str
    device_id: str
    addresses: tuple[str, ...] = ()
    up: bool = True
    open: bool = True  # whether its group lets anybody in


@dataclasses.dataclass
class Router:
    name: str
    made: Object
    kind: str
    nets: set[str] = dataclasses.field(default_factory=set)
    gateway: bool = False
    up: bool = True


@dataclasses.dataclass
class FloatingIp:
    id: str
    address: str
    machine: str | None = None


@dataclasses.dataclass
class Cloud:
    nets: dict[str, Net] = dataclasses.field(default_factory=dict)
    machines: dict[str, Machine] = dataclasses.field(default_factory=dict)
    routers: dict[str, Router] = dataclasses.field(default_factory=dict)
    floating: dict[str, FloatingIp] = dataclasses.field(default_factory=dict)

    def router_of(self, net: str) -> Router | None:
        return next((router for router in self.routers.values() if net in router.nets), None)

    def machines_on(self, net: str) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.net == net]

    def floating_of(self, machine: str) -> FloatingIp | None:
        return next((each for each in self.floating.values() if each.machine == machine), None)

    def is_held(self, router: Router) -> bool:
        """Whether floating IPs use its gateway, so that it and the interfaces of their networks cannot be removed."""
        return any(each.machine and self.machines[each.machine].net in router.nets for each in self.floating.values())

    def ways(self, outside: str) -> dict[tuple[str, str], bool]:
        """Pairs of machine and address that must be reachable, and pairs that must not. `outside`: its address."""
        found: dict[tuple[str, str], bool] = {}
        for one in self.machines.values():
            router = self.router_of(one.net)
            for other in self.machines.values():
                if one is not other:
                    way = one.up and other.up and other.open and self._joined(one, other)
                    found.update(((one.name, target), way) for target in _answerable(one, other))
            found[one.name, outside] = one.up and router is not None and router.up and router.gateway
        for each in self.floating.values():
            found[OUTSIDE, each.address] = each.machine is not None and self._is_served(self.machines[each.machine])
        return found

    def _joined(self, one: Machine, other: Machine) -> bool:
        if one.net == other.net:
            return True
        router = self.router_of(one.net)
        return router is not None and router.up and other.net in router.nets

    def _is_served(self, machine: Machine) -> bool:
        router = self.router_of(machine.net)
        return machine.up and machine.open and router is not None and router.up and router.gateway

    def asking(self) -> list[Machine]:
        """The machines that reach the metadata service through a router."""
        routers = ((machine, self.router_of(machine.net)) for machine in self.machines.values())
        return [machine for machine, router in routers if machine.up and router is not None and router.up]


def _answerable(one: Machine, other: Machine) -> list[str]:
    """The addresses of another machine of IP versions that both have."""
    versions = {":" in address for address in one.addresses}
    return [address for address in other.addresses if (":" in address) in versions]
