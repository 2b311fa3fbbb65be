"""With l2population every host knows where ports are: unicast takes one tunnel, and questions for addresses take none.

Seen on the wires, by capture on the underlay.
"""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.lab.errors import wait_until
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_faults import Log, more_than_hiccups
from tests.support.lab_frames import arp_request, ends, send, to_all
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    VERSIONS,
    Guest,
    Spec,
    converse,
    make_group,
    make_guests,
    make_network,
    reaches,
    wait_until_reachable,
)

TUNNELLED = "udp port 4789"
NOBODY = "10.0.0.250"  # an address that nobody has


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    group: str
    first: Guest  # on h1
    second: Guest  # on h2
    third: Guest  # on h3
    narrow: Guest  # on h1, on a network that h3 does not have
    partner: Guest  # on h2, on that network


@pytest.fixture(scope="module")
def place(datapaths: Lab) -> Place:
    lab = datapaths
    group, _ = make_group(lab, "open", *EVERYTHING)
    wide, narrow = make_network(lab, "wide"), make_network(lab, "narrow")
    guests = make_guests(
        lab,
        Spec("first", wide, "h1", [group]),
        Spec("second", wide, "h2", [group]),
        Spec("third", wide, "h3", [group]),
        Spec("narrow", narrow, "h1", [group]),
        Spec("partner", narrow, "h2", [group]),
    )
    place = Place(lab, group, *guests)
    for version in VERSIONS:
        wait_until_reachable(place.first, place.second, version)
        wait_until_reachable(place.first, place.third, version)
        wait_until_reachable(place.narrow, place.partner, version)
    return place


def test_unicast_goes_to_one_host_only(place: Place) -> None:
    second, third = place.second.addresses, place.third.addresses
    with place.lab.capture("h3", TUNNELLED) as elsewhere, place.lab.capture("h2", TUNNELLED) as there:
        for version in VERSIONS:
            assert reaches(place.first, second[version])
            with converse(place.first, place.second, 80, version) as connection:
                assert connection.talks()
        assert reaches(place.first, third[4])
        there.wait_for(f"> {second[4]}: ICMP echo request")
        elsewhere.wait_for(f"> {third[4]}: ICMP echo request")
    for version in VERSIONS:
        assert second[version] in there.text
        assert second[version] not in elsewhere.text


def test_questions_for_known_addresses_are_answered_on_the_spot(place: Place) -> None:
    first, second = place.first, place.second
    first.ip("neigh", "flush", "dev", "eth0")
    with place.lab.capture("h1", TUNNELLED) as seen:
        for version in VERSIONS:
            assert reaches(first, second.addresses[version])
        known = first.ip("neigh", "show", "dev", "eth0")
        seen.wait_for(f"> {second.addresses[6]}: ICMP6, echo request")
    for version in VERSIONS:
        assert f"{second.addresses[version]} lladdr {second.mac}" in known
    assert f"who-has {second.addresses[4]} tell {first.addresses[4]}" not in seen.text
    assert (f"who has {second.addresses[6]}" in seen.text) == (not answers_neighbours(place.lab))


def answers_neighbours(lab: Lab) -> bool:
    """Whether the datapaths can."""
    return "[run time]:true" in lab.run("h1", ["ovs-appctl", "dpif/set-dp-features", "br-int", "nd_ext"]).stdout


def test_neighbour_solicitations_go_to_the_hosts_of_the_network_at_most(place: Place) -> None:
    with place.lab.capture("h2", TUNNELLED) as there, place.lab.capture("h3", TUNNELLED) as elsewhere:
        place.narrow.ip("neigh", "flush", "dev", "eth0")
        assert reaches(place.narrow, place.partner.addresses[6])
        there.wait_for(f"> {place.partner.addresses[6]}: ICMP6, echo request")
        assert reaches(place.first, place.third.addresses[6])
        elsewhere.wait_for(f"> {place.third.addresses[6]}: ICMP6, echo request")
    asked = f"{place.narrow.addresses[6]} > "
    assert (f"who has {place.partner.addresses[6]}" in there.text) == (not answers_neighbours(place.lab))
    assert asked not in elsewhere.text


def test_questions_for_unknown_addresses_go_to_every_host_of_the_network(place: Place) -> None:
    first = place.first
    with place.lab.capture("h2", TUNNELLED) as one, place.lab.capture("h3", TUNNELLED) as other:
        send(first, arp_request(first.mac, ends(first), NOBODY)(b""))
        for seen in (one, other):
            seen.wait_for(f"who-has {NOBODY} tell {first.addresses[4]}")


def test_who_asks_whether_an_address_is_free_asks_all(place: Place) -> None:
    """An address may have come here while its old place is still what this host knows."""
    taken = place.second.addresses[4]
    probe = arp_request(place.first.mac, (place.first.mac, "0.0.0.0"), taken)
    with place.lab.capture("h2", TUNNELLED) as one, place.lab.capture("h3", TUNNELLED) as other:
        send(place.first, probe(b""))
        for seen in (one, other):
            seen.wait_for(f"who-has {taken}")


def test_broadcasts_go_to_the_hosts_that_have_the_network(place: Place) -> None:
    with place.lab.capture("h3", TUNNELLED) as elsewhere, place.lab.capture("h2", TUNNELLED) as there:
        send(place.narrow, to_all(place.narrow, 7001)(b"to everybody"))
        send(place.first, to_all(place.first, 7002)(b"to everybody"))
        there.wait_for("255.255.255.255.7001")
        elsewhere.wait_for("255.255.255.255.7002")
    assert "255.255.255.255.7001" not in elsewhere.text


def test_a_host_hears_broadcasts_from_its_first_port_to_its_last(place: Place) -> None:
    lab, net = place.lab, place.lab.api.find("network", "narrow")

    def hears() -> bool:
        with lab.capture("h3", TUNNELLED) as seen, lab.capture("h2", TUNNELLED) as control:
            send(place.narrow, to_all(place.narrow, 7003)(b"to everybody"))
            control.wait_for("255.255.255.255.7003")
            seen.wait_until_quiet(0.1, 1.0)
        return "255.255.255.255.7003" in seen.text

    assert not hears()
    (visitor,) = make_guests(lab, Spec("visitor", net, "h3", [place.group]))
    wait_until_reachable(place.narrow, visitor)
    assert hears()
    lab.delete_vm("visitor")
    wait_until(lambda: not hears(), SOON, "h3 still gets broadcasts of a network that it does not have")


def test_a_host_that_claims_the_address_of_another_is_refused(place: Place) -> None:
    """Who has it is not disturbed, and the other one is reached again when it has its own."""
    lab = place.lab
    log = Log(lab, "h3-agent")
    taken = lab.agents()["h1"]["configurations"]["tunneling_ip"]
    with Pinging(lab, place.first.name, place.second.addresses[4]) as ping:
        lab.stop_agent("h3")
        lab.start_agent("h3", {"ovs": {"local_ip": taken}})
        log.wait_for(f"local_ip: {taken} is the address for tunnels of host h1 already")
        refused = lab.agents()["h3"]["configurations"]
        assert (refused["tunneling_ip"], refused["tunnel_types"]) == ("", [])
        assert taken in refused["problems"]["local_ip"]
        assert lab.agents()["h1"]["configurations"]["tunneling_ip"] == taken
        lab.stop_agent("h3")
        lab.start_agent("h3", {})
        wait_until_reachable(place.first, place.third)
    assert more_than_hiccups(ping.unanswered) == [], "tunnels to h3 go and come again meanwhile"
    assert "local_ip" not in lab.agents()["h3"]["configurations"]["problems"]
