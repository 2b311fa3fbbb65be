"""The kernel's datapath with Neutron's flows and with ours: throughput, new connections and round trips, as ratios.

  .venv/bin/python -m qa.kernel.run qa/kernel/dataplane.py

Two hosts in the guest, each with the switch of `switch.py`, whose bridges have the flows of either side in turns: ours by
the agent's reconciler, Neutron's in the compact form of a recorded host (`neutron_switch.py`). An emulated machine forwards
few packets, so that only ratios say something. `python -m qa.bench.dataplane` has the userspace datapath, and every path.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from typing import Any

from neutrino.lab.timing import scaled
from neutrino.model import state
from qa.bench.dataplane.traffic import FIRST_PORT, METRICS
from qa.kernel.switch import KernelHost, kernel_hosts
from qa.takeover.lab.paths import TrafficPath
from tests.support import neutron_switch
from tests.support.l2 import Cloud, group, network, port, rule
from tests.support.neutron_switch import NeutronNetwork, NeutronPort

ROUNDS = 2
SECONDS = 8.0
OPEN_PORTS = tuple(range(FIRST_PORT, FIRST_PORT + 3))
NEUTRON, OURS = "neutron", "ours"
NET = network("vxlan", "vxlan", 100)
GROUP = group(
    "bench",
    rule("ingress", protocol=1),
    *(rule("ingress", protocol=6, port_min=number, port_max=number) for number in OPEN_PORTS),
    *(rule("ingress", protocol=17, port_min=number, port_max=number) for number in OPEN_PORTS),
    rule("egress"),
)
PORTS = [
    port(f"machine{number}", number, "vxlan", host, groups=["bench"])
    for number, host in enumerate(("h1", "h1", "h2", "h2"), 1)
]
PATHS = [
    TrafficPath("same host", PORTS[0].id, PORTS[1].fixed_ips[0].ip_address, PORTS[1].id),
    TrafficPath("tunnel", PORTS[0].id, PORTS[2].fixed_ips[0].ip_address, PORTS[2].id),
]
# Packets of UDP at full rate are too many for an emulated receiver, which would measure itself.
MEASURED = [metric for metric in METRICS if metric.name != "packets"]


class Namespaces:
    """Machines of which each is a named network namespace."""

    def run(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        options["timeout"] = scaled(options["timeout"])
        return subprocess.run(["ip", "netns", "exec", where, *argv], capture_output=True, text=True, **options)

    def popen(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", where, *argv]
        return subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options)


def ofctl(host: KernelHost, *arguments: str, text: str = "") -> None:
    command = ["ovs-ofctl", "-O", "OpenFlow14", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def bridge(host: KernelHost, name: str) -> str:
    return f"unix:{host.switch.run_directory}/{name}.mgmt"


def install_ours(cloud: Cloud, hosts: dict[str, KernelHost]) -> None:
    for host in hosts.values():
        for name in ("br-int", "br-tun"):
            ofctl(host, "del-flows", bridge(host, name))
        host.reconciler.forget()
        outcome = host.reconcile(cloud, NET, GROUP, *PORTS)
        assert (outcome.problems, outcome.faults) == ({}, {})


def install_neutron(hosts: dict[str, KernelHost]) -> None:
    for name, host in hosts.items():
        near, far = ([each for each in PORTS if (each.host == name) == is_near] for is_near in (True, False))
        ports = [_neutron_port(host, each) for each in near]
        networks = [NeutronNetwork(ports[0].vlan, 100, [each.mac_address for each in far])]
        flows = {
            "br-int": neutron_switch.integration(ports, networks, 0xFFF0),  # no physical network
            "br-tun": neutron_switch.tunnels(networks, _ofport(host, "patch-int"), _tunnel(host)),
        }
        for each, lines in flows.items():
            text = "delete\n" + neutron_switch.as_lines(lines)
            ofctl(host, "--bundle", "add-flows", bridge(host, each), "-", text=text)


def _neutron_port(host: KernelHost, each: state.Port) -> NeutronPort:
    device = f"tap{each.id}"[:15]
    tag = int(host.switch.vsctl("get", "port", device, "tag").strip())
    address = each.fixed_ips[0].ip_address
    return NeutronPort(_ofport(host, device), tag, each.mac_address, address, OPEN_PORTS, OPEN_PORTS)


def _ofport(host: KernelHost, name: str) -> int:
    return int(host.switch.vsctl("get", "interface", name, "ofport").strip())


def _tunnel(host: KernelHost) -> int:
    query = ["--bare", "--columns=ofport", "find", "interface", "type=vxlan"]
    return int(host.switch.vsctl(*query).split()[0])


def test_rates_with_flows_of_either_side() -> None:
    figures: dict[tuple[str, str, str], list[float]] = {}
    machines = Namespaces()
    with kernel_hosts("h1", "h2") as hosts:
        cloud = Cloud(*hosts)
        for name, host in hosts.items():
            outcome = host.reconcile(cloud)
            assert outcome.problems == {}
            host.plug([each for each in PORTS if each.host == name])
        for _ in range(ROUNDS):
            for side in (NEUTRON, OURS):
                install_ours(cloud, hosts)  # also tags, and tunnels
                if side == NEUTRON:
                    install_neutron(hosts)
                for path in PATHS:
                    assert _pings(path)
                    for metric in MEASURED:
                        found = metric.measure(machines, path, SECONDS)
                        figures.setdefault((path.name, metric.name, side), []).append(found.value)
                        print(f"{side}: {path.name}, {metric.name}: {found.value:.1f} {metric.unit}", flush=True)
    print(_table(figures), flush=True)


def _pings(path: TrafficPath) -> bool:
    command = ["ip", "netns", "exec", path.source, "ping", "-n", "-q", "-c", "3", "-i", "0.3", "-W", "10", path.target]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _table(figures: dict[tuple[str, str, str], list[float]]) -> str:
    lines = ["| path | | Neutron's flows | ours | ratio |", "|---|---|---:|---:|---:|"]
    for path in PATHS:
        for metric in MEASURED:
            theirs, ours = (statistics.median(figures[path.name, metric.name, side]) for side in (NEUTRON, OURS))
            ratio = theirs / ours if metric.less_is_better else ours / theirs
            shown = f"{theirs:,.1f} {metric.unit} | {ours:,.1f} {metric.unit} | {ratio:.2f} ×"
            lines.append(f"| {path.name} | {metric.name} | {shown} |")
    return "\n".join(lines)
