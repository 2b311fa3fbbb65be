"""Who reaches whom, on every type of network, over an underlay of either IP version."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab import restricted_datapaths, temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_frames import arriving, honest, to_all
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    VERSIONS,
    Guest,
    Spec,
    attempts,
    converse,
    expect,
    flows,
    make_group,
    make_guests,
    make_network,
    pings,
    reaches,
    wait_until_reachable,
)

TYPES = ("vxlan", "gre", "geneve", "vlan", "flat", "local")
TUNNELS = ("vxlan", "gre", "geneve")
WIRE_MTU = 1500
OVER_IPV4 = {"vxlan": 50, "gre": 42, "geneve": 50}  # the bytes that a tunnel adds; over IPv6 it is 20 more
IP_AND_ICMP = {4: 28, 6: 48}


@dataclasses.dataclass(frozen=True)
class Place:
    """A network with VMs on two hosts, and another one with the same addresses."""

    kind: str
    network: Object
    here: Guest  # on h1
    neighbour: Guest  # on h1
    far: Guest  # on h2
    double: Guest  # on the other network, with the address of `far`
    stranger: Guest  # on the other network, on h1, with an address that nobody has on this one

    @property
    def reachable(self) -> list[Guest]:
        return [self.neighbour] if self.kind == "local" else [self.neighbour, self.far]


def _provider(kind: str, second: bool = False) -> dict[str, str]:
    values = {"provider:network_type": kind}
    if kind in ("vlan", "flat"):
        # A physical network has one untagged network: the second is on another wire.
        values["provider:physical_network"] = "external" if second and kind == "flat" else "physnet1"
    return values


def _specs(lab: Lab, kind: str, group: str) -> list[Spec]:
    mine = make_network(lab, f"{kind}-one", **_provider(kind))
    other = make_network(lab, f"{kind}-two", **_provider(kind, second=True))

    def spec(name: str, net: Object, host: str, number: int) -> Spec:
        fixed = [{"ip_address": f"10.0.0.{number}"}, {"ip_address": f"fd00:10::{number}"}]
        return Spec(f"{kind}-{name}", net, host, [group], {"fixed_ips": fixed})

    return [
        spec("here", mine, "h1", 11),
        spec("neighbour", mine, "h1", 12),
        spec("far", mine, "h2", 13),
        spec("double", other, "h1" if kind == "local" else "h2", 13),
        spec("stranger", other, "h1", 14),
    ]


@pytest.fixture(scope="module")
def places(lab: Lab) -> Iterator[dict[str, Place]]:
    """On datapaths that can do no more than the kernel's; tunnels over IPv6 have all features."""
    with restricted_datapaths(lab):
        group, _ = make_group(lab, "open", *EVERYTHING)
        specs = {kind: _specs(lab, kind, group) for kind in TYPES}
        guests = iter(make_guests(lab, *chain.from_iterable(specs.values())))
        yield {kind: Place(kind, own[0].network, *islice(guests, len(own))) for kind, own in specs.items()}


@pytest.fixture(params=TYPES)
def place(places: dict[str, Place], request: pytest.FixtureRequest) -> Place:
    return places[request.param]


def test_ports_of_a_network_reach_each_other(place: Place) -> None:
    for target in place.reachable:
        for version in VERSIONS:
            wait_until_reachable(place.here, target, version)
            for source, server in ((place.here, target), (target, place.here)):
                with converse(source, server, 80, version) as connection:
                    assert connection.carries()
                    assert connection.answers(5)


def test_a_local_network_ends_at_its_host(places: dict[str, Place]) -> None:
    place = places["local"]
    expect(attempts(place.here, [place.neighbour]), attempts(place.here, [place.far]))
    assert not pings(place.here, place.far.addresses[4])


def test_networks_with_the_same_addresses_do_not_meet(place: Place) -> None:
    here, double, stranger = place.here, place.double, place.stranger
    wait_until_reachable(stranger, double)
    assert not pings(here, stranger.addresses[4])
    assert not pings(here, stranger.addresses[6])

    for receiver, witness in ((double, stranger), (stranger, double)):
        frames = {
            "by its MAC": honest(here, receiver),
            "to everybody": to_all(here),
        }
        assert not arriving(here, receiver, frames, honest(witness, receiver), witness)


def test_packets_of_exactly_the_mtu_pass(place: Place) -> None:
    mtu = WIRE_MTU - OVER_IPV4.get(place.kind, 0)
    assert place.network["mtu"] == mtu
    _check_mtu(place.here, place.reachable[-1], mtu)


def _check_mtu(source: Guest, target: Guest, mtu: int) -> None:
    """The sender's own device is told to take more, so that it is the way there that does not."""
    wait_until_reachable(source, target)
    wait_until_reachable(source, target, 6)
    source.ip("link", "set", "eth0", "mtu", str(mtu + 8))
    for version in VERSIONS:
        exactly = mtu - IP_AND_ICMP[version]
        forbidden = ("-M", "do", "-s")
        assert reaches(source, target.addresses[version], *forbidden, str(exactly))
        assert not pings(source, target.addresses[version], *forbidden, str(exactly + 1))
        assert reaches(source, target.addresses[version], *forbidden, str(exactly))
    source.ip("link", "set", "eth0", "mtu", str(mtu))


# --- a lab of its own: an underlay of IPv6, and agents that learn -------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Wide:
    """A network with a VM on each of three hosts."""

    network: Object
    first: Guest
    second: Guest
    third: Guest


@pytest.fixture(scope="module")
def six() -> Iterator[Lab]:
    with temporary_lab(hosts=3, underlay_ip_version=6, roles=("l2",)) as lab:
        yield lab


@pytest.fixture(scope="module")
def wide(six: Lab) -> dict[str, Wide]:
    group, _ = make_group(six, "open", *EVERYTHING)
    networks = {kind: make_network(six, kind, **_provider(kind)) for kind in TUNNELS}
    specs = [Spec(f"{kind}-{host}", networks[kind], host, [group]) for kind in TUNNELS for host in six.hosts]
    guests = iter(make_guests(six, *specs))
    return {kind: Wide(networks[kind], *islice(guests, len(six.hosts))) for kind in TUNNELS}


@pytest.mark.parametrize("kind", TUNNELS)
def test_tunnels_over_ipv6(six: Lab, wide: dict[str, Wide], kind: str) -> None:
    place = wide[kind]
    mtu = WIRE_MTU - OVER_IPV4[kind] - 20
    assert place.network["mtu"] == mtu
    with six.capture("h2", "ip6") as seen:
        for version in VERSIONS:
            wait_until_reachable(place.first, place.second, version)
            with converse(place.second, place.first, 80, version) as connection:
                assert connection.carries()
        seen.wait_for("fd00:255::1")
    _check_mtu(place.first, place.second, mtu)


@pytest.fixture(scope="module")
def learning(six: Lab, wide: dict[str, Wide]) -> dict[str, Wide]:
    """Every agent runs without l2population from now on."""

    def restart(host: str) -> None:
        six.stop_agent(host)
        six.start_agent(host, {"agent": {"l2_population": "false"}})
        # It is up with what it remembers; what it remembers is changed only when the server has told it everything.
        wait_until(lambda: "learn(" in flows(six, host, "br-tun"), SOON, f"{host} does not learn")
        six.run(host, ["ovs-appctl", "dpctl/del-flows"])  # the datapath's cache of decisions is older than this

    with ThreadPoolExecutor(max_workers=3) as pool:
        list(pool.map(restart, six.hosts))
    return wide


@pytest.mark.parametrize("kind", TUNNELS)
def test_without_l2population_the_switch_learns(six: Lab, learning: dict[str, Wide], kind: str) -> None:
    place = learning[kind]
    place.first.ip("neigh", "flush", "dev", "eth0")
    with six.capture("h3", "ip6") as seen:
        for version in VERSIONS:
            wait_until_reachable(place.first, place.second, version)
        seen.wait_for(f"who-has {place.second.addresses[4]}")
        seen.wait_for(f"who has {place.second.addresses[6]}")
        for version in VERSIONS:
            with converse(place.first, place.second, 80, version) as connection:
                assert connection.carries()
        wait_until_reachable(place.first, place.third)
        seen.wait_for(f"> {place.third.addresses[4]}: ICMP echo request")
    assert f"> {place.second.addresses[4]}: ICMP" not in seen.text
    assert f"> {place.second.addresses[6]}: ICMP6, echo" not in seen.text
    assert ".80: Flags" not in seen.text
