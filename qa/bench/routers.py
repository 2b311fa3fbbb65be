"""Benchmark of routers on one host: from the API call to the first packet, restarts with many routers, and memory.

  python -m qa.bench.routers [--routers 100] [--times 10] [--floating-ips 500]

A lab of one host with Open vSwitch in userspace, its server on SQLite, all as `neutrino lab up` starts it, as root. Server,
agent, switch and who sends the packets share the processors. Whoever waits for an answer asks a hundred times a second and
looks for its neighbour as often, so that what is measured is the router. At the end the agent's own comparison has to
find nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from qa.bench.machine import busy, machine
from qa.bench.signals import unwind_if_terminated
from qa.bench.timing import figures
from qa.bench.workbench import progress
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Spec, make_group, make_guests
from tests.support.memory import pss_kb, tree

OUTSIDE, MACHINE = "198.18.0.0/16", "198.18.0.1"
EXTERNAL = "external"
PATIENCE = 120.0
FIXED_IPS = 5  # maximum per port


class Bench:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        provider = {"provider:network_type": "flat", "provider:physical_network": "external"}
        self.out = lab.api.create("network", name="outside", **provider, **{"router:external": True})
        subnet = {"cidr": OUTSIDE, "gateway_ip": MACHINE, "ip_version": 4, "enable_dhcp": False}
        lab.api.create("subnet", network_id=self.out["id"], **subnet)
        lab.run(EXTERNAL, ["ip", "address", "add", f"{MACHINE}/16", "dev", self._device()])
        lab.run(EXTERNAL, _eager(self._device()))
        self.group, _ = make_group(lab, "open", *EVERYTHING)

    def _device(self) -> str:
        links = json.loads(self.lab.run(EXTERNAL, ["ip", "-j", "address"]).stdout)
        return next(
            str(each["ifname"]) for each in links if any(a["local"] == "203.0.113.1" for a in each["addr_info"])
        )

    # --- the cloud ------------------------------------------------------------------------------------------------

    def inside(self, name: str, cidr: str = "10.0.0.0/24") -> tuple[Object, Object]:
        network = self.lab.api.create("network", name=name)
        return network, self.lab.api.create("subnet", network_id=network["id"], cidr=cidr, ip_version=4)

    def guest(self, name: str, network: Object) -> Any:
        (made,) = make_guests(self.lab, Spec(name, network, "h1", [self.group]))
        self.lab.run(name, _eager("eth0"))
        return made

    def router(self, subnet: Object, **values: Any) -> Object:
        gateway = {"network_id": self.out["id"]}
        made = self.lab.api.create("router", name="bench", external_gateway_info=gateway, **values)
        path = f"/v2.0/routers/{made['id']}/add_router_interface"
        self.lab.api.request("PUT", path, {"subnet_id": subnet["id"]})
        return made

    def floating_ips(self, network: Object, count: int) -> None:
        """Floating IPs for fixed addresses that no instance uses."""
        for start in range(0, count, FIXED_IPS):
            several = min(FIXED_IPS, count - start)
            subnet = self.lab.api.list("subnet", network_id=network["id"])[0]["id"]
            fixed = [{"subnet_id": subnet}] * several
            port = self.lab.api.create("port", network_id=network["id"], fixed_ips=fixed)
            for each in port["fixed_ips"]:
                inner = {"port_id": port["id"], "fixed_ip_address": each["ip_address"]}
                self.lab.api.create("floatingip", floating_network_id=self.out["id"], **inner)

    def until_active(self, count: int) -> None:
        def done() -> bool:
            active = [fip for fip in self.lab.api.list("floatingip", fields="status") if fip["status"] == "ACTIVE"]
            return len(active) >= count

        wait_until(done, PATIENCE, "the floating IPs are not ACTIVE")

    # --- inspection -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def first_answer(self, source: str, target: str) -> Iterator[Callable[[], float]]:
        """`answered()` waits for the first reply to pings started before, and returns its time."""
        argv = ["ping", "-n", "-q", "-i", "0.01", "-c", "1", "-w", str(int(PATIENCE)), target]
        process = self.lab.popen(source, argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def answered() -> float:
            if process.wait(timeout=PATIENCE) != 0:
                raise RuntimeError(f"{source} never reached {target}")
            return time.perf_counter()

        try:
            yield answered
        finally:
            process.kill()
            process.wait()

    def agent_pss(self) -> int:
        pid = self.lab.agent_pid("h1")
        assert pid is not None
        return pss_kb(pid)

    def restart(self) -> dict[str, float]:
        log = self.lab.paths.log("h1-agent")
        before = log.stat().st_size
        self.lab.stop_agent("h1", kill=True)
        started = time.perf_counter()
        self.lab.start_agent("h1", wait=False)
        applied = b"routers of the first snapshot have been applied"
        wait_until(lambda: applied in log.read_bytes()[before:], PATIENCE, "never right")
        return {"seconds": round(time.perf_counter() - started, 2)}

    def verify(self) -> None:
        self.lab.run("h1", self.lab.agent_command("h1", "verify"), timeout=PATIENCE)


def _eager(device: str) -> list[str]:
    """Retry neighbour resolution after ten milliseconds instead of a second."""
    return [
        "sysctl",
        "-qw",
        f"net.ipv4.neigh.{device}.retrans_time_ms=10",
        f"net.ipv4.neigh.{device}.mcast_solicit=3000",
    ]


def measure_new(bench: Bench, times: int) -> dict[str, Any]:
    """A router with gateway and interface: from the API calls to its first packet."""
    millis = []
    for number in range(times):
        network, subnet = bench.inside(f"new-{number}")
        guest = bench.guest(f"new-{number}", network)
        with bench.first_answer(guest.name, MACHINE) as answered:
            started = time.perf_counter()
            bench.router(subnet)
            millis.append((answered() - started) * 1000)
        bench.lab.delete_vm(guest.name)
    return figures(millis)


def measure_associating(bench: Bench, times: int, others: int) -> dict[str, Any]:
    """A floating IP put before a port: from the API call to the first packet, with one and with many on the router."""
    network, subnet = bench.inside("associated", "10.8.0.0/16")
    guest = bench.guest("associated", network)
    with bench.first_answer(guest.name, MACHINE) as answered:
        bench.router(subnet)
        answered()
    result = {"with_1": _associate(bench, guest.port_id, times)}
    progress(f"{others} floating IPs on one router")
    bench.floating_ips(network, others - 1)
    bench.until_active(others - 1)
    result[f"with_{others}"] = _associate(bench, guest.port_id, times)
    bench.lab.delete_vm(guest.name)
    return result


def _associate(bench: Bench, port_id: str, times: int) -> dict[str, Any]:
    api, millis = bench.lab.api, []
    for _ in range(times):
        made = api.create("floatingip", floating_network_id=bench.out["id"])
        with bench.first_answer(EXTERNAL, made["floating_ip_address"]) as answered:
            started = time.perf_counter()
            api.update("floatingip", made["id"], port_id=port_id)
            millis.append((answered() - started) * 1000)
        api.delete("floatingip", made["id"])
    return figures(millis)


def measure_many(bench: Bench, routers: int, each: int = 5) -> dict[str, Any]:
    """Routers with floating IPs: the agent restarted until all are verified, and memory."""
    bench.restart()  # for the same conditions as after the restart with all routers
    bench.verify()
    empty = bench.agent_pss()
    known = len(bench.lab.api.list("floatingip"))
    for number in range(routers):
        network, subnet = bench.inside(f"many-{number}")
        bench.router(subnet)
        bench.floating_ips(network, each)
    bench.until_active(known + routers * each)
    bench.verify()
    progress(f"the agent restarted with {routers} routers")
    result: dict[str, Any] = {"routers": routers, "restart": bench.restart()}
    bench.verify()
    full = bench.agent_pss()
    result["memory"] = {"agent_before_mb": round(empty / 1024, 1), "agent_mb": round(full / 1024, 1)}
    result["memory"]["kb_per_router"] = round((full - empty) / routers, 1)
    return result


def measure_daemons(bench: Bench) -> dict[str, Any]:
    """Memory of the daemons of an HA router."""
    _, subnet = bench.inside("daemons")
    router = bench.router(subnet, ha=True)
    path = bench.lab.paths.host("h1") / "ha_confs" / router["id"] / "keepalived.pid"
    if not path.exists():
        path = next(iter(bench.lab.paths.host("h1").rglob(f"{router['id']}/keepalived.pid")), path)
    wait_until(path.exists, PATIENCE, "keepalived does not run")
    time.sleep(5)  # until keepalived has forked
    return {"keepalived_kb": sum(pss_kb(pid) for pid in tree(int(path.read_text())))}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--routers", type=int, default=100)
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--floating-ips", type=int, default=500)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        unlimited = Path(directory) / "quotas.conf"
        names = ("network", "subnet", "port", "router", "floatingip", "security_group")
        unlimited.write_text("[quotas]\n" + "".join(f"quota_{name} = -1\n" for name in names))
        with temporary_lab(hosts=1, roles=("l2", "l3"), server_config_files=(str(unlimited),)) as lab:
            bench = Bench(lab)
            result: dict[str, Any] = {"machine": machine(), "busy_before": busy()}
            progress(f"{given.times} new routers, one after the other")
            result["new"] = measure_new(bench, given.times)
            result["associate"] = measure_associating(bench, given.times, given.floating_ips)
            progress(f"{given.routers} routers with 5 floating IPs each")
            result["many"] = measure_many(bench, given.routers)
            result["daemons"] = measure_daemons(bench)
            result["busy_after"] = busy()
    json.dump(result, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    unwind_if_terminated()
    sys.exit(main())
