"""Ports that change while they are in use: address, host, admin state; and what is left when they are gone."""

from __future__ import annotations

import dataclasses
import socket
import time
import uuid
from collections.abc import Iterator

import pytest

from neutrino.agent.l2.extension_api import cookie_of
from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.dataplane.openflow.api import COOKIE, LEARNED_COOKIE
from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import in_host
from neutrino.lab.instances import plug
from neutrino.lab.instances.plug import Vm
from neutrino.lab.settings import FABRIC
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_frames import EVERYBODY, Frame, FrameCapture, arriving, datagram, ends, honest, swallowed
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    Attempt,
    Guest,
    Spec,
    attempts,
    expect,
    flows,
    make_group,
    make_guests,
    make_network,
    ofport,
    reaches,
    taken_from,
    wait_until_reachable,
)

BRIDGES = ("br-int", "br-tun", "br-provider")


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    group: str
    network: Object
    subject: Guest  # on h1: the port that changes
    neighbour: Guest  # on h1
    far: Guest  # on h2
    third: Guest  # on h3

    @property
    def others(self) -> tuple[Guest, ...]:
        return self.neighbour, self.far, self.third

    @property
    def conversations(self) -> list[Attempt]:
        """With the port that changes, both ways."""
        return [*attempts(self.others, [self.subject]), *attempts(self.subject, [self.neighbour, self.far])]


@pytest.fixture(scope="module")
def place(lab: Lab) -> Place:
    group, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "blue")
    hosts = {"subject": "h1", "neighbour": "h1", "far": "h2", "third": "h3"}
    guests = make_guests(lab, *(Spec(name, net, host, [group]) for name, host in hosts.items()))
    return Place(lab, group, net, *guests)


def _counts(lab: Lab) -> dict[tuple[str, str], int]:
    """How many flows each bridge of each host has, but for those that switches learn and forget by themselves."""

    def ours(host: str, bridge: str) -> int:
        return sum(f"cookie={COOKIE >> 32:#x}" in line for line in flows(lab, host, bridge).splitlines())

    return {(host, bridge): ours(host, bridge) for host in lab.hosts for bridge in BRIDGES}


def _tunnels(lab: Lab, host: str) -> set[str]:
    ports = lab.run(host, ["ovs-vsctl", "list-ports", "br-tun"]).stdout.split()
    return {name for name in ports if name.startswith(("vxlan-", "gre-", "geneve-"))}


def _settled(lab: Lab) -> dict[tuple[str, str], int]:
    """The counts when what went before is over: for a while nothing changes any more."""
    counts = [_counts(lab)]

    def stays() -> bool:
        time.sleep(1.0)  # many times as long as a change takes
        counts.append(_counts(lab))
        return counts[-1] == counts[-2]

    wait_until(stays, SOON, "flows change though nothing happens")
    return counts[-1]


# --- what a port is ---------------------------------------------------------------------------------------------------


def test_another_address(place: Place) -> None:
    """The old address stops, though the machine still has it; the new one works."""
    subject, lab = place.subject, place.lab
    expect(place.conversations)
    before = subject.port["fixed_ips"]
    changed = dataclasses.replace(subject, addresses={4: "10.0.0.200", 6: "fd00:10::200"})
    subject.update(fixed_ips=[{"ip_address": address} for address in changed.addresses.values()])
    lab.address("subject")
    for address in (f"{subject.addresses[4]}/24", f"{subject.addresses[6]}/64"):
        subject.ip("address", "add", address, "dev", "eth0")
    expect(attempts(place.others, [changed], 80), attempts(place.others, [subject], 81))
    subject.update(fixed_ips=before)
    lab.address("subject")
    expect(place.conversations)


def test_admin_state_of_a_port(place: Place) -> None:
    subject, lab = place.subject, place.lab
    expect(place.conversations)
    subject.update(admin_state_up=False)
    expect(attempts(place.neighbour, [place.far, place.third]), place.conversations)
    lab.wait_for_port(subject.vm, "DOWN")
    subject.update(admin_state_up=True)
    lab.wait_for_port(subject.vm)
    expect(place.conversations)


def test_admin_state_of_a_network(place: Place) -> None:
    subject, lab = place.subject, place.lab
    expect(place.conversations)
    lab.api.update("network", place.network["id"], admin_state_up=False)
    expect([], place.conversations)
    for guest in (subject, *place.others):
        lab.wait_for_port(guest.vm, "DOWN")
    lab.api.update("network", place.network["id"], admin_state_up=True)
    for guest in (subject, *place.others):
        lab.wait_for_port(guest.vm)
    expect(place.conversations)


# --- where a port is --------------------------------------------------------------------------------------------------


def test_another_host(place: Place) -> None:
    """Bound to another host and plugged there, it is where all look for it, and nothing of it is where it was."""
    subject, lab = place.subject, place.lab
    expect(place.conversations)
    lab.move_vm("subject", "h2")
    expect(place.conversations)
    cookie = f"{cookie_of(f'port {subject.port_id}'):#x}"
    wait_until(lambda: cookie not in flows(lab, "h1"), SOON, "the port's flows are left where it was")
    assert cookie in flows(lab, "h2")
    with lab.capture("h1", "udp port 4789") as seen:
        assert reaches(place.third, subject.addresses[4])
        assert reaches(place.third, place.neighbour.addresses[4])
        seen.wait_for(f"> {place.neighbour.addresses[4]}: ICMP echo request")
    assert f"> {subject.addresses[4]}: ICMP echo request" not in seen.text
    lab.move_vm("subject", "h1")
    expect(place.conversations)


# --- what is left -----------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_a_deleted_port(place: Place) -> None:
    lab = place.lab
    before = _settled(lab)
    free = {"port_security_enabled": False, "security_groups": []}
    guests = make_guests(
        lab,
        Spec("passing", place.network, "h1", [place.group], {"allowed_address_pairs": [{"ip_address": "10.0.0.0/26"}]}),
        Spec("careless", place.network, "h2", values=free),
    )
    for guest in guests:
        wait_until_reachable(place.third, guest)
    more = (("h1", "br-int"), ("h2", "br-int"), ("h3", "br-tun"))
    wait_until(lambda: all(_counts(lab)[at] > before[at] for at in more), SOON, f"no further flows on all of {more}")
    wait_until(lambda: bool(_learned(lab, "h2")), SOON, "h2 has learned nothing")

    for guest in guests:
        lab.delete_vm(guest.name)
        lab.api.delete("port", guest.port_id)
    wait_until(lambda: _counts(lab) == before, SOON, "flows of deleted ports are left")
    wait_until(lambda: not _learned(lab, "h2"), SOON, "learned flows of deleted ports are left")


def _learned(lab: Lab, host: str) -> list[str]:
    return [line for line in flows(lab, host).splitlines() if f"cookie={LEARNED_COOKIE >> 32:#x}" in line]


@pytest.mark.parametrize("kind", ["geneve", "vlan"])
def test_nothing_is_left_of_a_network(place: Place, kind: str) -> None:
    lab = place.lab
    before, tunnels = _settled(lab), _tunnels(lab, "h1")
    physical = {"provider:physical_network": "physnet1"} if kind == "vlan" else {}
    net = make_network(lab, "passing", **{"provider:network_type": kind}, **physical)
    one, two = make_guests(lab, Spec("one", net, "h1", [place.group]), Spec("two", net, "h2", [place.group]))
    wait_until_reachable(one, two)
    assert _counts(lab)["h1", "br-int"] > before["h1", "br-int"]
    for guest in (one, two):
        lab.delete_vm(guest.name)
        lab.api.delete("port", guest.port_id)
    lab.api.delete("network", net["id"])
    wait_until(lambda: _counts(lab) == before, SOON, "flows of a deleted network are left")
    wait_until(lambda: _tunnels(lab, "h1") == tunnels, SOON, "tunnels of a deleted network are left")


def test_a_port_deleted_while_it_is_plugged_is_cut_off(place: Place) -> None:
    lab = place.lab
    (victim,) = make_guests(lab, Spec("victim", place.network, "h1", [place.group]))
    wait_until_reachable(place.neighbour, victim)
    device, number = victim.vm.tap, ofport(lab, "h1", victim.port_id)
    lab.api.delete("port", victim.port_id)
    expect([], [*attempts(place.others, [victim]), *attempts(victim, [place.neighbour])])
    wait_until(lambda: _tag(lab, "h1", device) == str(DEAD_VLAN), SOON, "a deleted port is not in the dead VLAN")

    def actions() -> list[str]:
        mine = [line for line in flows(lab, "h1").splitlines() if f"in_port={number} " in line]
        return [line.partition("actions=")[2] for line in mine]

    wait_until(lambda: actions() == ["drop"], SOON, f"its flows do not drop its packets: {actions()}")
    wait_until_reachable(place.neighbour, place.subject)
    lab.delete_vm("victim")


def _tag(lab: Lab, host: str, device: str) -> str:
    return lab.run(host, ["ovs-vsctl", "get", "Port", device, "tag"]).stdout.strip()


# --- what nobody wired ------------------------------------------------------------------------------------------------


@pytest.fixture
def strangers(place: Place) -> Iterator[tuple[Guest, Guest]]:
    """Two machines plugged on h1 for ports that the server does not know."""
    lab = place.lab
    vms = [Vm(f"nobody{n}", "h1", str(uuid.uuid4()), str(uuid.uuid4()), f"fa:16:3e:ff:ff:0{n}", 1450) for n in (1, 2)]
    yield from _plugged(lab, vms)


def _plugged(lab: Lab, vms: list[Vm]) -> Iterator[tuple[Guest, Guest]]:
    plug.plug(lab.ovs("h1"), vms)
    try:
        first, second = (
            Guest(lab, vm.name, vm.port_id, vm.mac, {4: f"10.0.0.{240 + n}"}, "h1") for n, vm in enumerate(vms)
        )
        yield first, second
    finally:
        plug.unplug(lab.ovs("h1"), vms)


def _all_ways(source: Guest, targets: list[Guest]) -> dict[str, Frame]:
    """To everybody and to each; without a tag and with every one that means a network on the host."""
    ways = {}
    for vlan in (None, *range(1, 6), DEAD_VLAN):
        ways[f"to all with tag {vlan}"] = datagram(ends(source), (EVERYBODY, "255.255.255.255"), vlan=vlan)
        for target in targets:
            ways[f"to {target.name} with tag {vlan}"] = datagram(ends(source), ends(target), vlan=vlan)
    return ways


def test_a_machine_that_nobody_wired_reaches_nobody(place: Place, strangers: tuple[Guest, Guest]) -> None:
    one, other = strangers
    ways = _all_ways(one, [place.subject, place.neighbour, other])
    assert not arriving(one, place.subject, ways, honest(place.neighbour, place.subject), place.neighbour)
    assert swallowed(one, other, ways, lambda: taken_from(one))


def test_nor_before_the_agent_has_heard_of_it(place: Place) -> None:
    """The agent is not there: what is plugged now has no tag yet, and stays unheard."""
    lab = place.lab
    lab.stop_agent("h1")
    try:
        vms = [
            Vm(f"early{n}", "h1", str(uuid.uuid4()), str(uuid.uuid4()), f"fa:16:3e:ff:fe:0{n}", 1450) for n in (1, 2)
        ]
        for one, other in _plugged(lab, vms):
            lab.run("h1", ["ovs-vsctl", "--timeout=5", "wait-until", "Interface", vms[1].tap, "ofport>0"])
            assert _tag(lab, "h1", vms[0].tap) == "[]"
            ways = _all_ways(one, [place.subject, place.neighbour, other])
            assert not arriving(one, place.subject, ways, honest(place.neighbour, place.subject), place.neighbour)
            assert swallowed(one, other, ways, lambda one=one: taken_from(one))  # type: ignore[misc]
    finally:
        lab.start_agent("h1")


def test_untagged_frames_of_a_provider_wire_reach_nobody_without_a_flat_network(
    place: Place, strangers: tuple[Guest, Guest]
) -> None:
    """A VLAN network is on the same wire: only its own tag leads there."""
    lab = place.lab
    net = make_network(lab, "tagged", **{"provider:network_type": "vlan", "provider:physical_network": "physnet1"})
    tag = net["provider:segmentation_id"]
    here, far = make_guests(lab, Spec("here", net, "h1", [place.group]), Spec("there", net, "h2", [place.group]))
    wait_until_reachable(here, far)
    wire = Wire(lab)
    frames = {
        f"{kind} with tag {vlan}": _on_wire(mac, vlan)
        for vlan in (None, 1, 2, 3, tag + 1)
        for kind, mac in (("to all", EVERYBODY), ("to it", here.mac), ("to a stranger", strangers[0].mac))
    }
    with FrameCapture(strangers[0]) as ear:
        assert not arriving(wire, here, frames, _on_wire(here.mac, tag))
        assert not ear.receives(b"to ", 0.2)
    for guest in (here, far):
        lab.delete_vm(guest.name)
        lab.api.delete("port", guest.port_id)
    lab.api.delete("network", net["id"])


@dataclasses.dataclass(frozen=True)
class Wire:
    """The provider network's wire, as a machine on it that may send what it likes."""

    lab: Lab
    device: str = "provider"

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        return in_host(self.lab.holder(FABRIC), lambda: socket.socket(family, kind, protocol))


def _on_wire(to: str, vlan: int | None) -> Frame:
    return datagram(("02:00:00:00:00:77", "10.0.0.247"), (to, "255.255.255.255"), vlan=vlan)


def test_a_port_on_a_bridge_of_others_is_told_up_and_down(place: Place) -> None:
    """Somebody else wires it; that it is there is all that the agent says."""
    lab = place.lab
    port = lab.api.create(
        "port", network_id=place.network["id"], device_owner="compute:lab", **{"binding:host_id": "h1"}
    )

    def wait_for(status: str) -> None:
        wait_until(
            lambda: lab.api.show("port", port["id"])["status"] == status, SOON, f"an ancillary port is not {status}"
        )

    lab.run("h1", ["ovs-vsctl", "add-br", "br-other", "--", "set", "Bridge", "br-other", "datapath_type=netdev"])
    try:
        before = flows(lab, "h1", "br-other")
        lab.run(
            "h1",
            [
                *("ovs-vsctl", "add-port", "br-other", "elsewhere0", "--", "set", "Interface", "elsewhere0"),
                *("type=internal", f"external_ids:iface-id={port['id']}"),
            ],
        )
        wait_for("ACTIVE")
        assert _tag(lab, "h1", "elsewhere0") == "[]"
        assert flows(lab, "h1", "br-other") == before
        lab.run("h1", ["ovs-vsctl", "del-port", "br-other", "elsewhere0"])
        wait_for("DOWN")
    finally:
        lab.run("h1", ["ovs-vsctl", "--if-exists", "del-br", "br-other"])
        lab.api.delete("port", port["id"])
