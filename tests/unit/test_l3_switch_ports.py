"""Switch ports of routers: one that is not wanted any more is removed, whatever interrupted its removal."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.leftovers.host import ignored
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.netlink.api import DeleteDevice, NetlinkError, SetVeth
from neutrino.dataplane.netlink.api import NetlinkChange as NetlinkChange
from neutrino.dataplane.ovsdb.api import MARK, Change, DeletePort, OvsdbError, SetPort
from neutrino.dataplane.ovsdb.api import NAMESPACE as OF_NAMESPACE
from neutrino.model.routing import FloatingIp, Router, RouterInterface
from tests.support.l3_host import NAMESPACE, Host, run
from tests.support.routing import address, interface, router

STALE, STALE_INSIDE = "tap00000002-aa", "qr-00000002-aa"
BEFORE, AFTER = router(), router(interface(1))  # without the second interface, whose port is `STALE`
WAIT = 10.0  # seconds, for another thread


class LeftoverHost(Host):
    """With removal of leftovers, as on a real host."""

    def restart(self) -> None:
        super().restart()
        routers = self.role.routers
        routers.leftovers = dataclasses.replace(ignored(routers.services), owner=str(self.state_path), enabled=True)
        routers.__post_init__()


def plugged(host: Host) -> set[str]:
    return set(host.ovsdb.read().bridges["br-int"].ports) - {"br-int"}


def fail_switch(host: Host, *, times: int) -> None:
    """The database rejects the removal of ports."""
    whole, left = host.ovsdb.apply, [None] * times

    def apply(changes: Iterable[Change], *, wait: float = 0.0) -> None:
        given = tuple(changes)
        if left and any(isinstance(each, DeletePort) for each in given):
            left.pop()
            raise OvsdbError("timed out")
        whole(given, wait=wait)

    host.ovsdb.apply = apply  # type: ignore[method-assign]


def fail_kernel(host: Host, *, times: int) -> None:
    """A change fails after a device has been deleted."""
    whole, left = host.netlink.apply, [None] * times

    def apply(namespace: str, changes: Iterable[NetlinkChange]) -> None:
        given = tuple(changes)
        whole(namespace, given)
        if left and any(isinstance(each, DeleteDevice) for each in given):
            left.pop()
            raise NetlinkError("Network is unreachable")

    host.netlink.apply = apply  # type: ignore[method-assign]


async def apply(host: Host, wanted: Router) -> None:
    host.send(wanted)
    await host.until(lambda: host.role._applied.get("r1") is wanted, "it is not applied")
    await host.role.finish()


@pytest.mark.parametrize("fail", [fail_switch, fail_kernel])
def test_a_removal_that_failed_after_the_device_was_deleted_is_completed(
    tmp_path: Path, fail: Callable[..., None]
) -> None:
    host = Host(tmp_path)

    async def test() -> None:
        await apply(host, BEFORE)
        assert STALE in plugged(host)
        fail(host, times=1)
        await apply(host, AFTER)
        assert host.feed.errors, "the first attempt has failed"
        assert STALE not in plugged(host)
        assert await host.verified()

    run(host, test)


@pytest.mark.parametrize("wanted", [AFTER, None])
def test_a_removal_that_a_killed_agent_has_begun_is_completed_by_the_next(
    tmp_path: Path, wanted: Router | None
) -> None:
    host = Host(tmp_path)
    switch = host.ovsdb.apply

    async def killed() -> None:
        await apply(host, BEFORE)
        fail_switch(host, times=1000)
        host.send(AFTER)
        await host.until(lambda: bool(host.feed.errors), "it does not get that far")

    async def next_one() -> None:
        await host.until(lambda: STALE not in plugged(host), "the port stays")
        await host.until(lambda: host.is_there == (wanted is not None), "the router is not as desired")
        await host.role.finish()
        assert await host.verified()

    run(host, killed)
    assert STALE_INSIDE not in host.netlink.read(NAMESPACE).devices
    assert STALE in plugged(host)
    host.ovsdb.apply = switch  # type: ignore[method-assign]
    host.restart()
    host.feed.state.objects["router"].clear()
    if wanted is not None:
        host.feed.state.objects["router"]["r1"] = wanted
    run(host, next_one)


def test_ports_of_a_router_whose_namespace_is_gone_are_removed_with_it(tmp_path: Path) -> None:
    """After a reboot the router is known by its record, and its ports by the database."""
    host = Host(tmp_path)

    async def before() -> None:
        await apply(host, BEFORE)

    async def after() -> None:
        await host.until(lambda: not plugged(host), "ports stay")

    run(host, before)
    assert plugged(host)
    host.netlink.delete_namespace(NAMESPACE)
    host.restart()
    host.feed.state.objects["router"].clear()
    run(host, after)


def test_a_port_that_a_stale_cache_plugs_while_leftovers_are_removed_does_not_stay(tmp_path: Path) -> None:
    """An agent was killed between deleting a device and its port, and the next one's cache still has the device.

    In order: leftovers are listed, the port among them; the device is created from the cache, and its port is being
    replaced; the leftover's device is deleted; the port is added, without a device.
    """
    host = LeftoverHost(tmp_path)

    async def before() -> None:
        await apply(host, BEFORE)

    run(host, before)
    host.netlink.apply(NAMESPACE, [DeleteDevice(STALE_INSIDE)])
    host.restart()
    listed, plugging, unplugged = threading.Event(), threading.Event(), threading.Event()

    class HeldServices(ServiceNamespaces):
        def unplug(self, names: Sequence[str]) -> None:
            listed.set()
            assert plugging.wait(WAIT)
            super().unplug(names)
            unplugged.set()

    host.role.routers.services = HeldServices(host.netlink, lambda: host.ovsdb, host.nft)
    change_kernel, change_switch = host.netlink.apply, host.ovsdb.apply

    def apply_in_kernel(namespace: str, changes: Iterable[NetlinkChange]) -> None:
        given = tuple(changes)
        if any(isinstance(each, SetVeth) and each.name == STALE_INSIDE for each in given):
            assert listed.wait(WAIT)
        change_kernel(namespace, given)

    def apply_in_switch(changes: Iterable[Change], *, wait: float = 0.0) -> None:
        given = tuple(changes)
        change_switch(given, wait=wait)
        if wait and DeletePort("br-int", STALE) in given:  # the worker waits for the switch
            plugging.set()
            assert unplugged.wait(WAIT)

    host.netlink.apply, host.ovsdb.apply = apply_in_kernel, apply_in_switch  # type: ignore[method-assign]
    host.feed.is_synced = False
    host.feed.state.objects["router"]["r1"] = BEFORE

    async def test() -> None:
        await host.until(lambda: "r1" in host.role._loop.queue._working, "the cache is not applied")
        host.send(AFTER)
        host.feed.is_synced = True
        host.role.synced()
        await host.until(unplugged.is_set, "leftovers are not removed")
        await host.until(lambda: host.role._applied.get("r1") is AFTER, "the router is not applied")
        await host.role.finish()
        assert STALE not in plugged(host)
        assert await host.verified()

    run(host, test, synced=False)


def test_a_port_of_an_earlier_release_gets_the_name_of_its_namespace(tmp_path: Path) -> None:
    host = Host(tmp_path)

    def names() -> set[str | None]:
        return {host.ovsdb.read().interfaces()[name][2].external_ids.get(OF_NAMESPACE) for name in plugged(host)}

    async def test() -> None:
        await apply(host, BEFORE)
        rows = {name: host.ovsdb.read().interfaces()[name][2] for name in plugged(host)}
        for name, row in rows.items():
            ids = {key: value for key, value in row.external_ids.items() if key != OF_NAMESPACE}
            host.ovsdb.apply([DeletePort("br-int", name), SetPort("br-int", name, external_ids=ids)])
        assert names() == {None}
        await apply(host, router(enable_snat=False))
        assert names() == {NAMESPACE}
        assert await host.verified()

    run(host, test)


def agent_gateway(number: int) -> RouterInterface:
    return RouterInterface(
        id=f"dddddd{number:02}-aaaa-bbbb-cccc-dddddddddddd",
        network_id="outside",
        mac_address="fa:16:3e:00:06:01",
        addresses=(address(f"203.0.113.{70 + number}", "203.0.113.0/24", "203.0.113.1"),),
    )


def test_a_replaced_port_of_the_namespace_of_floating_ips_does_not_stay(tmp_path: Path) -> None:
    host = Host(tmp_path)
    here = FloatingIp(id="fip-9", floating_ip_address="203.0.113.9", fixed_ip_address="10.0.1.9", host="h1")
    first = router(interface(1), distributed=True, floating_ips=(here,), agent_gateway=agent_gateway(1))

    async def test() -> None:
        await apply(host, first)
        assert "tapdddddd01-aa" in plugged(host)
        fail_switch(host, times=1)
        await apply(host, msgspec.structs.replace(first, agent_gateway=agent_gateway(2)))
        assert host.feed.errors, "the first attempt has failed"
        assert {"tapdddddd01-aa", "tapdddddd02-aa"} & plugged(host) == {"tapdddddd02-aa"}
        assert await host.verified()

    run(host, test)


def test_the_resync_removes_what_no_router_has(tmp_path: Path) -> None:
    """A port of an earlier release, without the name of its namespace; and a router that only a record names."""
    host = LeftoverHost(tmp_path, repair=0.05)
    gone = "7e1ab6d2-0000-4000-8000-000000000001"

    async def test() -> None:
        await apply(host, AFTER)
        await host.until(lambda: not host.role._loop.queue, "the first pass is not over")
        wanted = plugged(host)
        ids = {"iface-id": "00000002-aaaa-bbbb-cccc-dddddddddddd", MARK: "service"}
        host.ovsdb.apply([SetPort("br-int", STALE, external_ids=ids)])
        host.netlink.create_namespace(f"qrouter-{gone}")
        (tmp_path / "routers" / gone).write_text("centralized")
        assert not await host.verified()
        await host.until(lambda: plugged(host) == wanted, "the port stays")
        await host.until(lambda: host.netlink.namespaces() == {NAMESPACE}, "the namespace stays")
        await host.until(lambda: not (tmp_path / "routers" / gone).exists(), "the record stays")
        await host.role.finish()
        assert await host.verified()

    run(host, test)
