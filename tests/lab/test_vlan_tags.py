"""Networks that carry the VLAN tags of instances (`vlan_transparent`, `qinq`): which frames arrive, with which tags."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_frames import EVERYBODY, Frame, arp_request, arriving, datagram, honest
from tests.support.lab_guests import SOON, Guest, Spec, allow, make_group, make_guests, make_network
from tests.support.lab_kinds import LabKind
from tests.support.lab_tags import DOT1AD, DOT1Q, Tags, arriving_tags, tagged

PHYSICAL = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
TRANSPARENT = {
    kind: {"provider:network_type": kind, "vlan_transparent": True} for kind in ("local", "vxlan", "gre", "geneve")
} | {"vlan": {**PHYSICAL, "vlan_transparent": True}, "qinq": {**PHYSICAL, "qinq": True}}
SEGMENT = "provider:segmentation_id"
UNSECURED = {"port_security_enabled": False, "security_groups": []}

VLAN = 7  # of the instances
INNER: Tags = ((DOT1Q, VLAN),)
WAYS: dict[str, Tags] = {"tagged": INNER, "another tag": ((DOT1Q, 4000),), "untagged": ()}
AS_SENT = {name: [tags] for name, tags in WAYS.items()}
PORT, CLIENT, CLOSED = 7, 5555, 9  # of UDP: allowed by the security group; of a client; not allowed
FROM, TO = "192.168.7.1", "192.168.7.2"  # addresses within the VLAN of the instances
PAIRS = {"allowed_address_pairs": [{"ip_address": "192.168.7.0/24"}]}


LAB = LabKind(hosts=2, roles=("l2",), server="[DEFAULT]\nvlan_transparent = true\nvlan_qinq = true\n")


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    network: Object
    here: Guest  # on h1, with security groups
    near: Guest  # on h1, with security groups
    far: Guest  # on h2 unless the network is local, with security groups
    free: Guest  # on h1, without port security
    free_far: Guest  # where `far` is, without port security


@pytest.fixture(scope="module", params=TRANSPARENT)
def place(lab: Lab, request: pytest.FixtureRequest) -> Place:
    return make_place(lab, request.param, request.param)


def make_place(lab: Lab, name: str, kind: str) -> Place:
    group, _ = make_group(lab, name, allow("udp", PORT))
    net = make_network(lab, f"net-{name}", **TRANSPARENT[kind])
    far = "h1" if kind == "local" else "h2"
    guests = make_guests(
        lab,
        Spec(f"{name}-here", net, "h1", [group], PAIRS),
        Spec(f"{name}-near", net, "h1", [group], PAIRS),
        Spec(f"{name}-far", net, far, [group], PAIRS),
        Spec(f"{name}-free", net, "h1", None, UNSECURED),
        Spec(f"{name}-free-far", net, far, None, UNSECURED),
    )
    return Place(lab, net, *guests)


def to(
    source: Guest, target: Guest, number: int = PORT, *, address: str = FROM, mac: str = "", client: int = CLIENT
) -> Frame:
    """A datagram within the VLAN of the instances."""
    return datagram((mac or source.mac, address), (target.mac, TO), (client, number))


def to_all(source: Guest) -> Frame:
    return datagram((source.mac, FROM), (EVERYBODY, "255.255.255.255"), (CLIENT, PORT))


def check_all_ways(place: Place) -> None:
    for target in (place.near, place.far, place.free, place.free_far):
        for sender in (place.here, place.free):
            if sender is not target:
                for frame in (to(sender, target), to_all(sender)):
                    assert arriving_tags(sender, target, frame, WAYS) == AS_SENT


def test_tags_arrive_as_they_were_sent(place: Place) -> None:
    """To ports of the same host and of another one, by unicast and by broadcast, with and without security groups."""
    check_all_ways(place)


def test_security_groups_look_into_tagged_frames(place: Place) -> None:
    sender, target = place.here, place.far
    refused = {
        "to a closed port": to(sender, target, CLOSED),
        "from another address": to(sender, target, address="192.168.8.1"),
        "from another MAC": to(sender, target, mac="02:00:00:00:00:99"),
    }
    control = tagged(to(sender, target), INNER)
    frames = {name: tagged(frame, INNER) for name, frame in refused.items()}
    assert arriving(sender, target, frames, control) == set()
    closed = {"to a closed port": tagged(to(place.free, target, CLOSED), INNER)}
    assert arriving(place.free, target, closed, tagged(to(place.free, target), INNER)) == set()


def test_replies_pass(place: Place) -> None:
    """Connections within a VLAN of the instances are tracked: a reply passes without a rule."""
    client, server, number = place.here, place.far, 6666
    reply = {"reply": tagged(datagram((server.mac, TO), (client.mac, FROM), (PORT, number)), INNER)}
    control = tagged(datagram((server.mac, TO), (client.mac, FROM), (CLIENT, PORT)), INNER)
    assert arriving(server, client, reply, control) == set()
    request = to(client, server, client=number)
    assert arriving_tags(client, server, request, {"request": INNER}) == {"request": [INNER]}
    assert arriving(server, client, reply, control) == {"reply"}


def test_requests_for_addresses_reach_all_hosts(place: Place) -> None:
    """The responder of the host does not answer: in the VLAN of the instances, the address is another machine's."""
    sender = place.free
    request = arp_request(sender.mac, (sender.mac, FROM), place.far.addresses[4])
    assert arriving_tags(sender, place.free_far, request, WAYS) == AS_SENT


@dataclasses.dataclass(frozen=True)
class Wire:
    """The end of a physical network at a host."""

    lab: Lab
    host: str
    device: str = "provider"

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        return self.lab.inside(self.host, lambda: socket.socket(family, kind, protocol))


@pytest.mark.parametrize("place", ["vlan", "qinq"], indirect=True)
def test_the_tags_on_the_wire(place: Place) -> None:
    outer = (DOT1AD if place.network["qinq"] else DOT1Q, place.network[SEGMENT])
    found = arriving_tags(place.here, Wire(place.lab, "h2"), to(place.here, place.far), WAYS)
    assert found == {name: [(outer, *tags)] for name, tags in WAYS.items()}


def test_other_networks_drop_tags(lab: Lab) -> None:
    """Also those of QinQ, on a host whose switch looks at two tags."""
    carrying, plain = make_network(lab, "carrying", vlan_transparent=True), make_network(lab, "plain", **PHYSICAL)
    _, sender, near, far = make_guests(
        lab,
        Spec("carried", carrying, "h1", None, UNSECURED),
        Spec("plain-sender", plain, "h1", None, UNSECURED),
        Spec("plain-near", plain, "h1", None, UNSECURED),
        Spec("plain-far", plain, "h2", None, UNSECURED),
    )
    assert lab.ovs("h1").vsctl("get", "Open_vSwitch", ".", "other_config:vlan-limit").strip() == '"0"'
    for target in (near, far):
        sent: dict[str, Tags] = {**{name: tags for name, tags in WAYS.items() if tags}, "QinQ": ((DOT1AD, 5), *INNER)}
        for made in (to(sender, target), to_all(sender)):
            frames = {name: tagged(made, tags) for name, tags in sent.items()}
            assert arriving(sender, target, frames, honest(sender, target)) == set()


def test_a_tag_is_not_a_local_vlan(lab: Lab) -> None:
    """A tag with the number of another network's local VLAN, or of its segment, leads to no port of that network."""
    carrying, other = make_network(lab, "tags", vlan_transparent=True), make_network(lab, "others", **PHYSICAL)
    sender, witness, *strangers = make_guests(
        lab,
        Spec("tags-sender", carrying, "h1", None, UNSECURED),
        Spec("others-witness", other, "h1", None, UNSECURED),
        Spec("others-near", other, "h1", None, UNSECURED),
        Spec("others-far", other, "h2", None, UNSECURED),
    )
    tags = lab.ovs("h1").vsctl("--bare", "--columns=tag", "list", "Port").split()
    vlans = {*map(int, tags), other[SEGMENT]}
    assert len(vlans) > 2
    for target in strangers:
        frames = {
            f"{way} with tag {vlan}": tagged(frame, ((DOT1Q, vlan),))
            for vlan in sorted(vlans)
            for way, frame in (("unicast", to(sender, target)), ("broadcast", to_all(sender)))
        }
        assert arriving(sender, target, frames, honest(witness, target), witness) == set()


@contextlib.contextmanager
def learning(lab: Lab) -> Iterator[None]:
    """Hosts without l2population: they learn where MACs are."""

    def restart(l2_population: str) -> None:
        for host in ("h1", "h2"):
            lab.stop_agent(host)
            lab.start_agent(host, {"agent": {"l2_population": l2_population, "arp_responder": l2_population}})

    restart("false")
    yield
    restart("true")


def test_tags_without_l2population(lab: Lab) -> None:
    with learning(lab):
        check_all_ways(make_place(lab, "learned", "vxlan"))


def test_frames_with_two_tags_are_dropped(place: Place) -> None:
    """The switch handles two, of which one is the network's: the second one of the instance would be lost on the way.

    The outer tag is one that no frame had alone: a megaflow of such frames would let these pass.
    """
    for target in (place.free, place.far):
        for frame in (to(place.here, target), to_all(place.here)):
            frames = {f"{outer:#x}": tagged(frame, ((outer, 9), (DOT1Q, 8))) for outer in (DOT1Q, DOT1AD)}
            assert arriving(place.here, target, frames, tagged(frame, INNER)) == set()


def test_the_hint_of_a_port_reaches_the_switch(lab: Lab) -> None:
    """It is a setting of the interface, and is removed with the hint."""
    (guest,) = make_guests(lab, Spec("steered", make_network(lab, "steered"), "h1", None, UNSECURED))
    wanted = f"external_ids:iface-id={guest.port_id}"

    def wait_for(settings: str) -> None:
        find = ("--bare", "--columns=other_config", "find", "Interface", wanted)
        wait_until(lambda: lab.ovs("h1").vsctl(*find).strip() == settings, SOON, f"the interface has {settings!r}")

    for steering in ("hash", "thread"):
        guest.update(hints={"openvswitch": {"other_config": {"tx-steering": steering}}})
        wait_for(f"tx-steering={steering}")
    guest.update(hints=None)
    wait_for("")
