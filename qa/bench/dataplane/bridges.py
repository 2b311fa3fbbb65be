"""Two sides on one switch: instances on hosts of `qa/kernel/switch.py`, whose bridges get Neutron's flows or ours.

Neutron's in the compact form of a recorded host (`tests/support/neutron_switch.py`), ours by the agent's reconciler.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from neutrino.lab.timing import scaled
from neutrino.model import state
from qa.bench.dataplane.traffic import FIRST_PORT
from qa.kernel.switch import KernelHost, device_of
from qa.takeover.lab.paths import TrafficPath
from tests.support import neutron_switch
from tests.support.l2 import Cloud, group, network, port, rule
from tests.support.neutron_switch import NeutronNetwork, NeutronPort

_OPEN_PORTS = tuple(range(FIRST_PORT, FIRST_PORT + 3))
_NET = network("vxlan", "vxlan", 100)
_GROUP = group(
    "bench",
    rule("ingress", protocol=1),
    *(rule("ingress", protocol=6, port_min=number, port_max=number) for number in _OPEN_PORTS),
    *(rule("ingress", protocol=17, port_min=number, port_max=number) for number in _OPEN_PORTS),
    rule("egress"),
)
_PORTS = tuple(
    port(f"machine{number}", number, "vxlan", host, groups=["bench"])
    for number, host in enumerate(("h1", "h1", "h2", "h2"), 1)
)
SAME_HOST, TUNNEL = (
    TrafficPath(name, _PORTS[0].id, target.fixed_ips[0].ip_address, target.id)
    for name, target in (("same host", _PORTS[1]), ("tunnel", _PORTS[2]))
)


class Namespaces:
    """Machines of which each is a named network namespace."""

    def run(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        options["timeout"] = scaled(options["timeout"])
        return subprocess.run(["ip", "netns", "exec", where, *argv], capture_output=True, text=True, **options)

    def popen(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", where, *argv]
        return subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options)


def plug(cloud: Cloud, hosts: Mapping[str, KernelHost]) -> None:
    for name, host in hosts.items():
        outcome = host.reconcile(cloud)  # the bridges
        assert outcome.problems == {}
        host.plug([each for each in _PORTS if each.host == name])


def install_ours(cloud: Cloud, hosts: Mapping[str, KernelHost]) -> None:
    for host in hosts.values():
        for name in ("br-int", "br-tun"):
            install(host, name, "")
        host.reconciler.forget()
        outcome = host.reconcile(cloud, _NET, _GROUP, *_PORTS)
        assert (outcome.problems, outcome.faults) == ({}, {})


def install_neutron(hosts: Mapping[str, KernelHost]) -> None:
    """In place of ours, whose local VLANs and tunnels stay."""
    for name, host in hosts.items():
        near, far = ([each for each in _PORTS if (each.host == name) == is_near] for is_near in (True, False))
        ports = [_neutron_port(host, each) for each in near]
        networks = [NeutronNetwork(ports[0].vlan, 100, [each.mac_address for each in far])]
        integration = neutron_switch.integration(ports, networks, 0xFFF0)  # no physical network
        install(host, "br-int", neutron_switch.as_lines(integration))
        if len(hosts) > 1:
            tunnels = neutron_switch.tunnels(networks, _ofport(host, "patch-int"), _tunnel(host))
            install(host, "br-tun", neutron_switch.as_lines(tunnels))


def install(host: KernelHost, bridge: str, flows: str) -> None:
    """All flows of a bridge, in one transaction."""
    address = f"unix:{host.switch.run_directory}/{bridge}.mgmt"
    command = ["ovs-ofctl", "-O", "OpenFlow14", "--bundle", "add-flows", address, "-"]
    subprocess.run(command, input=f"delete\n{flows}", text=True, capture_output=True, check=True)


def pings(path: TrafficPath) -> bool:
    command = ["ip", "netns", "exec", path.source, "ping", "-n", "-q", "-c", "3", "-i", "0.3", "-W", "10", path.target]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _neutron_port(host: KernelHost, each: state.Port) -> NeutronPort:
    device, address = device_of(each), each.fixed_ips[0].ip_address
    tag = int(host.switch.vsctl("get", "port", device, "tag").strip())
    return NeutronPort(_ofport(host, device), tag, each.mac_address, address, _OPEN_PORTS, _OPEN_PORTS)


def _ofport(host: KernelHost, name: str) -> int:
    return int(host.switch.vsctl("get", "interface", name, "ofport").strip())


def _tunnel(host: KernelHost) -> int:
    query = ["--bare", "--columns=ofport", "find", "interface", "type=vxlan"]
    return int(host.switch.vsctl(*query).split()[0])
