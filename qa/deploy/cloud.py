"""The cloud under test: its machines, its inventory, and what it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from qa.deploy.ansible import Operator
from qa.deploy.database import Databases
from qa.deploy.identity import Identity, Tokens
from qa.deploy.machines import EXTERNAL, MGMT, UNDERLAY, Failed, Machine, Place, command

UNDERLAY_SCRIPT = """#!/bin/sh
set -e
ovs-vsctl --may-exist add-br br-underlay -- set Bridge br-underlay datapath_type=netdev
ovs-vsctl --may-exist add-port br-underlay eth2
sysctl -qw net.ipv4.conf.br-underlay.arp_ignore=0
ip link set br-underlay up
ip address replace {address}/{length} dev br-underlay
# The userspace datapath drops the first packet to an endpoint whose MAC it does not know any more.
ovs-appctl tnl/neigh/aging 3600
"""
UNDERLAY_UNIT = """[Unit]
After=openvswitch-switch.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/underlay
"""
VIRTUAL = MGMT[9]


@dataclass(frozen=True)
class Shape:
    servers: int
    databases: int
    balancers: int
    network_hosts: int
    compute_hosts: int

    @property
    def hosts(self) -> int:
        return self.network_hosts + self.compute_hosts


SHAPES = {"full": Shape(3, 2, 2, 2, 1), "small": Shape(1, 1, 1, 1, 1)}


@dataclass(eq=False)
class Cloud:
    place: Place
    shape: Shape
    accepted: Sequence[str] = ()  # findings of these machines
    machines: dict[str, Machine] = field(default_factory=dict)
    identity: Identity | None = None
    tokens: Tokens | None = None
    ids: dict[str, str] = field(default_factory=dict)  # of objects, by a name of the test

    def __post_init__(self) -> None:
        shape, number = self.shape, 10
        kinds = (("s", shape.servers), ("db", shape.databases), ("lb", shape.balancers), ("h", shape.hosts))
        for prefix, count in kinds:
            for index in range(1, count + 1):
                number += 1
                self._add(f"{prefix}{index}", number)
        self.databases = Databases(self.of("db"))
        self.operator = Operator(self.place.work, {}, {})

    def _add(self, name: str, number: int) -> Machine:
        machine = Machine(self.place, name, str(MGMT[number]), is_host=name.startswith("h"))
        if machine.is_host:
            script = UNDERLAY_SCRIPT.format(address=self.tunnel_address(machine), length=UNDERLAY.prefixlen)
            machine.write("/usr/local/sbin/underlay", script, 0o755)
            machine.write("/etc/systemd/system/underlay.service", UNDERLAY_UNIT)
            wants = machine.file("/etc/systemd/system/openvswitch-switch.service.wants/underlay.service")
            wants.parent.mkdir(parents=True)
            wants.symlink_to("/etc/systemd/system/underlay.service")
        self.machines[name] = machine
        return machine

    @staticmethod
    def tunnel_address(machine: Machine) -> str:
        return str(UNDERLAY[int(machine.address.rsplit(".", 1)[1])])

    def of(self, prefix: str) -> list[Machine]:
        return [machine for name, machine in self.machines.items() if name.rstrip("0123456789") == prefix]

    @property
    def monitoring(self) -> list[Machine]:
        """The machine with Prometheus."""
        return self.of("lb")[-1:] if self.shape.balancers > 1 else []

    # --- the inventory -------------------------------------------------------------------------------------------------

    @property
    def public(self) -> str:
        return str(VIRTUAL) if self.shape.balancers > 1 else self.machines["lb1"].address

    @property
    def url(self) -> str:
        return f"https://{self.public}:9696"

    def write_inventory(self, packages: Path, without: str = "") -> None:
        """`without`: a machine that is not in it."""
        assert self.identity
        hosts = self.of("h")
        groups = {
            "neutrino_servers": self.of("s"),
            "neutrino_feeds": self.of("s") if self.shape.servers > 1 else [],
            "neutrino_balancers": self.of("lb"),
            "neutrino_network_hosts": hosts[: self.shape.network_hosts],
            "neutrino_compute_hosts": hosts[self.shape.network_hosts :],
            "neutrino_monitoring": self.monitoring,
        }
        self.operator.groups = {
            group: {machine.name: self._variables(machine) for machine in machines if machine.name != without}
            for group, machines in groups.items()
        }
        self.operator.variables = {
            "neutrino_packages": str(packages),
            "neutrino_database_url": self.databases.url,
            "neutrino_keystone": self.identity.account("neutrino", "service"),
            "neutrino_administrator": self.identity.account("admin", "admin"),
            "neutrino_virtual_address": str(VIRTUAL) if self.shape.balancers > 1 else "",
            "neutrino_datapath_type": "netdev",
            "neutrino_distributed_routing": False,
            "neutrino_agent_mode": "legacy",
            "neutrino_bridge_mappings": {"external": "br-ex"},
            "neutrino_bridges": {"br-ex": ["eth1"]},
            "neutrino_api_workers": 1,
            "neutrino_accepted_findings": list(self.accepted),
        }

    def _variables(self, machine: Machine) -> dict[str, object]:
        more: dict[str, object] = {"neutrino_tunnel_address": self.tunnel_address(machine)} if machine.is_host else {}
        return {"ansible_host": machine.address, **more}

    # --- the API -------------------------------------------------------------------------------------------------------

    @property
    def ca(self) -> str:
        return str(self.machines["s1"].file("/etc/neutrino/ca.crt"))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        assert self.tokens
        with requests.Session() as session:
            session.trust_env = False
            headers = {"X-Auth-Token": self.tokens()}
            answer = session.request(
                method, f"{self.url}/v2.0/{path}", json=body, headers=headers, verify=self.ca, timeout=60
            )
        if answer.status_code >= 400:
            raise Failed(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def create(self, kind: str, **attributes: object) -> dict[str, Any]:
        made: dict[str, Any] = self.call("POST", f"{kind}s", {kind: attributes})[kind]
        return made

    def find(self, collection: str, **filters: object) -> list[dict[str, Any]]:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        found: list[dict[str, Any]] = self.call("GET", f"{collection}?{query}")[collection.replace("-", "_")]
        return found

    def start_instance(self, host: str, name: str, address: str) -> str:
        """A stand-in instance on a host, with a floating IP; returns that."""
        machine = self.machines[host]
        self.vm(machine, name, "--network", "blue", "--address", address)
        port = self.find("ports", name=name)[0]["id"]
        made = self.create("floatingip", floating_network_id=self.ids["external"], port_id=port)
        self.ids[f"port-{name}"] = port
        return str(made["floating_ip_address"])

    def vm(self, machine: Machine, *words: str) -> str:
        """`neutrino vm` with the credentials of an administrator."""
        clouds = "/root/clouds.yaml"
        if not machine.file(clouds).exists():
            content = self.machines["s1"].run("cat", "/etc/neutrino/clouds.yaml")
            machine.run("bash", "-c", f"umask 077; cat >{clouds}", text=content)
        return machine.run("env", f"OS_CLIENT_CONFIG_FILE={clouds}", "OS_CLOUD=neutrino", "neutrino", "vm", *words)

    def inside(self, host: str, name: str) -> list[str]:
        """The beginning of a command in an instance."""
        machine = self.machines[host]
        namespace = f"vm-{name}"
        found = [one for one in machine.run("ls", "/run/netns").split() if one.endswith(name)]
        if found:
            namespace = found[0]
        return machine.enter("ip", "netns", "exec", namespace)

    def pings(self, words: Sequence[str], target: str) -> bool:
        return " 0% packet loss" in command(*words, "ping", "-n", "-c", "1", "-W", "1", target, check=False)


def external_subnet() -> Mapping[str, object]:
    pool = {"start": str(EXTERNAL[100]), "end": str(EXTERNAL[199])}
    return {
        "ip_version": 4,
        "cidr": str(EXTERNAL),
        "gateway_ip": str(EXTERNAL[1]),
        "allocation_pools": [pool],
        "enable_dhcp": False,
    }
