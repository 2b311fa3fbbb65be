"""A host of a lab under load: ports created by the API, devices plugged, and the resulting state.

A device is one end of a veth pair, as the lab's VMs have them; all of them are made beforehand, so that what is measured
starts with the one call of `ovs-vsctl` that plugs them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from neutrino.lab.errors import LabError
from neutrino.lab.hosts.namespaces import host_command, ip_batch
from qa.bench.client import Client, LoadError, Target
from qa.bench.workbench import identity
from tests.support import memory
from tests.support.lab_control import Lab

HOST = "h1"
BULK = 100
SECONDS = 120.0  # timeout of a step
INTEGRATION = "br-int"
BRIDGES = (INTEGRATION, "br-tun", "br-provider", "br-ex")
_OURS = "cookie=0x6e74726e00000000/0xffffffff00000000"
_COUNT = re.compile(r"flow_count=(\d+)")


class BenchHost:
    def __init__(self, lab: Lab, seconds: float = 1800.0) -> None:
        headers = {"X-Project-Id": "bench", "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
        self.lab = lab
        self.client = Client(Target(lab.settings.url, headers, time.monotonic() + seconds))
        self._made = 0

    def close(self) -> None:
        self.client.close()

    # --- the API ----------------------------------------------------------------------------------------------------

    def network(self, name: str, cidr: str) -> str:
        network = identity(self.client.post("/networks", {"network": {"name": name}}))
        self.client.post("/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": cidr}})
        return network

    def group(self, name: str, rules: Sequence[dict[str, Any]] = ()) -> str:
        group = identity(self.client.post("/security-groups", {"security_group": {"name": name}}))
        self.add_rules(group, rules)
        return group

    def add_rules(self, group: str, rules: Sequence[dict[str, Any]]) -> None:
        if rules:
            bodies = [{"security_group_id": group, "direction": "ingress", **rule} for rule in rules]
            self.client.post("/security-group-rules", {"security_group_rules": bodies})

    def ports(self, network: str, count: int, **values: Any) -> list[str]:
        """Create ports in bulk, by default bound to this host."""
        body = {"network_id": network, "device_owner": "compute:bench", "binding:host_id": HOST, **values}
        made: list[str] = []
        while len(made) < count:
            reply = self.client.post("/ports", {"ports": [body] * min(BULK, count - len(made))})
            made += [str(port["id"]) for port in reply.items()]
        return made

    # --- devices ----------------------------------------------------------------------------------------------------

    def devices(self, count: int) -> list[str]:
        """Create veth pairs; their ends on the host are up and not plugged."""
        names = [f"bench{number}" for number in range(self._made, self._made + count)]
        self._made += count
        lines = [
            line
            for name in names
            for line in (
                f"link add {name} type veth peer name {name}p",
                f"link set {name} up",
                f"link set {name}p up",
            )
        ]
        ip_batch(lines, host_command(self.lab.holder(HOST), []))
        return names

    def plug(self, devices: Sequence[str], ports: Sequence[str]) -> None:
        """Plug all in one call, otherwise as os-vif does."""
        arguments: list[str] = []
        for device, port in zip(devices, ports, strict=True):
            arguments += ["--", "add-port", INTEGRATION, device, "--", "set", "Interface", device]
            arguments += [f"external_ids:iface-id={port}", "external_ids:iface-status=active"]
        self.lab.ovs(HOST).vsctl("--no-wait", *arguments)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def until(self, ready: Callable[[], bool], what: str, every: float = 0.005) -> None:
        give_up = time.monotonic() + SECONDS
        while not ready():
            if time.monotonic() > give_up:
                raise LoadError(f"{what}: not within {SECONDS:.0f} s")
            time.sleep(every)

    def until_active(self, port: str) -> None:
        self.until(lambda: self.client.get(f"/ports/{port}").item()["status"] == "ACTIVE", f"port {port} ACTIVE")

    def until_all_active(self, network: str, ports: Sequence[str]) -> None:
        """Poll only ports that are not ACTIVE yet, so that polling adds little load."""
        path = f"/ports?network_id={network}&fields=id&status="
        self.until(lambda: not self.client.get(f"{path}DOWN").items(), f"{len(ports)} ports ACTIVE", every=0.01)
        missing = set(ports) - {port["id"] for port in self.client.get(f"{path}ACTIVE").items()}
        if missing:
            raise LoadError(f"{len(missing)} ports are neither DOWN nor ACTIVE")

    # --- the agent --------------------------------------------------------------------------------------------------

    def agent(self) -> dict[str, Any]:
        (found,) = self.client.get(f"/agents?host={HOST}&agent_type=Open%20vSwitch%20agent").items()
        return found

    def active(self) -> int:
        """How many ports of the host are ACTIVE; a network's DHCP server has one too."""
        return len(self.client.get(f"/ports?binding:host_id={HOST}&status=ACTIVE&fields=id").items())

    def restart_agent(self) -> float:
        """Restart the agent, and wait until it has verified everything; returns the seconds."""
        before, devices = self.agent()["started_at"], self.active()
        started = time.perf_counter()
        self.lab.stop_agent(HOST)
        self.lab.start_agent(HOST, wait=False)

        def is_done() -> bool:
            now = self.agent()
            said = now["configurations"]
            return bool(
                now["started_at"] > before
                and said.get("dataplane") == "up"
                and said.get("devices") == devices
                and said.get("feed_behind") == 0
            )

        self.until(is_done, "the agent to have compared everything", every=0.01)
        return time.perf_counter() - started

    def kill_switch(self) -> float:
        """Kill and restart the switch, without flows; returns the seconds until all flows are installed again."""
        wanted = self.flow_count()
        self.lab.stop_ovs(HOST, kill=True, database=False)
        self.lab.start_ovs(HOST)
        back = time.perf_counter()
        self.until(lambda: self._flow_count_now() == wanted, "the flows to be back", every=0.01)
        return time.perf_counter() - back

    def _flow_count_now(self) -> int:
        try:
            return self.flow_count()
        except LabError:
            return -1  # a bridge is not there yet

    def verify(self) -> None:
        """The agent's own word that nothing differs; not timed."""
        self.lab.run(HOST, self.lab.agent_command(HOST, "verify"))

    def memory(self) -> dict[str, Any]:
        pid = self.lab.agent_pid(HOST)
        if pid is None:
            raise LoadError("the agent has ended")
        return memory.of_tree(pid)

    # --- flows ------------------------------------------------------------------------------------------------------

    def flow_count(self, bridges: Sequence[str] = BRIDGES) -> int:
        return sum(int(_COUNT.findall(self._ofctl("dump-aggregate", bridge, _OURS))[0]) for bridge in bridges)

    def flows(self, bridge: str = INTEGRATION) -> frozenset[str]:
        return frozenset(self._ofctl("--no-stats", "dump-flows", bridge, _OURS).splitlines()[1:])

    def _ofctl(self, *arguments: str) -> str:
        return self.lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", *arguments]).stdout
