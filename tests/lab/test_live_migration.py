"""A VM that moves while it runs: its port is bound to two hosts, and packets follow it as soon as it runs on the second.

What Nova does: it binds the port to the target too, plugs it there, and when the machine runs on the target, or a moment
later, it activates that binding. Here the machine is a namespace on both hosts, with the same MAC and addresses.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import ip_batch, vm_network, write_sysctls
from neutrino.lab.instances.addressing import apply_static
from neutrino.lab.settings import vm_namespace
from neutrino.model.objects import Object
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_frames import (
    Frame,
    FrameCapture,
    announces,
    arp_request,
    arriving,
    ends,
    honest,
    send,
    swallowed,
)
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    VERSIONS,
    Guest,
    Spec,
    attempts,
    converse,
    expect,
    make_group,
    make_guests,
    make_network,
    taken_from,
    wait_until_reachable,
)

SOURCE, TARGET = "h1", "h2"


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    traveller: Guest  # on h1, to go to h2
    neighbour: Guest  # on h1
    host: Guest  # on h2
    third: Guest  # on h3

    @property
    def others(self) -> tuple[Guest, ...]:
        return self.neighbour, self.host, self.third


@pytest.fixture(scope="module")
def places(lab: Lab) -> dict[str, Place]:
    group, _ = make_group(lab, "open", *EVERYTHING)
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    networks = {"vxlan": make_network(lab, "vxlan"), "vlan": make_network(lab, "vlan", **vlan)}
    hosts = {"traveller": "h1", "neighbour": "h1", "host": "h2", "third": "h3"}
    guests = iter(
        make_guests(
            lab,
            *(Spec(f"{kind}-{name}", net, on, [group]) for kind, net in networks.items() for name, on in hosts.items()),
        )
    )
    return {kind: Place(lab, *(next(guests) for _ in hosts)) for kind in networks}


@contextlib.contextmanager
def _on_target(place: Place) -> Iterator[Object]:
    """The port is bound to the target too, and the machine is there, not running yet; gone where it is not in the end."""
    lab, traveller = place.lab, place.traveller
    path = f"/v2.0/ports/{traveller.port_id}/bindings"
    binding = lab.api.request("POST", path, {"binding": {"host": TARGET}})["binding"]
    lab.plug(traveller.name, TARGET, silent=True)
    try:
        wait_until(lambda: _is_wired(lab, TARGET, traveller), SOON, "the target does not wire the port")
        yield binding
    finally:
        left = SOURCE if traveller.port["binding:host_id"] == TARGET else TARGET
        lab.unplug(traveller.name, left)
        lab.api.request("DELETE", f"{path}/{left}")


def _everything(source: Guest, target: Guest) -> dict[str, Frame]:
    return {
        "datagram": honest(source, target),
        "ARP": arp_request(source.mac, ends(source), source.addresses[4]),
        "announcement": announces(source.mac),
    }


def _tag(lab: Lab, host: str, guest: Guest) -> str:
    return lab.run(host, ["ovs-vsctl", "get", "Port", guest.vm.tap, "tag"]).stdout.strip()


def _is_wired(lab: Lab, host: str, guest: Guest) -> bool:
    return _tag(lab, host, guest) not in ("[]", str(DEAD_VLAN))


def _pause(guest: Guest) -> None:
    guest.inside(lambda: ip_batch(["link set eth0 down"]))


def _resume(guest: Guest) -> None:
    """The machine runs, and QEMU announces it."""
    subnets = guest.lab.api.list("subnet", network_id=guest.port["network_id"])
    guest.inside(lambda: write_sysctls({"ipv6/conf/eth0/disable_ipv6": 0}))
    apply_static(vm_network(guest.lab.holder(guest.host), vm_namespace(guest.name)), guest.port, subnets)
    send(guest, announces(guest.mac)(b"here I am"))


@pytest.mark.parametrize("kind", ["vxlan", "vlan"])
def test_a_machine_that_does_not_move_after_all_misses_nothing(places: dict[str, Place], kind: str) -> None:
    place = places[kind]
    lab, traveller = place.lab, place.traveller
    for other in place.others:
        wait_until_reachable(other, traveller)
    with Pinging(lab, place.third.name, traveller.addresses[4]) as ping:
        with _on_target(place) as binding:
            assert (binding["host"], binding["status"], binding["vif_type"]) == (TARGET, "INACTIVE", "ovs")
            with FrameCapture(traveller.at(TARGET)) as ear:
                for other in place.others:
                    towards = _everything(other, traveller)
                    assert {"datagram"} <= arriving(other, traveller.at(SOURCE), towards, honest(other, traveller))
                assert not ear.receives(b"datagram", 0.2)  # it would get them later, when it runs
        assert traveller.port["binding:host_id"] == SOURCE
        for other in place.others:
            wait_until_reachable(other, traveller)
    assert ping.sent
    assert ping.lost == 0
    assert traveller.port["status"] == "ACTIVE"


@pytest.mark.parametrize("kind", ["vxlan", "vlan"])
def test_packets_follow_a_machine_before_its_binding_is_activated(places: dict[str, Place], kind: str) -> None:
    place = places[kind]
    lab, traveller = place.lab, place.traveller
    old, new = traveller.at(SOURCE), traveller.at(TARGET)
    for other in place.others:
        wait_until_reachable(other, traveller)
    with _on_target(place):
        _pause(old)
        _resume(new)
        for other in place.others:
            for version in VERSIONS:
                wait_until_reachable(other, new, version)
            expect(attempts([other], [new]))
        assert traveller.port["binding:host_id"] == SOURCE
        with contextlib.ExitStack() as stack:
            # Not from the neighbour: the connections of a port that leaves are flushed, and a reply on its way is lost.
            others = (place.host, place.third)
            pings = [stack.enter_context(Pinging(lab, each.name, new.addresses[4])) for each in others]
            lab.api.request("PUT", f"/v2.0/ports/{traveller.port_id}/bindings/{TARGET}/activate")
            wait_until(
                lambda: _tag(lab, SOURCE, traveller) == str(DEAD_VLAN), SOON, "the machine is still wired at its source"
            )
        assert [(ping.lost, ping.sent > 0) for ping in pings] == [(0, True), (0, True)]
        lab.settle_vm(traveller.name, TARGET)
        lab.wait_for_port(traveller.vm)
        assert traveller.port["binding:host_id"] == TARGET
        lab.run(SOURCE, ["ovs-appctl", "revalidator/wait"])  # the datapath may still hold older decisions
        old.inside(lambda: ip_batch(["link set eth0 up"]))
        with FrameCapture(old) as behind:
            for other in place.others:
                frames = {"after": honest(other, new), "to all after": _everything(other, new)["ARP"]}
                assert arriving(other, new, frames, honest(other, new)) == frames.keys()
            assert not behind.receives(b"after", 0.1)
        assert swallowed(old, place.neighbour, _everything(old, place.neighbour), lambda: taken_from(old))
    for other in place.others:
        with converse(new, other, 80) as connection:
            assert connection.talks()
