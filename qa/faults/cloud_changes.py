"""Random changes of a cloud in a lab: each is made through the API and recorded in the model."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from qa.faults.cloud_model import Cloud, FloatingIp, Machine, Net, Router
from tests.support.lab import group, open_group
from tests.support.lab_control import Lab
from tests.support.routing_lab import attach, detach, external_network, tenant_network

NETS: tuple[dict[str, str], ...] = (
    {"provider:network_type": "vxlan"},
    {"provider:network_type": "geneve"},
    {"provider:network_type": "vlan", "provider:physical_network": "physnet1"},
)
KINDS = {
    "central": {"distributed": False, "ha": False},
    "ha": {"distributed": False, "ha": True},
    "distributed": {"distributed": True, "ha": False},
    "distributed and ha": {"distributed": True, "ha": True},
}
MOST = {"nets": 6, "machines": 10, "routers": 4, "floating": 4}
Step = Callable[[], str | None]  # what was done, if there was anything to do
T = TypeVar("T")


class Changes:
    def __init__(self, lab: Lab, rng: random.Random) -> None:
        self.lab = lab
        self.rng = rng
        self.cloud = Cloud()
        self.group, self.closed = open_group(lab), group(lab, "closed")
        self.out = external_network(lab)
        self.count = 0
        self.growth: list[Step] = [
            *(self.make_net, self.make_machine, self.make_machine, self.make_machine, self.make_router),
            *(self.attach, self.attach, self.make_floating_ip, self.make_floating_ip),
        ]
        self.all: list[Step] = [
            *self.growth,
            *(self.detach, self.move_machine, self.move_machine, self.move_floating_ip, self.set_machine),
            *(self.readdress_machine, self.set_group, self.set_group),
            *(self.set_gateway, self.set_router, self.set_router, self.delete_machine, self.delete_router),
            *(self.delete_net, self.delete_floating_ip),
        ]

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _any(self, several: Mapping[str, T]) -> T | None:
        return several[self.rng.choice(sorted(several))] if several else None

    def make_net(self) -> str | None:
        if len(self.cloud.nets) >= MOST["nets"]:
            return None
        name, kind = self._name("net"), self.rng.choice(NETS)
        number = min(set(range(1, 250)) - {net.number for net in self.cloud.nets.values()})
        made = tenant_network(self.lab, name, number, six=self.rng.random() < 0.5, **kind)
        self.cloud.nets[name] = Net(name, number, made)
        return f"{name}, {kind['provider:network_type']}"

    def make_machine(self) -> str | None:
        net, host = self._any(self.cloud.nets), self.rng.choice(self.lab.hosts)
        if net is None or len(self.cloud.machines) >= MOST["machines"]:
            return None
        name = self._name("vm")
        vm = self.lab.vm(name, network=net.name, host=host, security_groups=[self.group], dhcp=False, wait=False)
        machine = Machine(name, net.name, host, vm.port_id, vm.device_id)
        self.cloud.machines[name] = machine
        self._address(machine)
        return f"{name} {' '.join(machine.addresses)} on {net.name}, {host}"

    def _address(self, machine: Machine) -> None:
        self.lab.address(machine.name)
        fixed = self.lab.api.show("port", machine.port_id)["fixed_ips"]
        machine.addresses = tuple(each["ip_address"] for each in fixed)

    def readdress_machine(self) -> str | None:
        """One without a floating IP, which would keep it from getting another address."""
        machine = self._any({name: m for name, m in self.cloud.machines.items() if not self.cloud.floating_of(name)})
        if machine is None:
            return None
        subnets = self.cloud.nets[machine.net].made["by_version"]
        self.lab.api.update("port", machine.port_id, fixed_ips=[])
        wanted = [{"subnet_id": subnet["id"]} for subnet in subnets.values()]
        self.lab.api.update("port", machine.port_id, fixed_ips=wanted)
        self._address(machine)
        return f"{machine.name} has {' '.join(machine.addresses)} now"

    def set_group(self) -> str | None:
        machine = self._any(self.cloud.machines)
        if machine is None:
            return None
        machine.open = not machine.open
        group = self.group if machine.open else self.closed
        self.lab.api.update("port", machine.port_id, security_groups=[group])
        return f"{machine.name} {'accepts all' if machine.open else 'accepts nothing'}"

    def move_machine(self) -> str | None:
        machine, host = self._any(self.cloud.machines), self.rng.choice(self.lab.hosts)
        if machine is None or machine.host == host:
            return None
        self.lab.unplug(machine.name, machine.host)
        self.lab.api.update("port", machine.port_id, **{"binding:host_id": host})
        self.lab.settle_vm(machine.name, host)
        self.lab.plug(machine.name, host)
        self.lab.address(machine.name)
        old, machine.host = machine.host, host
        return f"{machine.name} from {old} to {host}"

    def set_machine(self) -> str | None:
        machine = self._any(self.cloud.machines)
        if machine is None:
            return None
        machine.up = not machine.up
        self.lab.api.update("port", machine.port_id, admin_state_up=machine.up)
        return f"{machine.name} {'up' if machine.up else 'down'}"

    def delete_machine(self) -> str | None:
        machine = self._any(self.cloud.machines)
        return None if machine is None else self._delete_machine(machine)

    def _delete_machine(self, machine: Machine) -> str:
        for each in self.cloud.floating.values():
            if each.machine == machine.name:
                each.machine = None  # it stays, without a port
        self.lab.delete_vm(machine.name)
        del self.cloud.machines[machine.name]
        return f"{machine.name} deleted"

    def delete_net(self) -> str | None:
        free = {name: net for name, net in self.cloud.nets.items() if self._is_free(name)}
        net = self._any(free)
        if net is None:
            return None
        self.lab.api.delete("network", net.made["id"])
        del self.cloud.nets[net.name]
        return f"{net.name} deleted"

    def _is_free(self, net: str) -> bool:
        return self.cloud.router_of(net) is None and not self.cloud.machines_on(net)

    def make_router(self) -> str | None:
        if len(self.cloud.routers) >= MOST["routers"]:
            return None
        name, kind, gateway = self._name("router"), self.rng.choice(sorted(KINDS)), self.rng.random() < 0.7
        made = self.lab.api.create("router", name=name, **KINDS[kind], **(self._gateway() if gateway else {}))
        self.cloud.routers[name] = Router(name, made, kind, gateway=gateway)
        return f"{name}, {kind}, {'with' if gateway else 'without'} a gateway"

    def _gateway(self) -> dict[str, Any]:
        return {"external_gateway_info": {"network_id": self.out["id"]}}

    def attach(self) -> str | None:
        router = self._any(self.cloud.routers)
        net = self._any({name: net for name, net in self.cloud.nets.items() if self.cloud.router_of(name) is None})
        if router is None or net is None:
            return None
        for subnet in net.made["by_version"].values():
            attach(self.lab, router.made, subnet)
        router.nets.add(net.name)
        return f"{net.name} attached to {router.name}"

    def detach(self) -> str | None:
        router = self._any({name: each for name, each in self.cloud.routers.items() if each.nets})
        if router is None or self.cloud.is_held(router):
            return None
        return self._detach(router, self.rng.choice(sorted(router.nets)))

    def _detach(self, router: Router, net: str) -> str:
        for subnet in self.cloud.nets[net].made["by_version"].values():
            detach(self.lab, router.made, subnet)
        router.nets.remove(net)
        return f"{net} detached from {router.name}"

    def set_gateway(self) -> str | None:
        router = self._any(self.cloud.routers)
        if router is None or self.cloud.is_held(router):
            return None
        router.gateway = not router.gateway
        wanted = self._gateway() if router.gateway else {"external_gateway_info": None}
        self.lab.api.update("router", router.made["id"], **wanted)
        return f"{router.name} {'with' if router.gateway else 'without'} a gateway"

    def set_router(self) -> str | None:
        router = self._any(self.cloud.routers)
        if router is None:
            return None
        router.up = not router.up
        self.lab.api.update("router", router.made["id"], admin_state_up=router.up)
        return f"{router.name} {'up' if router.up else 'down'}"

    def delete_router(self) -> str | None:
        router = self._any(self.cloud.routers)
        return None if router is None or self.cloud.is_held(router) else self._delete_router(router)

    def _delete_router(self, router: Router) -> str:
        for net in sorted(router.nets):
            self._detach(router, net)
        self.lab.api.delete("router", router.made["id"])
        del self.cloud.routers[router.name]
        return f"{router.name} deleted"

    def make_floating_ip(self) -> str | None:
        if len(self.cloud.floating) >= MOST["floating"]:
            return None
        machine = self._without_floating_ip()
        port = {} if machine is None else {"port_id": machine.port_id}
        made = self.lab.api.create("floatingip", floating_network_id=self.out["id"], **port)
        name = None if machine is None else machine.name
        self.cloud.floating[made["id"]] = FloatingIp(made["id"], made["floating_ip_address"], name)
        return f"{made['floating_ip_address']} for {name or 'no machine'}"

    def move_floating_ip(self) -> str | None:
        floating, machine = self._any(self.cloud.floating), self._without_floating_ip()
        if floating is None:
            return None
        port_id = None if machine is None else machine.port_id
        self.lab.api.update("floatingip", floating.id, port_id=port_id)
        floating.machine = None if machine is None else machine.name
        return f"{floating.address} goes to {floating.machine or 'no machine'}"

    def _without_floating_ip(self) -> Machine | None:
        """A machine behind a router to the outside, as one with a floating IP has to be."""
        return self._any(
            {
                name: machine
                for name, machine in self.cloud.machines.items()
                if self.cloud.floating_of(name) is None
                and (router := self.cloud.router_of(machine.net)) is not None
                and router.gateway
            }
        )

    def delete_floating_ip(self) -> str | None:
        floating = self._any(self.cloud.floating)
        if floating is None:
            return None
        self.lab.api.delete("floatingip", floating.id)
        del self.cloud.floating[floating.id]
        return f"{floating.address} deleted"

    def delete_everything(self) -> None:
        for key in sorted(self.cloud.floating):
            self.lab.api.delete("floatingip", key)
        self.cloud.floating.clear()
        for machine in list(self.cloud.machines.values()):
            self._delete_machine(machine)
        for router in list(self.cloud.routers.values()):
            self._delete_router(router)
        for net in self.cloud.nets.values():
            self.lab.api.delete("network", net.made["id"])
        self.lab.api.delete("network", self.out["id"])
