"""The plan of a namespace, applied to a namespace in memory."""

from __future__ import annotations

import dataclasses
import random

import pytest

from neutrino.agent.runtime.namespaces import (
    IPV6_OFF,
    PROMOTE,
    DesiredDevice,
    plan_namespace,
    sysctls_to_read,
)
from neutrino.dataplane.netlink.api import (
    DeleteDevice,
    DeleteItem,
    Netlink,
    SetDevice,
    SetItem,
    SetSysctl,
    SetVeth,
)
from neutrino.dataplane.netlink.values import HOST, NamespaceState, Route, address, neighbour, route, rule
from tests.fakes.netlink import FakeNetlink
from tests.support.namespaces import ROUTER, RP_FILTER, random_router, settle

NAME = ROUTER.name
KEEPALIVED, BOOT = 18, 3


@pytest.fixture
def netlink() -> FakeNetlink:
    made = FakeNetlink()
    made.create_namespace(NAME)
    made.create_namespace("elsewhere")
    return made


@pytest.fixture
def router(netlink: FakeNetlink) -> FakeNetlink:
    settle(netlink, ROUTER)
    return netlink


def read(netlink: Netlink) -> NamespaceState:
    return netlink.read(NAME, [*sysctls_to_read(ROUTER)])


def test_a_router_from_nothing(netlink):
    plan = settle(netlink, ROUTER)
    state = read(netlink)
    assert {each for each in state.addresses if not each.by_kernel} == ROUTER.addresses
    assert state.routes >= ROUTER.routes
    assert state.rules >= ROUTER.rules
    assert state.neighbours == ROUTER.neighbours
    assert state.sysctls == {**ROUTER.sysctls, PROMOTE: "1", IPV6_OFF: "0"}
    assert (plan.missing, plan.stale) == ((), ())
    device = state.devices["qr-1"]
    assert (device.mtu, device.alias, device.up, device.tx_checksum) == (1450, "port 1", True, False)
    assert set(netlink.read(HOST).devices) == {"lo", "tap-1", "tap-2"}


def test_the_settings_of_a_device_come_before_it_is_up(netlink):
    changes = settle(netlink, ROUTER).changes
    order = [SetVeth, SetSysctl, SetDevice]
    of_device = [each for each in changes if each == SetSysctl(RP_FILTER, "1") or getattr(each, "name", "") == "qr-1"]
    assert [type(each) for each in of_device] == [order[0], order[2], order[1], order[2]]
    assert of_device[-1] == SetDevice("qr-1", up=True)


def test_a_plan_can_be_printed(netlink):
    text = plan_namespace(ROUTER, read(netlink)).text()
    assert "qrouter-1 set veth qr-1 peer=tap-1 mac=fa:16:3e:00:00:01 mtu=1450" in text.splitlines()
    assert plan_namespace(ROUTER, read(netlink))
    assert not plan_namespace(ROUTER, _settled(netlink))


def _settled(netlink: FakeNetlink) -> NamespaceState:
    settle(netlink, ROUTER)
    return read(netlink)


def test_drift_is_repaired_and_nothing_else_touched(router):
    router.apply(
        NAME,
        [
            SetDevice("qr-1", mtu=1300),
            DeleteItem(address("qg-1", "203.0.113.10/32")),
            SetItem(address("qr-1", "10.9.9.9/24")),
            SetItem(route("198.51.100.0/24", "qr-1", "10.0.0.3", protocol=BOOT)),
            SetItem(route("192.0.2.0/24", "qr-1", "10.0.0.78")),
            SetItem(rule(5, table=99, protocol=0)),
            DeleteItem(rule(100, source="10.0.0.5/32", table=16)),
            SetItem(neighbour("qr-1", "10.0.0.6", "fa:16:3e:00:00:06")),
            SetItem(neighbour("qr-1", "10.0.0.5", "fa:16:3e:00:00:99")),
            SetSysctl("net/ipv4/ip_forward", "0"),
        ],
    )
    assert settle(router, ROUTER).changes == (
        SetSysctl("net/ipv4/ip_forward", "1"),
        SetDevice("qr-1", mtu=1450),
        SetItem(address("qg-1", "203.0.113.10/32")),
        SetItem(route("192.0.2.0/24", "qr-1", "10.0.0.77")),
        SetItem(rule(100, source="10.0.0.5/32", table=16)),
        SetItem(neighbour("qr-1", "10.0.0.5", "fa:16:3e:00:00:05")),
        DeleteItem(rule(5, table=99)),
        DeleteItem(route("198.51.100.0/24", "qr-1", "10.0.0.3")),
        DeleteItem(neighbour("qr-1", "10.0.0.6", "fa:16:3e:00:00:06")),
        DeleteItem(address("qr-1", "10.9.9.9/24")),
    )


def test_state_of_daemons_and_of_the_kernel_stays(router):
    others = [
        SetItem(route("198.51.100.0/24", "qr-1", "10.0.0.3", protocol=KEEPALIVED)),
        SetItem(rule(5, table=99, protocol=KEEPALIVED)),
    ]
    router.apply(NAME, others)
    assert settle(router, ROUTER).changes == ()
    state = read(router)
    assert "198.51.100.0/24" in {each.destination for each in state.routes}
    assert (5, KEEPALIVED) in {(each.priority, each.protocol) for each in state.rules}
    assert {each.device for each in state.addresses if each.by_kernel} == {"lo"}  # no end is up on the host: no carrier


def test_addresses_that_keepalived_has_set_stay_on_its_devices(router):
    virtual = SetItem(address("qg-1", "203.0.113.99/32"))
    ha = dataclasses.replace(ROUTER, others_addresses=frozenset({"qg-1"}))
    router.apply(NAME, [virtual, DeleteItem(address("qg-1", "203.0.113.10/32"))])
    assert settle(router, ha).changes == (SetItem(address("qg-1", "203.0.113.10/32")),)
    assert settle(router, ROUTER).changes == (DeleteItem(virtual.item),)


def test_a_desired_link_local_address_that_the_kernel_has_set(router):
    router.apply(HOST, [SetDevice("tap-1", up=True)])
    by_kernel = next(each for each in read(router).addresses if each.by_kernel and each.device == "qr-1")
    wanted = address("qr-1", by_kernel.address, nodad=True)
    desired = dataclasses.replace(ROUTER, addresses=ROUTER.addresses | {wanted})
    assert settle(router, desired).changes == ()
    assert settle(router, ROUTER).changes == ()


def test_an_address_takes_over_from_another_in_its_subnet(router):
    new = address("qr-1", "10.0.0.2/24")
    changed = ROUTER.addresses - {address("qr-1", "10.0.0.1/24")} | {new}
    plan = settle(router, dataclasses.replace(ROUTER, addresses=changed))
    assert plan.changes == (SetItem(new), DeleteItem(address("qr-1", "10.0.0.1/24")))


def test_a_changed_scope_re_creates_the_address_with_its_routes(router):
    new = address("qr-1", "10.0.0.1/24", scope="link")
    changed = ROUTER.addresses - {address("qr-1", "10.0.0.1/24")} | {new}
    plan = settle(router, dataclasses.replace(ROUTER, addresses=changed))
    assert plan.changes == (
        DeleteItem(address("qr-1", "10.0.0.1/24")),
        SetItem(new),
        SetItem(route("192.0.2.0/24", "qr-1", "10.0.0.77")),
        SetItem(neighbour("qr-1", "10.0.0.5", "fa:16:3e:00:00:05")),
    )


def test_routes_of_a_device_that_keeps_no_address(router):
    onlink = route("192.0.2.0/24", "qr-1")
    desired = dataclasses.replace(
        ROUTER,
        addresses=frozenset(each for each in ROUTER.addresses if each.device != "qr-1"),
        routes=frozenset(each for each in ROUTER.routes if each.device != "qr-1") | {onlink},
    )
    settle(router, desired)
    assert onlink in read(router).routes


def test_stale_devices_go_with_what_is_on_them(router):
    without = dataclasses.replace(
        ROUTER,
        devices=ROUTER.devices[:2],
        addresses=frozenset(each for each in ROUTER.addresses if each.device == "qr-1"),
        routes=frozenset({route("192.0.2.0/24", "qr-1", "10.0.0.77")}),
        rules=frozenset(),
    )
    router.apply(NAME, [SetVeth("other", "tap-9"), SetVeth("qr-9", "tap-10")])
    plan = settle(router, without)
    assert plan.changes[:2] == (DeleteDevice("qg-1"), DeleteDevice("qr-9"))
    assert set(read(router).devices) == {"lo", "qr-1", "other"}
    assert set(router.read(HOST).devices) == {"lo", "tap-1", "tap-9"}


def test_a_veth_pair_with_another_peer_is_re_created(router):
    router.apply(HOST, [DeleteDevice("tap-1")])
    router.apply(NAME, [SetVeth("qr-1", "tap-1", "elsewhere"), SetItem(address("qr-1", "10.0.0.1/24"))])
    plan = settle(router, ROUTER)
    assert plan.changes[:1] == (DeleteDevice("qr-1"),)
    assert read(router).devices["qr-1"].peer_namespace == HOST
    assert read(router).routes >= ROUTER.routes


PLUGGED = dataclasses.replace(
    ROUTER, devices=(DesiredDevice("lo"), DesiredDevice("qr-1"), DesiredDevice("qg-1", "tap-2"))
)


def test_a_device_that_another_part_plugs_is_waited_for(netlink):
    plan = settle(netlink, PLUGGED)
    assert plan.missing == ("qr-1",)
    assert "qrouter-1 device qr-1 has to be plugged" in plan.text().splitlines()
    assert "192.0.2.0/24" not in {each.destination for each in read(netlink).routes}
    netlink.add_device(NAME, "qr-1")
    plan = settle(netlink, PLUGGED)
    assert plan.missing == ()
    assert read(netlink).routes >= ROUTER.routes
    assert {each for each in read(netlink).addresses if not each.by_kernel} == ROUTER.addresses


def test_a_device_that_another_part_plugged_is_for_it_to_unplug(netlink):
    netlink.add_device(NAME, "qr-1")
    plan = settle(netlink, ROUTER)
    assert (plan.missing, plan.stale) == (("qr-1",), ("qr-1",))
    assert "qr-1" in read(netlink).devices


def test_a_route_without_a_device_waits_for_the_one_it_needs(netlink):
    anywhere = {each for each in PLUGGED.routes if each.device != "qr-1"} | {route("192.0.2.0/24", via="10.0.0.77")}
    desired = dataclasses.replace(PLUGGED, routes=frozenset(anywhere))
    settle(netlink, desired)
    assert "192.0.2.0/24" not in {each.destination for each in read(netlink).routes}
    netlink.add_device(NAME, "qr-1")
    settle(netlink, desired)
    assert route("192.0.2.0/24", "qr-1", "10.0.0.77") in read(netlink).routes


def test_of_several_routes_of_one_key_the_wanted_one_stays(router):
    wanted, other = route("192.0.2.0/24", "qr-1", "10.0.0.77"), route("192.0.2.0/24", "qr-1", "10.0.0.78")
    third = route("192.0.2.0/24", "qg-1", "203.0.113.7")
    state = read(router)

    def plan(*routes: Route) -> tuple[object, ...]:
        rest = frozenset(each for each in state.routes if each != wanted)
        return plan_namespace(ROUTER, dataclasses.replace(state, routes=rest | set(routes))).changes

    assert plan(wanted, other) == (DeleteItem(other),)
    assert plan(other) == (SetItem(wanted),)
    assert plan(third, other) == (SetItem(wanted), DeleteItem(other))


def test_a_host_without_ipv6(netlink):
    state = netlink.read(NAME, [name for name in sysctls_to_read(ROUTER) if "ipv6" not in name])
    desired = dataclasses.replace(
        ROUTER,
        routes=ROUTER.routes | {route("::/0", "qg-1", "fe80::1")},
        rules=ROUTER.rules | {rule(7, version=6, table=7)},
        neighbours=ROUTER.neighbours | {neighbour("qr-1", "2001:db8::5", "fa:16:3e:00:00:05")},
        sysctls={**ROUTER.sysctls, "net/ipv6/conf/qr-1/accept_ra": "0"},
    )
    text = plan_namespace(desired, state).text()
    assert "10.0.0.1/24" in text
    assert "2001:db8" not in text
    assert "ipv6" not in text
    assert "::/0" not in text
    assert "IPv6" not in text
    switched_off = dataclasses.replace(state, sysctls={**state.sysctls, IPV6_OFF: "1"})
    assert plan_namespace(desired, switched_off).text() == text


@pytest.mark.parametrize("seed", range(20))
def test_from_any_state_to_any_other(netlink, seed):
    """The result depends on the desired state, not on the actual one; a second plan is empty."""
    choose = random.Random(seed)
    for _ in range(8):
        desired = random_router(choose)
        settle(netlink, desired)
        state = read(netlink)
        assert {each for each in state.addresses if not each.by_kernel} == desired.addresses
        assert {each for each in state.routes if each.protocol != 2} == desired.routes
        assert {name for name in state.devices if name != "lo"} == {each.name for each in desired.devices[1:]}
