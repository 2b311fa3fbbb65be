"""The contract of the netlink driver, on the fake and in real namespaces of the kernel."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import random
import socket
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from neutrino.dataplane.netlink.api import (
    DeleteDevice,
    DeleteItem,
    MoveDevice,
    Netlink,
    NetlinkError,
    SetDevice,
    SetItem,
    SetSysctl,
    SetVeth,
)
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.netlink.values import (
    HOST,
    MAIN_TABLE,
    OURS,
    NextHop,
    address,
    multipath_route,
    neighbour,
    proxy_neighbour,
    route,
    rule,
)
from tests.fakes.netlink import FakeNetlink
from tests.fakes.netlink_stack import KERNEL
from tests.support.namespaces import random_router, settle
from tests.support.waiting import eventually

PROMOTE = "net/ipv4/conf/all/promote_secondaries"
MAC = "fa:16:3e:00:00:01"


class Place:
    """A driver, and names that no other test has."""

    def __init__(self, netlink: Netlink) -> None:
        self.netlink = netlink
        self.tag = uuid.uuid4().hex[:8]
        self.router, self.other = self.name("r"), self.name("o")
        self.made = [self.router, self.other]

    def name(self, what: str) -> str:
        return f"{what}-{self.tag}"

    def apply(self, *changes) -> None:
        self.netlink.apply(self.router, changes)

    def read(self, *sysctls: str):
        return self.netlink.read(self.router, sysctls)

    def close(self) -> None:
        for name in self.made:
            self.netlink.delete_namespace(name)


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    made = Place(FakeNetlink() if request.param == "fake" else RealNetlink())
    try:
        made.netlink.create_namespace(made.router)
        made.netlink.create_namespace(made.other)
        yield made
    finally:
        made.close()


@pytest.fixture
def link(place: Place) -> Place:
    """A device `qr` in the router's namespace, up, whose other end `far` is up in the other one."""
    place.apply(SetVeth("qr", "far", place.other, mac=MAC), SetDevice("qr", up=True), SetDevice("lo", up=True))
    place.netlink.apply(place.other, [SetDevice("far", up=True)])
    return place


def ours(state) -> set[str]:
    return {each.destination for each in state.routes if each.protocol == OURS}


def wanted(state) -> set:
    return {each for each in state.addresses if not each.by_kernel}


def learned(namespace: str, ip: str) -> str:
    """The MAC that the kernel has resolved, or learned from an announcement."""
    done = subprocess.run(["ip", "-json", "-n", namespace, "neigh"], check=True, capture_output=True, text=True)
    return next((each.get("lladdr", "") for each in json.loads(done.stdout) if each["dst"] == ip), "")


# --- namespaces ---


def test_namespaces_are_created_and_deleted(place):
    name = place.name("n")
    place.made.append(name)
    assert name not in place.netlink.namespaces()
    place.netlink.create_namespace(name)
    place.netlink.create_namespace(name)
    assert {name, place.router} <= place.netlink.namespaces()
    assert set(place.netlink.read(name).devices) == {"lo"}
    place.netlink.delete_namespace(name)
    place.netlink.delete_namespace(name)
    assert name not in place.netlink.namespaces()
    with pytest.raises(NetlinkError, match="does not exist"):
        place.netlink.read(name)
    with pytest.raises(NetlinkError, match="does not exist"):
        place.netlink.apply(name, [SetDevice("lo", up=True)])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_an_invalid_namespace_name_is_refused(place, name):
    with pytest.raises(NetlinkError):
        place.netlink.create_namespace(name)


def test_a_recreated_namespace_is_empty(place):
    place.apply(SetVeth("qr", "far", place.router))
    place.netlink.delete_namespace(place.router)
    place.netlink.create_namespace(place.router)
    assert set(place.read().devices) == {"lo"}


def test_namespaces_are_shared_with_ip_netns():
    netlink, name = RealNetlink(), f"n-{uuid.uuid4().hex[:8]}"
    try:
        subprocess.run(["ip", "netns", "add", name], check=True)
        assert name in netlink.namespaces()
        netlink.delete_namespace(name)
        netlink.create_namespace(name)
        listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
        assert name in listed.split()
        netlink.apply(name, [SetVeth("a", "b", name, mtu=1400)])
        shown = subprocess.run(["ip", "-n", name, "link", "show", "a"], check=True, capture_output=True, text=True)
        assert "mtu 1400" in shown.stdout
    finally:
        netlink.delete_namespace(name)


def test_a_name_without_a_namespace_is_completed(tmp_path):
    """As an agent leaves it that was killed while it made one."""
    netlink = RealNetlink(Namespaces(str(tmp_path)))
    (tmp_path / "half").touch()
    try:
        assert netlink.namespaces() == frozenset()
        with pytest.raises(NetlinkError):
            netlink.read("half")
        netlink.create_namespace("half")
        assert netlink.namespaces() == {"half"}
        assert set(netlink.read("half").devices) == {"lo"}
    finally:
        netlink.delete_namespace("half")
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)  # the directory is mounted on itself
    assert not (tmp_path / "half").exists()


def test_threads_create_and_read_namespaces_concurrently():
    netlink, tag = RealNetlink(), uuid.uuid4().hex[:8]
    names = [f"t{number}-{tag}" for number in range(24)]

    def work(name: str) -> set[str]:
        netlink.create_namespace(name)
        netlink.apply(name, [SetVeth("a", "b", name), SetDevice("a", up=True), SetItem(address("a", "10.0.0.1/24"))])
        return {each.address for each in netlink.read(name).addresses if not each.by_kernel}

    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, names)) == [{"10.0.0.1/24"}] * len(names)
        assert set(names) <= netlink.namespaces()
        assert os.readlink("/proc/self/ns/net") == os.readlink(f"/proc/self/task/{threading.get_native_id()}/ns/net")
    finally:
        for name in names:
            netlink.delete_namespace(name)


# --- devices ---


def test_a_pair_with_its_ends_in_two_namespaces(place):
    place.apply(SetVeth("qr", "far", place.other, mac=MAC, mtu=1450))
    near = place.read().devices["qr"]
    assert (near.kind, near.mac, near.mtu, near.up) == ("veth", MAC, 1450, False)
    assert (near.peer, near.peer_namespace) == ("far", place.other)
    assert place.netlink.read_device(place.router, "qr") == near
    assert place.netlink.read_device(place.router, "far") is None
    far = place.netlink.read(place.other).devices["far"]
    assert (far.mtu, far.peer, far.peer_namespace) == (1450, "qr", place.router)
    place.apply(SetDevice("qr", up=True))
    assert (place.read().devices["qr"].up, place.read().devices["qr"].carrier) == (True, False)
    place.netlink.apply(place.other, [SetDevice("far", up=True)])
    assert place.read().devices["qr"].carrier
    place.netlink.apply(place.other, [DeleteDevice("far"), DeleteDevice("far")])
    assert set(place.read().devices) == {"lo"}


def test_a_pair_with_an_end_on_the_host(place):
    tap = f"tp{place.tag}"
    place.apply(SetVeth("qr", tap))
    assert (place.read().devices["qr"].peer, place.read().devices["qr"].peer_namespace) == (tap, HOST)
    place.netlink.apply(HOST, [SetDevice(tap, up=True, alias="of a test")])
    found = place.netlink.read(HOST).devices[tap]
    assert (found.peer, found.peer_namespace, found.alias) == ("qr", place.router, "of a test")
    place.netlink.delete_namespace(place.router)
    eventually(lambda: tap not in place.netlink.read(HOST).devices)


def test_a_pair_with_its_other_end_in_an_unnamed_namespace(place):
    place.apply(SetVeth("qr", "far", place.other))
    place.netlink.delete_namespace(place.other)
    # Whether it is gone with its namespace, or still going, nothing is where it should be.
    near = place.read().devices.get("qr")
    assert near is None or near.peer_namespace is None


def test_a_pair_that_exists_with_other_ends_is_refused(place):
    place.apply(SetVeth("qr", "far", place.other))
    place.apply(SetVeth("qr", "far", place.other))
    with pytest.raises(NetlinkError, match="qr"):
        place.apply(SetVeth("qr", "far2", place.other))
    with pytest.raises(NetlinkError, match="qr"):
        place.apply(SetVeth("qr", "far", place.router))
    with pytest.raises(NetlinkError, match="qx"):
        place.apply(SetVeth("qx", "far", place.other))
    with pytest.raises(NetlinkError, match="does not exist"):
        place.apply(SetVeth("qy", "far", place.name("none")))
    assert set(place.read().devices) == {"lo", "qr"}


def test_a_device_is_set(link):
    link.apply(SetDevice("qr", mac="fa:16:3e:00:00:02", mtu=1300, alias="port 1", tx_checksum=False))
    found = link.read().devices["qr"]
    assert (found.mac, found.mtu, found.alias, found.up) == ("fa:16:3e:00:00:02", 1300, "port 1", True)
    assert not found.tx_checksum
    link.apply(SetDevice("qr", alias="", up=False, tx_checksum=True))
    found = link.read().devices["qr"]
    assert (found.mtu, found.alias, found.up, found.tx_checksum) == (1300, "", False, True)
    with pytest.raises(NetlinkError, match="qx"):
        link.apply(SetDevice("qx", up=True))


def test_a_single_device_is_read(place):
    place.apply(SetVeth("a", "b", place.router), SetDevice("a", tx_checksum=False, alias="x"))
    for name in ("lo", "a", "b"):
        assert place.netlink.read_device(place.router, name) == place.read().devices[name]
    with pytest.raises(NetlinkError, match="does not exist"):
        place.netlink.read_device(place.name("none"), "a")


def test_a_device_is_moved_to_another_namespace(link):
    link.apply(SetItem(address("qr", "10.0.0.1/24")))
    link.apply(MoveDevice("qr", link.other), MoveDevice("qr", link.other))
    assert set(link.read().devices) == {"lo"}
    there = link.netlink.read(link.other)
    assert set(there.devices) == {"lo", "far", "qr"}
    assert (there.devices["qr"].up, wanted(there)) == (False, set())
    with pytest.raises(NetlinkError):
        link.apply(MoveDevice("none", link.other))


def test_a_name_that_is_taken_or_too_long(link):
    link.apply(SetVeth("qs", "far2", link.other))
    with pytest.raises(NetlinkError):
        link.apply(SetVeth("a-name-of-more-than-fifteen", "far3", link.other))
    link.netlink.apply(link.other, [SetVeth("qs", "qt", link.other)])
    with pytest.raises(NetlinkError):
        link.apply(MoveDevice("qs", link.other))


# --- addresses ---


def test_addresses(link):
    every = [
        address("qr", "10.0.0.1/24"),
        address("qr", "203.0.113.5/32"),
        address("qr", "169.254.169.254/16", scope="link"),
        address("qr", "2001:DB8::1/64", nodad=True),
        address("qr", "fe80::a9fe:a9fe/64", nodad=True),
    ]
    link.apply(*map(SetItem, every))
    link.apply(*map(SetItem, every))
    assert wanted(link.read()) == set(every)
    link.apply(*map(DeleteItem, every[:2]), *map(DeleteItem, every[:2]))
    assert wanted(link.read()) == set(every[2:])
    with pytest.raises(NetlinkError, match=r"qx.*10\.0\.0\.1/24"):
        link.apply(SetItem(address("qx", "10.0.0.1/24")))
    link.apply(DeleteItem(address("qr", "192.0.2.1/24")))


def test_what_the_kernel_adds_is_marked(link):
    expected = {"127.0.0.1/8", "::1/128", "fe80::f816:3eff:fe00:1/64"}
    eventually(lambda: {each.address for each in link.read().addresses} == expected)  # a moment after both ends are up
    assert wanted(link.read()) == set()


def test_secondary_addresses_are_deleted_with_the_first_unless_promoted(link):
    pair = [address("qr", "10.0.0.1/24"), address("qr", "10.0.0.2/24")]
    link.apply(SetSysctl(PROMOTE, "0"), *map(SetItem, pair), DeleteItem(pair[0]))
    assert wanted(link.read()) == set()
    link.apply(SetSysctl(PROMOTE, "1"), *map(SetItem, pair), DeleteItem(pair[0]))
    assert wanted(link.read()) == {pair[1]}


# --- routes ---


def test_routes(link):
    every = {
        route("0.0.0.0/0", "qr", "10.0.0.254"),
        route("192.0.2.0/24", "qr"),
        route("198.51.100.0/24", "qr", "10.0.0.9", metric=50),
        route("198.51.100.0/24", "qr", "10.0.0.8", metric=60, source="10.0.0.1"),
        route("0.0.0.0/0", "qr", "203.0.113.1", table=70000, onlink=True),
        route("::/0", "qr", "2001:db8::fe"),
        route("2001:db8:1::/64", "qr", "fe80::1", table=16),
    }
    link.apply(SetItem(address("qr", "10.0.0.1/24")), SetItem(address("qr", "2001:db8::1/64", nodad=True)))
    link.apply(*map(SetItem, every))
    link.apply(*map(SetItem, every))
    state = link.read()
    assert {each for each in state.routes if each.protocol == OURS} == every
    by_kernel = {(each.destination, each.device) for each in state.routes if each.protocol == KERNEL}
    assert {("10.0.0.0/24", "qr"), ("2001:db8::/64", "qr")} <= by_kernel
    link.apply(*map(DeleteItem, every), *map(DeleteItem, every))
    assert ours(link.read()) == set()


def test_routes_over_several_next_hops(link):
    link.apply(SetItem(address("qr", "10.0.0.1/24")), SetItem(address("qr", "2001:db8::1/64", nodad=True)))
    both = (
        multipath_route("0.0.0.0/0", [NextHop("qr", "10.0.0.9"), NextHop("qr", "203.0.113.1", onlink=True)]),
        multipath_route("::/0", [NextHop("qr", "2001:db8::8"), NextHop("qr", "2001:db8::9")]),
    )
    link.apply(*map(SetItem, both), *map(SetItem, both))
    assert {each for each in link.read().routes if each.protocol == OURS} == set(both)
    more = (
        multipath_route("0.0.0.0/0", [NextHop("qr", f"10.0.0.{i}") for i in (7, 8, 9)]),
        multipath_route("::/0", [NextHop("qr", f"2001:db8::{i}") for i in (7, 8, 9)]),
    )
    link.apply(*map(SetItem, more))
    assert {each for each in link.read().routes if each.protocol == OURS} == set(more)
    single = {route("0.0.0.0/0", "qr", "10.0.0.9"), multipath_route("::/0", [NextHop("qr", "2001:db8::9")])}
    link.apply(*map(SetItem, single))
    assert {each for each in link.read().routes if each.protocol == OURS} == single
    link.apply(*map(SetItem, both))
    link.apply(*map(DeleteItem, both), *map(DeleteItem, both))
    assert ours(link.read()) == set()


def test_a_route_replaces_the_one_with_its_key(link):
    link.apply(SetItem(address("qr", "10.0.0.1/24")), SetItem(address("qr", "2001:db8::1/64", nodad=True)))
    for first, second in [("10.0.0.254", "10.0.0.253"), ("2001:db8::fe", "2001:db8::fd")]:
        everywhere = "::/0" if ":" in first else "0.0.0.0/0"
        link.apply(SetItem(route(everywhere, "qr", first)), SetItem(route(everywhere, "qr", second)))
        found = [each for each in link.read().routes if each.destination == everywhere]
        assert found == [route(everywhere, "qr", second)]
        link.apply(DeleteItem(route(everywhere, "qr", first)))
        assert everywhere in ours(link.read())


def test_a_route_with_an_unreachable_gateway_is_refused(link):
    link.apply(SetItem(address("qr", "10.0.0.1/24")))
    for refused in [
        route("192.0.2.0/24", "qr", "203.0.113.1"),
        route("192.0.2.0/24", "qx"),
        route("192.0.2.0/24", "", "203.0.113.1"),
        route("192.0.2.0/24", "qr", source="10.0.0.77"),
    ]:
        with pytest.raises(NetlinkError, match=r"192\.0\.2\.0/24"):
            link.apply(SetItem(refused))
    assert ours(link.read()) == set()


def test_of_several_changes_those_before_the_refused_one_are_in_force(link):
    with pytest.raises(NetlinkError):
        link.apply(
            SetItem(address("qr", "10.0.0.1/24")),
            SetItem(route("192.0.2.0/24", "qr", "203.0.113.1")),
            SetItem(address("qr", "10.0.0.2/24")),
        )
    assert wanted(link.read()) == {address("qr", "10.0.0.1/24")}


def test_a_gateway_is_found_without_naming_the_device(link):
    link.apply(SetItem(address("qr", "10.0.0.1/24")), SetItem(route("192.0.2.0/24", via="10.0.0.9")))
    assert route("192.0.2.0/24", "qr", "10.0.0.9") in link.read().routes


def test_a_device_that_goes_down_loses_its_routes(link):
    both = [address("qr", "10.0.0.1/24"), address("qr", "2001:db8::1/64", nodad=True)]
    routes = [route("192.0.2.0/24", "qr", "10.0.0.9"), route("2001:db8:1::/64", "qr", "2001:db8::9")]
    link.apply(*map(SetItem, both), *map(SetItem, routes), SetDevice("qr", up=False))
    state = link.read()
    assert (ours(state), wanted(state)) == (set(), {both[0]})  # IPv6 addresses go too
    with pytest.raises(NetlinkError):
        link.apply(SetItem(routes[0]))
    link.apply(SetDevice("qr", up=True))
    assert ("10.0.0.0/24", KERNEL) in {(each.destination, each.protocol) for each in link.read().routes}


def test_the_last_address_of_a_device_takes_its_routes_and_neighbours_along(link):
    both = {neighbour("qr", "10.0.0.9", MAC), neighbour("qr", "2001:db8::9", MAC)}
    link.apply(SetItem(address("qr", "10.0.0.1/24")), SetItem(route("192.0.2.0/24", "qr", "10.0.0.9")))
    link.apply(*map(SetItem, both), DeleteItem(address("qr", "10.0.0.1/24")))
    assert ours(link.read()) == set()
    assert link.read().neighbours == {neighbour("qr", "2001:db8::9", MAC)}


# --- rules, neighbours, settings ---


def test_rules(place):
    every = {
        rule(57481, source="10.0.0.5/32", table=16),
        rule(30000, destination="10.0.0.0/24", table=17),
        rule(2852018311, source="2001:db8::/64", table=2852018311),
        rule(40000, version=6, iif="qr", mark=0x4000000, mask=0xFFFF0000, table=18),
        rule(40001, mark=7, table=19),
        rule(20000, table=MAIN_TABLE, suppressed=0),
        rule(20000, version=6, table=MAIN_TABLE, suppressed=0),
    }
    place.apply(*map(SetItem, every))
    place.apply(*map(SetItem, every))
    found = place.read().rules
    assert {each for each in found if each.protocol == OURS} == every
    assert {(each.priority, each.version) for each in found if each.protocol == KERNEL} >= {(0, 4), (32766, 4), (0, 6)}
    place.apply(*map(DeleteItem, every), *map(DeleteItem, every))
    assert {each for each in place.read().rules if each.protocol != KERNEL} == set()


def test_neighbours(link):
    link.apply(SetItem(address("qr", "10.0.0.1/24")))
    both = {neighbour("qr", "10.0.0.9", "FA:16:3E:00:00:09"), neighbour("qr", "2001:db8::9", "fa:16:3e:00:00:09")}
    link.apply(*map(SetItem, both), *map(SetItem, both))
    assert link.read().neighbours == both
    moved = neighbour("qr", "10.0.0.9", "fa:16:3e:00:00:0a")
    link.apply(SetItem(moved))
    assert moved in link.read().neighbours
    link.apply(*map(DeleteItem, both), *map(DeleteItem, both))
    assert link.read().neighbours == frozenset()
    with pytest.raises(NetlinkError, match="qx"):
        link.apply(SetItem(neighbour("qx", "10.0.0.9", MAC)))


def test_proxy_neighbours(link):
    both = {proxy_neighbour("qr", "2001:DB8::9"), proxy_neighbour("qr", "2001:db8::a")}
    link.apply(*map(SetItem, both), *map(SetItem, both))
    assert link.read().proxies == both
    assert link.read().neighbours == frozenset()
    link.apply(*map(DeleteItem, both), *map(DeleteItem, both))
    assert link.read().proxies == frozenset()
    with pytest.raises(NetlinkError, match="qx"):
        link.apply(SetItem(proxy_neighbour("qx", "2001:db8::9")))


def test_sysctls_belong_to_a_namespace(place):
    forward, ra, none = "net/ipv4/ip_forward", "net/ipv6/conf/lo/accept_ra", "net/ipv4/conf/none/rp_filter"
    place.apply(SetSysctl(forward, "1"), SetSysctl(ra, "0"), SetSysctl(forward, "1"))
    assert place.read(forward, ra, none).sysctls == {forward: "1", ra: "0"}
    assert place.netlink.read(place.other, [forward]).sysctls == {forward: "0"}
    with pytest.raises(NetlinkError, match="none/rp_filter"):
        place.apply(SetSysctl(none, "0"))


@pytest.mark.parametrize("name", ["kernel/hostname", "net/../kernel/hostname", "/etc/passwd", "net/ipv4"])
def test_sysctls_outside_of_net_are_refused(place, name):
    with pytest.raises(ValueError, match="not a path"):
        place.apply(SetSysctl(name, "1"))
    with pytest.raises(ValueError, match="not a path"):
        place.read(name)


def test_changes_can_be_printed():
    texts = [
        SetVeth("ns-1", "tap-1", "", MAC, 1450).text(),
        SetDevice("ns-1", up=True, tx_checksum=False, alias="").text(),
        SetItem(address("ns-1", "fd00::1/64", nodad=True)).text(),
        SetItem(route("0.0.0.0/0", "ns-1", "10.0.0.1", onlink=True)).text(),
        SetItem(rule(100, source="10.0.0.5", table=16)).text(),
    ]
    assert texts == [
        f"set veth ns-1 peer=tap-1 mac={MAC} mtu=1450",
        "set device ns-1 up=True alias= tx_checksum=False",
        "set address ns-1 address=fd00::1/64 nodad=True",
        "set route 0.0.0.0/0 device=ns-1 via=10.0.0.1 onlink=True",
        "set rule 100 source=10.0.0.5/32 table=16",
    ]


def test_announcing_where_nobody_is(link):
    link.netlink.announce(link.router, "qr", ["10.0.0.1", "2001:db8::1"])
    with pytest.raises(NetlinkError, match="qx"):
        link.netlink.announce(link.router, "qx", ["10.0.0.1"])
    with pytest.raises(NetlinkError, match="does not exist"):
        link.netlink.announce(link.name("none"), "qr", ["10.0.0.1"])
    link.apply(SetDevice("qr", up=False))
    with pytest.raises(NetlinkError, match="qr"):
        link.netlink.announce(link.router, "qr", ["10.0.0.1"])


# --- on the kernel alone ---


@pytest.fixture
def real() -> Iterator[Place]:
    made = Place(RealNetlink())
    try:
        made.netlink.create_namespace(made.router)
        made.netlink.create_namespace(made.other)
        made.apply(SetVeth("qr", "far", made.other, mac=MAC), SetDevice("qr", up=True))
        made.netlink.apply(made.other, [SetDevice("far", up=True)])
        yield made
    finally:
        made.close()


def test_packets_flow_and_neighbours_are_learned(real):
    real.apply(SetItem(address("qr", "10.0.0.1/24")), SetDevice("qr", tx_checksum=False))
    real.netlink.apply(real.other, [SetItem(address("far", "10.0.0.2/24"))])
    namespaces = Namespaces()
    with (
        namespaces.run(real.router, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiver,
        namespaces.run(real.other, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender,
    ):
        receiver.bind(("10.0.0.1", 4000))
        receiver.settimeout(30)
        sender.sendto(b"hello", ("10.0.0.1", 4000))
        assert receiver.recv(10) == b"hello"
    assert learned(real.other, "10.0.0.1") == MAC
    assert real.netlink.read(real.other).neighbours == frozenset()


@pytest.mark.parametrize("seed", range(3))
def test_a_router_is_planned_once_from_any_state_to_any_other(seed):
    netlink, choose, tag = RealNetlink(), random.Random(seed), uuid.uuid4().hex[:8]
    name, far = f"qr-{tag}", f"far-{tag}"
    try:
        netlink.create_namespace(name)
        netlink.create_namespace(far)
        for _ in range(6):
            desired = random_router(choose)
            ends = tuple(dataclasses.replace(each, peer_namespace=far) for each in desired.devices)
            desired = dataclasses.replace(desired, name=name, devices=ends)
            settle(netlink, desired)
            state = netlink.read(name)
            assert {each for each in state.addresses if not each.by_kernel} == desired.addresses
            assert {each for each in state.routes if each.protocol != KERNEL} == desired.routes
            netlink.apply(far, [SetDevice(each, up=True) for each in netlink.read(far).devices])
            settle(netlink, desired)
    finally:
        netlink.delete_namespace(name)
        netlink.delete_namespace(far)


def test_an_announcement_makes_others_send_to_the_new_mac(real):
    """After an announcement, others resolve an address to our MAC, for IPv4 and IPv6."""
    far = "far"
    real.netlink.apply(
        real.other, [SetItem(address(far, "10.0.0.2/24")), SetItem(address(far, "2001:db8::2/64", nodad=True))]
    )
    for ip in ("10.0.0.1", "2001:db8::1"):
        subprocess.run(
            ["ip", "-n", real.other, "neigh", "replace", ip, "lladdr", "02:00:00:00:00:99", "dev", far, "nud", "stale"],
            check=True,
        )
        real.netlink.announce(real.router, "qr", [ip], router=True)
        eventually(lambda ip=ip: learned(real.other, ip) == MAC)


def test_frames_of_an_announcement(real):
    namespaces = Namespaces()
    every = 0x0003

    def listener() -> socket.socket:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(every))

    with namespaces.run(real.other, listener) as received:
        received.bind(("far", every))
        received.settimeout(0.5)
        real.netlink.announce(real.router, "qr", ["10.0.0.1"])
        operations: list[int] = []
        deadline = time.monotonic() + 10
        while len(operations) < 2:
            try:
                frame = received.recv(2000)
            except TimeoutError:  # the kernel drops frames until it has activated the new link
                assert time.monotonic() < deadline
                operations.clear()
                real.netlink.announce(real.router, "qr", ["10.0.0.1"])
                continue
            if struct.unpack_from("!H", frame, 12)[0] == 0x0806:
                operations.append(struct.unpack_from("!H", frame, 20)[0])
                assert frame[:6] == b"\xff" * 6
                assert frame[6:12].hex(":") == MAC
                assert frame[28:32] == frame[38:42] == socket.inet_aton("10.0.0.1")
        assert operations == [1, 2]


def test_routes_of_other_programs_are_read_with_their_protocol(real):
    real.apply(SetItem(address("qr", "10.0.0.1/24")))
    subprocess.run(
        ["ip", "-n", real.router, "route", "add", "192.0.2.0/24", "via", "10.0.0.9", "proto", "18"], check=True
    )
    hops = ["nexthop", "via", "10.0.0.8", "nexthop", "via", "10.0.0.9"]
    subprocess.run(["ip", "-n", real.router, "route", "add", "198.51.100.0/24", *hops], check=True)
    found = {each.destination: each for each in real.read().routes}
    assert (found["192.0.2.0/24"].protocol, found["192.0.2.0/24"].via) == (18, "10.0.0.9")
    assert (found["198.51.100.0/24"].via, found["198.51.100.0/24"].device) == ("", "")
    real.apply(SetItem(route("198.51.100.0/24", "qr", "10.0.0.9")))
    assert route("198.51.100.0/24", "qr", "10.0.0.9") in real.read().routes


def test_a_large_namespace_is_read_whole(real):
    addresses = {address("qr", f"10.1.{number // 250}.{number % 250 + 1}/32") for number in range(1000)}
    real.apply(*map(SetItem, addresses), SetItem(route("10.2.0.0/24", "qr")))
    assert wanted(real.read()) == addresses


def test_a_hundred_namespaces_are_read_and_nothing_stays_open():
    netlink, tag = RealNetlink(), uuid.uuid4().hex[:8]
    names = [f"h{number}-{tag}" for number in range(100)]
    try:
        for name in names:
            netlink.create_namespace(name)
            netlink.apply(
                name, [SetVeth("a", "b", name), SetDevice("a", up=True), SetItem(address("a", "10.0.0.1/24"))]
            )
        before = len(os.listdir("/proc/self/fd"))
        for name in names:
            assert set(netlink.read(name, [PROMOTE]).devices) == {"lo", "a", "b"}
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        for name in names:
            netlink.delete_namespace(name)
