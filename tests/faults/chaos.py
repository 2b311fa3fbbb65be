"""A cloud that is changed at random while everything in it is killed: packets go where they should, and nowhere else.

  python -m tests.faults.chaos [--rounds N] [--seed N] [--hosts N] [--firewall openvswitch|iptables_hybrid]

A lab with all roles. A round is some changes (networks, machines, routers of every kind, floating IPs) and some faults
(agents, switches, the server, its feed, daemons), in any order. After it every machine tries to reach every address; that
must come to agree with what was asked for, ports and floating IPs must have their status, and `verify` must find nothing on
any host. At the end everything is deleted, and nothing may be left. Repairs by time are off: what is put right is put right
because somebody heard of it. The seed that is printed repeats the choices, not the times.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from neutrino.lab.errors import LabError
from neutrino.lab.lab import Lab
from neutrino.lab.waiting import wait_until
from tests.bench.workbench import progress
from tests.faults.cloud_model import OUTSIDE, Cloud, FloatingIp, Machine, Net, Router
from tests.support.lab import group, open_group, temporary_lab
from tests.support.lab_faults import feed_process
from tests.support.routing_lab import EXTERNAL, MACHINE, attach, detach, inside, outside

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
OPTIONS = """[DEFAULT]
agent_mode = dvr_snat
[agent]
enable_distributed_routing = true
check_interval = 3600
repair_interval = 3600
[securitygroup]
firewall_driver = {firewall}
"""
MOST = {"nets": 6, "machines": 10, "routers": 4, "floating": 4}
SETTLE_SECONDS = 90.0  # keepalived takes some; the rest is for a busy machine
DAEMONS = ("dnsmasq", "keepalived", "radvd", "metadata --socket")
METADATA = "169.254.169.254"
LEFT = ("qrouter-", "qdhcp-", "snat-", "fip-")
T = TypeVar("T")


class Chaos:
    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.rng = random.Random(seed)
        self.cloud = Cloud()
        self.group, self.closed = open_group(lab), group(lab, "closed")
        self.out = outside(lab)
        self.count = 0
        self.growth: list[Callable[[], str | None]] = [
            *(self.make_net, self.make_machine, self.make_machine, self.make_machine, self.make_router),
            *(self.attach, self.attach, self.make_floating_ip, self.make_floating_ip),
        ]
        self.changes: list[Callable[[], str | None]] = [
            *self.growth,
            *(self.detach, self.move_machine, self.move_machine, self.move_floating_ip, self.set_machine),
            *(self.readdress_machine, self.set_group, self.set_group),
            *(self.set_gateway, self.set_router, self.set_router, self.delete_machine, self.delete_router),
            *(self.delete_net, self.delete_floating_ip),
        ]
        self.faults: list[Callable[[], str | None]] = [
            *(self.kill_agent, self.kill_agent, self.kill_switch, self.kill_server, self.kill_feed, self.kill_daemon),
            *(self.change_without_agent, self.lose_host),
        ]

    def run(self, rounds: int) -> None:
        for _ in range(30):  # something to start with
            self._do(self.rng.choice(self.growth))
        self.check()
        for number in range(1, rounds + 1):
            progress(f"round {number}")
            for _ in range(self.rng.randrange(4, 10)):
                several = self.faults if self.rng.random() < 0.3 else self.changes
                self._do(self.rng.choice(several))
            self.check()
        self.delete_everything()

    def _do(self, step: Callable[[], str | None]) -> None:
        if text := step():
            progress(f"  {text}")

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _any(self, several: Mapping[str, T]) -> T | None:
        return several[self.rng.choice(sorted(several))] if several else None

    # --- changes ----------------------------------------------------------------------------------------------------

    def make_net(self) -> str | None:
        if len(self.cloud.nets) >= MOST["nets"]:
            return None
        name, kind = self._name("net"), self.rng.choice(NETS)
        number = min(set(range(1, 250)) - {net.number for net in self.cloud.nets.values()})
        made = inside(self.lab, name, number, six=self.rng.random() < 0.5, **kind)
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
        wish = [{"subnet_id": subnet["id"]} for subnet in subnets.values()]
        self.lab.api.update("port", machine.port_id, fixed_ips=wish)
        self._address(machine)
        return f"{machine.name} has {' '.join(machine.addresses)} now"

    def set_group(self) -> str | None:
        machine = self._any(self.cloud.machines)
        if machine is None:
            return None
        machine.open = not machine.open
        group = self.group if machine.open else self.closed
        self.lab.api.update("port", machine.port_id, security_groups=[group])
        return f"{machine.name} {'lets others in' if machine.open else 'lets nobody in'}"

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
        wish = self._gateway() if router.gateway else {"external_gateway_info": None}
        self.lab.api.update("router", router.made["id"], **wish)
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
        return f"{made['floating_ip_address']} for {name or 'nobody'}"

    def move_floating_ip(self) -> str | None:
        floating, machine = self._any(self.cloud.floating), self._without_floating_ip()
        if floating is None:
            return None
        port_id = None if machine is None else machine.port_id
        self.lab.api.update("floatingip", floating.id, port_id=port_id)
        floating.machine = None if machine is None else machine.name
        return f"{floating.address} goes to {floating.machine or 'nobody'}"

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

    # --- faults -----------------------------------------------------------------------------------------------------

    def kill_agent(self) -> str:
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_agent(host, kill=True)
        self.lab.start_agent(host, wait=False)
        return f"agent of {host} killed"

    def change_without_agent(self) -> str:
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_agent(host)
        progress(f"  agent of {host} away")
        for _ in range(3):
            self._do(self.rng.choice(self.changes))
        self.lab.start_agent(host, wait=False)
        return f"agent of {host} back"

    def kill_switch(self) -> str:
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_ovs(host, kill=True, database=False)
        self.lab.start_ovs(host)
        return f"switch of {host} killed"

    def lose_host(self) -> str:
        """Agent, switch and all daemons, for long enough that others take over what they can."""
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_agent(host, kill=True)
        self.lab.stop_ovs(host, kill=True)
        for name in DAEMONS:
            self._kill(host, name)
        time.sleep(self.rng.uniform(0, 6))
        self.lab.start_ovs(host)
        self.lab.start_agent(host, wait=False)
        return f"{host} lost for a while"

    def kill_server(self) -> str:
        self.lab.stop_server(kill=True)
        self.lab.start_server()
        return "server killed"

    def kill_feed(self) -> str:
        with contextlib.suppress(LookupError, ProcessLookupError):
            os.kill(feed_process(self.lab), signal.SIGKILL)
        return "feed killed"

    def kill_daemon(self) -> str | None:
        host, name = self.rng.choice(self.lab.hosts), self.rng.choice(DAEMONS)
        killed = self._kill(host, name)
        return f"{name} of {host} killed: {killed}" if killed else None

    def _kill(self, host: str, name: str) -> int:
        pattern = f"{name}.*{self.lab.places.host(host)}"
        pids = self.lab.run(host, ["pgrep", "-f", pattern], check=False).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return len(pids)

    # --- what must come of it ---------------------------------------------------------------------------------------

    def check(self) -> None:
        began = time.monotonic()
        wrong: list[str] = ["nothing was looked at"]
        while wrong:
            wrong = self._wrong()
            if wrong and time.monotonic() - began > SETTLE_SECONDS:
                raise LabError("not as it should be:\n  " + "\n  ".join(wrong))
        text = f"{len(self.cloud.machines)} machines, {len(self.cloud.routers)} routers"
        progress(
            f"as it should be after {time.monotonic() - began:.1f} s: {text}, {len(self.cloud.floating)} floating IPs"
        )

    def _wrong(self) -> list[str]:
        """Everything that differs, the quick questions first."""
        return self._statuses() or self._ways() or self._identities() or self._drift()

    def _statuses(self) -> list[str]:
        ports = {port["id"]: port["status"] for port in self.lab.api.list("port")}
        wrong = [
            f"{machine.name} is {ports[machine.port_id]}"
            for machine in self.cloud.machines.values()
            if (ports[machine.port_id] == "ACTIVE") != machine.up
        ]
        for made in self.lab.api.list("floatingip"):
            floating = self.cloud.floating[made["id"]]
            wanted = "ACTIVE" if floating.machine is not None else "DOWN"
            router = self.cloud.router_of(self.cloud.machines[floating.machine].net) if floating.machine else None
            if made["status"] != wanted and (router is None or router.up):
                wrong.append(f"{floating.address} of {floating.machine} is {made['status']}")
        return wrong

    def _ways(self) -> list[str]:
        wanted = self.cloud.ways(MACHINE)
        sources = sorted({source for source, _ in wanted})
        asking = {
            source: self.lab.popen(
                EXTERNAL if source == OUTSIDE else source,
                ["sh", "-c", ASK, "ask", *sorted(target for one, target in wanted if one == source)],
            )
            for source in sources
        }
        reached = {(source, line) for source, one in asking.items() for line in one.communicate()[0].split()}
        return [
            f"{source} {'does not reach' if way else 'reaches'} {target}"
            for (source, target), way in sorted(wanted.items())
            if ((source, target) in reached) != way
        ]

    def _identities(self) -> list[str]:
        url = f"http://{METADATA}/latest/meta-data/instance-id"
        asking = {
            machine.name: self.lab.popen(machine.name, ["curl", "-s", "-m", "3", url])
            for machine in self.cloud.asking()
        }
        told = {name: one.communicate()[0] for name, one in asking.items()}
        return [
            f"{name} is told that it is {identity!r}"
            for name, identity in told.items()
            if identity != self.cloud.machines[name].device_id
        ]

    def _drift(self) -> list[str]:
        verifying = {host: self.lab.popen(host, self.lab.agent_command(host, "verify")) for host in self.lab.hosts}
        said = {host: (one.communicate()[0], one.returncode) for host, one in verifying.items()}
        return [f"{host}: {text.strip()}" for host, (text, status) in said.items() if status != 0]

    def delete_everything(self) -> None:
        progress("everything is deleted")
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
        wait_until(lambda: not self._left(), SETTLE_SECONDS, "something is left on the hosts")
        progress("nothing is left")

    def _left(self) -> list[str]:
        lines = [line for host in self.lab.hosts for line in self.lab.run(host, ["ip", "netns"]).stdout.splitlines()]
        return [line for line in lines if line.startswith(LEFT)]


ASK = 'for to in "$@"; do (ping -n -c 1 -W 1 "$to" >/dev/null 2>&1 && echo "$to") & done; wait'


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--firewall", choices=("openvswitch", "iptables_hybrid"), default="openvswitch")
    parser.add_argument("--keep", metavar="DIR", help="copy the logs there when something is wrong")
    args = parser.parse_args(argv)
    progress(f"seed {args.seed}, {args.rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="neutrino-chaos-") as directory:
        options = Path(directory) / "agent.conf"
        options.write_text(OPTIONS.format(firewall=args.firewall))
        roles = ("l2", "dhcp", "l3", "metadata")
        with temporary_lab(hosts=args.hosts, roles=roles, agent_config_files=(str(options),)) as lab:
            try:
                Chaos(lab, args.seed).run(args.rounds)
            except LabError as error:
                progress(str(error))
                if args.keep:
                    _keep_logs(lab, Path(args.keep))
                return 1
    return 0


def _keep_logs(lab: Lab, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    for path in lab.places.state.rglob("*.log"):
        (where / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
