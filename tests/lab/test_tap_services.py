"""Tap services and tap mirrors on real packets: a monitor on the same host, on another one, and a collector outside."""

from __future__ import annotations

import dataclasses
import secrets
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from neutrino.lab.settings import UNDERLAY
from neutrino.lab.timing import scaled
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_frames import IPV4, UDP, FrameCapture, ethernet, ipv4, send, udp
from tests.support.lab_guests import (
    EVERYTHING,
    PATIENCE,
    SOON,
    Guest,
    Spec,
    make_group,
    make_guests,
    make_network,
    wait_until_reachable,
)

PORTS = (7001, 7002)
STRAY = scaled(0.3)  # seconds that a copy may take longer than its original, which goes to another host


@dataclasses.dataclass
class Site:
    """On one network: `tapped` on h1 and `peer` on h2. On another, without rules for ingress: a monitor on h1 and h3."""

    lab: Lab
    tapped: Guest
    peer: Guest
    monitors: dict[str, Guest]

    def make(self, name: str, **values: Any) -> Object:
        body = {"project_id": self.tapped.port["project_id"], **values}
        made: Object = self.lab.api.request("POST", f"/v2.0/taas/{name}s", {name: body})[name]
        return made

    def delete(self, name: str, made: Object) -> None:
        self.lab.api.request("DELETE", f"/v2.0/taas/{name}s/{made['id']}")

    def tap(self, service: Object, direction: str, **more: Any) -> Object:
        flow = {"tap_service_id": service["id"], "source_port": self.tapped.port_id, "direction": direction}
        return self.make("tap_flow", **flow, **more)

    def wait_active(self, name: str, made: Object) -> None:
        path = f"/v2.0/taas/{name}s/{made['id']}"
        wait_until(lambda: self.lab.api.request("GET", path)[name]["status"] == "ACTIVE", SOON, f"{name} is not ACTIVE")

    def ports(self, host: str) -> list[str]:
        """The ports of taps in the integration bridge."""
        found = self.lab.run(host, ["ovs-vsctl", "list-ports", "br-int"]).stdout.split()
        return [name for name in found if name.startswith(("tpf-", "tmi-", "tmo-", "tmb-"))]


COLLECTOR = "10.255.0.200"  # in the underlay


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    group, _ = make_group(lab, "open", *EVERYTHING)
    closed, _ = make_group(lab, "closed")
    net, other = make_network(lab, "tapped"), make_network(lab, "monitoring")
    tapped, peer, near, far = make_guests(
        lab,
        Spec("tapped", net, "h1", [group]),
        Spec("peer", net, "h2", [group]),
        Spec("near", other, "h1", [closed]),
        Spec("far", other, "h3", [closed]),
    )
    wait_until_reachable(tapped, peer)
    lab.run("h3", ["ip", "address", "add", f"{COLLECTOR}/24", "dev", UNDERLAY])
    yield Site(lab, tapped, peer, {"h1": near, "h3": far})
    lab.run("h3", ["ip", "address", "delete", f"{COLLECTOR}/24", "dev", UNDERLAY])


def frame(source: Guest, target: Guest, mark: bytes) -> bytes:
    here, there = source.addresses[4], target.addresses[4]
    return ethernet(source.mac, target.mac, IPV4, ipv4(here, there, UDP, udp(here, there, PORTS, mark)))


def is_copied(source: Guest, target: Guest, monitor: Guest) -> bool:
    """Whether the monitor gets a frame that arrives at its target, byte by byte: an ICMP error would quote it."""
    sent = frame(source, target, secrets.token_hex(8).encode())
    with FrameCapture(target) as original, FrameCapture(monitor) as copy:
        send(source, sent)
        assert original.receives(sent, PATIENCE)
        return copy.receives(sent, STRAY)


def wait_copied(source: Guest, target: Guest, monitor: Guest) -> None:
    where = f"{monitor.name} gets no copy of packets from {source.name} to {target.name}"
    wait_until(lambda: is_copied(source, target, monitor), SOON, where)


@pytest.mark.parametrize("host", ["h1", "h3"])
def test_a_monitor_gets_copies_of_the_chosen_direction(site: Site, host: str) -> None:
    tapped, peer, monitor = site.tapped, site.peer, site.monitors[host]
    other = next(guest for place, guest in site.monitors.items() if place != host)
    service = site.make("tap_service", port_id=monitor.port_id)
    for direction in ("IN", "OUT", "BOTH"):
        flow = site.tap(service, direction)
        if direction != "OUT":
            wait_copied(peer, tapped, monitor)
        if direction != "IN":
            wait_copied(tapped, peer, monitor)
        assert is_copied(peer, tapped, monitor) == (direction != "OUT")
        assert is_copied(tapped, peer, monitor) == (direction != "IN")
        assert not is_copied(peer, tapped, other)
        site.wait_active("tap_flow", flow)
        site.delete("tap_flow", flow)
        wait_until(lambda: not is_copied(peer, tapped, monitor), SOON, "copies after the flow was deleted")
        wait_until(lambda: not is_copied(tapped, peer, monitor), SOON, "copies after the flow was deleted")
    site.wait_active("tap_service", service)
    site.delete("tap_service", service)
    wait_until(lambda: not site.ports("h1") and not site.ports("h3"), SOON, "tunnels are left")


def test_copies_go_on_without_the_agent_and_end_with_the_service(site: Site) -> None:
    tapped, peer, monitor = site.tapped, site.peer, site.monitors["h3"]
    service = site.make("tap_service", port_id=monitor.port_id)
    site.tap(service, "BOTH")
    wait_copied(tapped, peer, monitor)
    # A trace follows the packet, not its copies.
    about = {"source_port_id": tapped.port_id, "destination_address": peer.addresses[4], "protocol": "icmp"}
    trace = site.lab.api.request("POST", "/v2.0/traces", {"trace": about})["trace"]
    assert (trace["verdict"], trace["differences"]) == ("delivered", [])
    for host in ("h1", "h3"):
        before = site.ports(host)
        assert before
        site.lab.stop_agent(host)
        assert is_copied(tapped, peer, monitor)
        site.lab.start_agent(host)
        assert is_copied(peer, tapped, monitor)
        assert site.ports(host) == before
    site.delete("tap_service", service)
    wait_until(lambda: not is_copied(tapped, peer, monitor), SOON, "copies after the service was deleted")
    wait_until(lambda: not site.ports("h1") and not site.ports("h3"), SOON, "tunnels are left")


@dataclasses.dataclass(frozen=True)
class Uplink:
    """A host's uplink to the underlay, where the packets of tunnels are read as they are on the wire."""

    lab: Lab
    host: str
    device: str = UNDERLAY

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        return self.lab.inside(self.host, lambda: socket.socket(family, kind, protocol))


def gre(number: int) -> bytes:
    """The header before a copied frame: with a key, and Ethernet inside."""
    return struct.pack("!HHI", 0x2000, 0x6558, number)


def erspan(number: int) -> bytes:
    """The same of ERSPAN version 1, after the sequence number: version, session and index."""
    return struct.pack("!HHI", 0x1000, number & 0x3FF, number)


@pytest.mark.parametrize(("kind", "header"), [("gre", gre), ("erspanv1", erspan)])
def test_a_collector_gets_copies_through_its_tunnel(site: Site, kind: str, header: Callable[[int], bytes]) -> None:
    """The collector is at host h3 in the underlay, with an address of its own."""
    tapped, peer, numbers = site.tapped, site.peer, {"IN": 2001, "OUT": 2002}
    tunnels = {"directions": numbers, "remote_ip": COLLECTOR, "mirror_type": kind}
    mirror = site.make("tap_mirror", port_id=tapped.port_id, **tunnels)

    def collected(source: Guest, target: Guest) -> set[int]:
        """The tunnel ids with which copies of a packet arrive."""
        sent = frame(source, target, secrets.token_hex(8).encode())
        with FrameCapture(target) as original, FrameCapture(Uplink(site.lab, "h3")) as uplink:
            send(source, sent)
            assert original.receives(sent, PATIENCE)
            return {number for number in numbers.values() if uplink.receives(header(number) + sent, STRAY)}

    wait_until(lambda: collected(peer, tapped) == {2001}, SOON, "no copies of packets to the port")
    wait_until(lambda: collected(tapped, peer) == {2002}, SOON, "no copies of packets from the port")
    site.delete("tap_mirror", mirror)
    wait_until(lambda: not collected(tapped, peer), SOON, "copies after the mirror was deleted")
    wait_until(lambda: not site.ports("h1"), SOON, "tunnels are left")


def test_nothing_of_a_tap_is_drift_and_what_is_removed_comes_back(site: Site) -> None:
    lab, tapped, peer, monitor = site.lab, site.tapped, site.peer, site.monitors["h1"]
    service = site.make("tap_service", port_id=monitor.port_id)
    site.tap(service, "IN")
    mirror = site.make(
        "tap_mirror",
        port_id=tapped.port_id,
        directions={"BOTH": 7},
        remote_ip=COLLECTOR,
        mirror_type="gre",
    )
    wait_copied(peer, tapped, monitor)

    def verified() -> bool:
        return lab.run("h1", lab.agent_command("h1", "verify"), check=False).returncode == 0

    wait_until(verified, SOON, "drift")
    (name,) = site.ports("h1")
    lab.run("h1", ["ovs-vsctl", "del-port", "br-int", name])
    wait_until(lambda: site.ports("h1") == [name], SOON, "the tunnel does not come back")
    wait_until(verified, SOON, "drift")
    site.delete("tap_mirror", mirror)
    site.delete("tap_service", service)
    wait_until(lambda: not is_copied(peer, tapped, monitor), SOON, "copies after the service was deleted")
