"""The paths of the cloud that meters measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import host_file, vm_network
from neutrino.lab.settings import EXTERNAL, vm_namespace
from qa.takeover.lab.cloud import FORWARDED, INSTANCES, PAIR, STREAM, Cloud, address_of
from qa.takeover.lab.meters.measurements import HaRouter, PingPath, Plan, RequestPath, StreamPath
from qa.takeover.lab.neutron_lab import NeutronLab

OUTSIDE, OUTSIDE6 = "203.0.113.1", "2001:db8:203:113::1"
METADATA = "169.254.169.254"
SECONDS = 120.0


@dataclass(frozen=True)
class TrafficPath:
    """Echo requests and a stream from one machine to an address of another."""

    name: str
    source: str  # an instance or the external machine
    target: str
    receiver: str  # the machine that has the target's address
    port: int = 0  # that streams connect to, where it is not the receiver's own


def traffic(cloud: Cloud) -> list[TrafficPath]:
    def inside(name: str, source: str, receiver: str, version: int = 4) -> TrafficPath:
        return TrafficPath(name, source, cloud.address(receiver, version), receiver)

    def outward(name: str, source: str) -> TrafficPath:
        return TrafficPath(name, source, OUTSIDE, EXTERNAL)

    def inward(name: str, receiver: str) -> TrafficPath:
        return TrafficPath(name, EXTERNAL, cloud.floating(receiver), receiver)

    return [
        inside("vxlan, same host h1", "b1", "b2"),
        inside("vxlan, h1 → h3", "b1", "b3"),
        inside("vxlan IPv6, h3 → h1", "b3", "b1", 6),
        inside("gre, h1 → h3", "x1", "x3"),
        inside("geneve, h3 → h2", "y3", "y2"),
        inside("vlan, h1 → h2", "v1", "v2"),
        inside("vlan IPv6, h2 → h1", "v2", "v1", 6),
        TrafficPath("trunk subport h3, from vlan h1", "v1", address_of(cloud.subport), "t3"),
        TrafficPath("allowed pair on h3, from h1", "b2", PAIR, "b3"),
        outward("legacy router, SNAT from h1", "b1"),
        inward("legacy router, floating IP to h3", "b3"),
        TrafficPath("legacy router, IPv6 from h1", "b1", OUTSIDE6, EXTERNAL),
        outward("address scope, SNAT from h2", "c2"),
        outward("HA router, SNAT from h2", "g2"),
        inward("HA router, floating IP to h3", "g3"),
        inside("DVR, east-west h1 → h2", "r1", "o2"),
        inside("DVR, east-west h3 → h2", "r3", "o2"),
        inward("DVR, floating IP to h1", "r1"),
        inward("DVR, floating IP to h3", "r3"),
        outward("DVR, floating IP from h3", "r3"),
        outward("DVR, SNAT from h2", "o2"),
        # Its SNAT is not measured: with Neutron alone it does not always work in this lab.
        inside("DVR with HA, h3 → h2", "p3", "p2"),
        inward("DVR with HA, floating IP to h3", "p3"),
    ]


def plan(neutron: NeutronLab, cloud: Cloud) -> Plan:
    """All meters. Receivers of streams listen on ports of their own."""
    basic = meters_of(neutron, traffic(cloud))
    forwarded = str(cloud.forwarding["floating_ip_address"])
    networks = str(network_of(neutron, EXTERNAL)), str(network_of(neutron, "b1"))
    stream = StreamPath("legacy router, forwarded port to h1", networks[0], forwarded, FORWARDED, networks[1], STREAM)
    return Plan(
        basic.pings,
        [*basic.streams, stream],
        [_metadata(neutron, cloud, name) for name in ("b2", "g2", "r3", "v2")]
        + [_renewals(neutron, cloud, name) for name in ("b2", "g3", "r3", "v2")],
        ha_routers(neutron, cloud),
    )


def meters_of(neutron: NeutronLab, paths: Sequence[TrafficPath], first_port: int = STREAM + 1) -> Plan:
    """Pings and streams on all paths; each stream has a port of its own."""
    networks = [(str(network_of(neutron, path.source)), str(network_of(neutron, path.receiver))) for path in paths]
    return Plan(
        [PingPath(path.name, source, path.target) for path, (source, _) in zip(paths, networks, strict=True)],
        [
            StreamPath(path.name, source, path.target, port, receiver, port)
            for port, (path, (source, receiver)) in enumerate(zip(paths, networks, strict=True), first_port)
        ],
    )


def network_of(neutron: NeutronLab, machine: str) -> Path:
    """The file of a machine's network namespace."""
    if machine == EXTERNAL:
        return Path(f"/proc/{neutron.lab.holder(EXTERNAL)}/ns/net")
    host = neutron.instances.vms.get(machine).host
    return vm_network(neutron.lab.holder(host), vm_namespace(machine))


def ha_routers(neutron: NeutronLab, cloud: Cloud) -> list[HaRouter]:
    """The namespaces of HA routers, once one of them is active."""
    routers = []
    for name, router in cloud.routers.items():
        if not router["ha"]:
            continue
        namespace = f"{'snat' if router['distributed'] else 'qrouter'}-{router['id']}"  # where VRRP runs
        for host in neutron.lab.hosts:
            holder = neutron.lab.holder(host)
            network = host_file(holder, f"/run/netns/{namespace}")
            if network.exists():
                argv = ["ip", "netns", "exec", namespace, "ip", "-4", "-o", "address"]
                is_active = " 169.254.0." in neutron.lab.run(host, argv).stdout
                routers.append(HaRouter(name, host, str(network), is_active))
    return routers


def _metadata(neutron: NeutronLab, cloud: Cloud, name: str) -> RequestPath:
    mac = cloud.ports[name]["mac_address"]
    network = str(network_of(neutron, name))
    return RequestPath(f"metadata, {_place(name)}", "metadata", network, METADATA, cloud.address(name), mac)


def _renewals(neutron: NeutronLab, cloud: Cloud, name: str) -> RequestPath:
    port = cloud.ports[name]
    filters = {"network_id": port["network_id"], "device_owner": "network:dhcp"}
    server = address_of(neutron.api.list("port", **filters)[0])
    mac = port["mac_address"]
    network = str(network_of(neutron, name))
    return RequestPath(f"DHCP, {_place(name)}", "dhcp", network, server, cloud.address(name), mac)


def _place(name: str) -> str:
    return next(f"{instance.network} on {instance.host}" for instance in INSTANCES if instance.name == name)


def wait_until_open(neutron: NeutronLab, cloud: Cloud) -> None:
    """Wait until every path passes a ping: Neutron reports a port ACTIVE before routers and floating IPs are there."""
    ha = sum(bool(router["ha"]) for router in cloud.routers.values())

    def all_active() -> bool:
        return sum(router.is_active for router in ha_routers(neutron, cloud)) == ha

    wait_until_passing(neutron, traffic(cloud), all_active)


def wait_until_passing(
    neutron: NeutronLab, paths: Sequence[TrafficPath], also: Callable[[], bool] = lambda: True
) -> None:
    closed = list(paths)
    started = time.monotonic()

    def ready() -> bool:
        nonlocal closed
        closed = [path for path in closed if not _pings(neutron, path)]
        return not closed and also()

    try:
        wait_until(ready, SECONDS, "traffic does not pass")
    except LabError as error:
        raise LabError(f"{error}: {'; '.join(path.name for path in closed) or 'HA routers'}") from None
    neutron.output(f"traffic on {len(paths)} paths ({time.monotonic() - started:.1f} s)")


def _pings(neutron: NeutronLab, path: TrafficPath) -> bool:
    done = neutron.lab.run(path.source, ["ping", "-c", "1", "-W", "1", path.target], check=False)
    return done.returncode == 0
