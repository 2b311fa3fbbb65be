"""The L3 role on fakes: the newest state wins, failures are reported, drift is repaired, extensions are notified."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from neutrino.agent import config as agent_config
from neutrino.agent.l3.config import L3Options, l3_options
from neutrino.agent.l3.extensions.nat import PATH, Nat
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.keepalived.service import READY, Keepalived
from neutrino.agent.l3.services.radvd.service import Radvd
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.supervisor import Supervisor, wait_reloadable
from neutrino.dataplane.conntrack.api import TCP, ConntrackFlush
from neutrino.dataplane.netlink.api import DeleteItem
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.netlink.values import address as on_device
from neutrino.dataplane.nft.api import NftError, TablePlan, TableState
from neutrino.dataplane.ovsdb.api import DeletePort
from neutrino.dataplane.process.api import Process
from neutrino.model.routing import PortForwarding, RouterRoute
from tests.support.l3_host import NAMESPACE, Host, run
from tests.support.routing import address, failover, floating, interface, membership, rendered, router, table

DONE = {"l3-initialized": "True"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_thousand_updates_end_in_the_last_and_a_delete_leaves_nothing(host: Host, tmp_path: Path) -> None:
    async def test() -> None:
        for number in range(1000):
            host.send(router(routes=(RouterRoute(f"10.{number // 256 + 100}.{number % 256}.0/24", "10.0.1.9"),)))
            if number % 50 == 0:
                await asyncio.sleep(0)
        await host.until(lambda: "10.103.231.0/24" in host.routes(), "the last state is not in force")
        await host.until(lambda: len([each for each in host.routes() if each.startswith("10.10")]) == 1, "others are")
        await host.role.finish()
        assert await host.verified()
        await host.until(
            lambda: host.ovsdb.read().bridges["br-int"].external_ids == DONE, "it is not reported on the bridge"
        )
        host.send(None)
        await host.until(lambda: not host.is_there, "it is still there")
        await host.until(lambda: list((tmp_path / "routers").iterdir()) == [], "its record is still there")
        assert set(host.ovsdb.read().bridges["br-int"].ports) <= {"br-int"}

    run(host, test)


def test_a_stale_cache_removes_nothing_before_the_first_synced(host: Host) -> None:
    old, new = router(), router(floating_ips=(floating(9, "10.0.1.5"),))

    def translates() -> bool:
        state = host.netlink.read(NAMESPACE)
        elements = host.nft.read(NAMESPACE).get("ip neutrino")
        assert elements is not None
        known = any("203.0.113.9" in each for several in elements.elements.values() for each in several)
        return known and any(each.address == "203.0.113.9/32" for each in state.addresses)

    async def first() -> None:
        host.send(new)
        await host.until(lambda: host.is_there and translates(), "the floating IP is there")

    async def with_an_old_cache() -> None:
        await host.until(lambda: "r1" in host.role._applied, "looked at")
        assert translates()
        host.role.synced()  # the server agrees with the cache
        await host.until(lambda: not translates(), "a floating IP that the server has deleted is still translated")

    run(host, first)
    host.restart()
    host.feed.state.objects["router"]["r1"] = old
    run(host, with_an_old_cache, synced=False)


def test_floating_ips_are_reported_active_and_one_that_cannot_be_applied_error(host: Host) -> None:
    async def test() -> None:
        first, second = floating(9, "10.0.1.9"), floating(10, "10.0.1.10")
        host.send(router(floating_ips=(first,)))
        await host.until(lambda: ("floatingip", "fip-9", "ACTIVE") in host.feed.statuses, "not reported")
        broken, host.nft.apply = host.nft.apply, _fails  # type: ignore[method-assign, assignment]
        host.send(router(floating_ips=(first, second)))
        await host.until(lambda: ("floatingip", "fip-10", "ERROR") in host.feed.statuses, "a failure is not reported")
        assert ("floatingip", "fip-9", "ERROR") not in host.feed.statuses
        assert "no more" in host.problems["r1"]
        host.nft.apply = broken  # type: ignore[method-assign]
        await host.until(lambda: host.feed.statuses[-1] == ("floatingip", "fip-10", "ACTIVE"), "it is not tried again")
        await host.until(lambda: not host.problems, "the problem stays")
        # Disassociated and associated again between two rounds: the server waits for another report.
        host.send(router(floating_ips=(first, msgspec.structs.replace(second, revision=7))))
        await host.until(
            lambda: host.feed.statuses.count(("floatingip", "fip-10", "ACTIVE")) == 2, "not reported again"
        )

    run(host, test)


def forwarding(number: int, floating_ip: str = "fip-9") -> PortForwarding:
    return PortForwarding(
        id=f"forwarding-{number}",
        floatingip_id=floating_ip,
        protocol="tcp",
        external_ip_address="203.0.113.9",
        external_port_first=number,
        external_port_last=number,
        internal_ip_address="10.0.1.9",
        internal_port_first=80,
        internal_port_last=80,
    )


def test_floating_ips_with_forwarded_ports_are_reported_active(host: Host) -> None:
    active = ("floatingip", "fip-9", "ACTIVE")

    async def test() -> None:
        host.send(router(port_forwardings=(forwarding(1), forwarding(2), forwarding(3, ""))))
        await host.until(lambda: active in host.feed.statuses, "not reported")
        await host.role.finish()
        assert host.feed.statuses == [active], "one of an older server, which does not name it, is left out"
        broken, host.nft.apply = host.nft.apply, _fails  # type: ignore[method-assign, assignment]
        host.send(router(port_forwardings=(forwarding(1), forwarding(4), forwarding(5, "fip-10"))))
        await host.until(lambda: ("floatingip", "fip-10", "ERROR") in host.feed.statuses, "a failure is not reported")
        assert ("floatingip", "fip-9", "ERROR") not in host.feed.statuses, "its other forwardings work"
        host.nft.apply = broken  # type: ignore[method-assign]
        await host.until(lambda: ("floatingip", "fip-10", "ACTIVE") in host.feed.statuses, "it is not tried again")
        # The last one is deleted and another one is made between two rounds: the server waits for another report.
        host.feed.statuses.clear()
        host.send(router(port_forwardings=(forwarding(6),)))
        await host.until(lambda: host.feed.statuses == [active], "not reported again")

    run(host, test)


def test_a_standby_host_does_not_report_forwarded_ports(host: Host) -> None:
    async def test() -> None:
        host.send(router(port_forwardings=(forwarding(1),), ha=membership()))
        await host.until(lambda: ("router", "r1", "standby") in host.feed.statuses, "its state is not reported")
        await host.role.finish()
        assert [kind for kind, *_ in host.feed.statuses] == ["router"]

    run(host, test)


def _fails(*_: object) -> None:
    raise NftError("no more elements")


def test_drift_is_repaired(tmp_path: Path) -> None:
    host = Host(tmp_path, repair=0.05)

    async def test() -> None:
        host.send(router())
        await host.until(lambda: host.is_there and bool(host.routes()), "it is not made")
        await host.role.finish()
        host.nft.apply(NAMESPACE, TablePlan("ip neutrino", delete=True))
        host.netlink.apply(NAMESPACE, [DeleteItem(on_device("qr-00000001-aa", "10.0.1.1/24", nodad=True))])
        assert not await host.verified()
        await host.until(
            lambda: host.nft.read(NAMESPACE).get("ip neutrino") is not None, "the table does not come back"
        )
        await host.role.finish()
        assert await host.verified()

    run(host, test)


def test_a_router_that_cannot_be_compared_does_not_hide_the_drift_of_others(host: Host) -> None:
    read = host.nft.read

    def broken(namespace: str) -> Mapping[str, TableState]:
        if namespace == NAMESPACE:
            raise NftError("no answer")
        return read(namespace)

    async def test() -> None:
        host.send(router())
        host.send(router(interface(3), id="r2", gateway=None), "r2")
        await host.until(lambda: {"r1", "r2"} <= host.role._applied.keys(), "not applied")
        await host.role.finish()
        host.netlink.apply("qrouter-r2", [DeleteItem(on_device("qr-00000003-aa", "10.0.3.1/24", nodad=True))])
        host.nft.read = broken  # type: ignore[method-assign]
        found = await host.role.find()
        assert found.problems == {"r1": "no answer"}
        assert "10.0.3.1/24" in found.plan

    run(host, test)


def test_both_ends_of_a_veth_pair_follow_the_mtu_of_the_network(host: Host) -> None:
    def mtus() -> set[int]:
        ends = ((NAMESPACE, "qr-00000001-aa"), (HOST, "tap00000001-aa"))
        devices = [host.netlink.read_device(*end) for end in ends] if host.is_there else []
        return {device.mtu if device is not None else 0 for device in devices}

    async def test() -> None:
        for mtu in (1450, 1400):
            host.send(router(interface(1, mtu=mtu)))
            await host.until(lambda mtu=mtu: mtus() == {mtu}, f"an end has another MTU than {mtu}")  # type: ignore[misc]

    run(host, test)


def test_a_device_removed_from_the_bridge_is_plugged_again_at_once(host: Host) -> None:
    def plugged() -> bool:
        return "tap00000001-aa" in host.ovsdb.read().bridges["br-int"].ports

    async def test() -> None:
        host.send(router())
        await host.until(plugged, "it is not plugged")
        await host.role.finish()
        host.ovsdb.apply([DeletePort("br-int", "tap00000001-aa")])
        await host.until(plugged, "it is not plugged again")

    run(host, test)


def test_extensions_are_notified_and_their_failures_are_problems_of_the_router(host: Host) -> None:
    extension = host.extension

    def notified() -> list[tuple[bool, str]]:
        return [(each.router is not None, each.error) for each in extension.results]

    async def test() -> None:
        host.send(router())
        await host.until(lambda: notified() == [(True, "")], "not notified of a new router")
        extension.applied_error = "no"
        host.send(router(enable_snat=False))
        await host.until(lambda: host.problems == {"r1": "extension recorder: no"}, "its failure is not shown")
        # A router that cannot be rendered stays as it is, and is retried.
        extension.applied_error, extension.render_error = "", "cannot"
        there = host.nft.read(NAMESPACE)
        host.send(router())
        await host.until(lambda: host.problems == {"r1": "extension recorder: cannot"}, "its failure is not shown")
        assert host.nft.read(NAMESPACE) == there
        extension.render_error = ""
        await host.until(lambda: not host.problems, "it is not retried")
        assert host.nft.read(NAMESPACE) != there
        extension.results.clear()
        host.send(None)
        await host.until(lambda: notified() == [(False, "")], "not notified of the removal")

    run(host, test)


def test_keepalived_is_started_after_its_port_is_wired(host: Host) -> None:
    port_holds = host.port_holds = PortHolds()
    host.restart()
    port = membership().interface.id

    async def test() -> None:
        host.send(router(ha=membership()))
        await host.until(lambda: any(each.endswith(port[:11]) for each in host.ovsdb.read().interfaces()), "plugged")
        port_holds.set_wired(["another"])
        await asyncio.sleep(0.05)
        assert "keepalived r1" not in host.processes.running()
        port_holds.set_wired(["another", port])
        await host.until(lambda: "keepalived r1" in host.processes.running(), "it does not run")

    run(host, test)


def test_a_router_that_is_not_ha_any_more_loses_its_ha_device(host: Host) -> None:
    def devices() -> set[str]:
        return set(host.netlink.read(NAMESPACE).devices) if host.is_there else set()

    async def test() -> None:
        host.send(router(ha=membership()))
        await host.until(lambda: "ha-ffffffff-aa" in devices(), "it has no HA device")
        await host.role.finish()
        host.send(router())
        await host.until(lambda: "ha-ffffffff-aa" not in devices(), "it keeps its HA device")
        await host.role.finish()
        assert await host.verified()

    run(host, test)


def test_keepalived_is_reloaded_once_it_handles_signals(tmp_path: Path) -> None:
    log = tmp_path / "log"
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    new, old = Process("keepalived r1", 1, now), Process("keepalived r1", 1, 0)

    async def scenario() -> None:
        wait_reloadable(old, log, READY)
        waiting = asyncio.create_task(asyncio.to_thread(wait_reloadable, new, log, READY))
        for written in ("", "Starting Keepalived\n"):
            log.write_text(written)
            await asyncio.sleep(0.05)
            assert not waiting.done()
        log.write_text(f"Starting Keepalived\n{READY}\n")
        await asyncio.wait_for(waiting, 30)

    asyncio.run(scenario())


def test_radvd_and_keepalived_read_what_changed_while_the_agent_was_away(host: Host, tmp_path: Path) -> None:
    async def test() -> None:
        host.send(router(ha=membership()))
        await host.until(lambda: "keepalived r1" in host.processes.running(), "it does not run")
        await host.role.finish()

    run(host, test)
    signals: list[int] = []
    host.processes.send = lambda process, number: bool(signals.append(number)) or True  # type: ignore[method-assign]
    again = Host(tmp_path)
    again.netlink, again.processes = host.netlink, host.processes

    async def ensure(*interfaces: int) -> None:
        watch = Supervisor(host.processes)
        options = L3Options(host="h1", state_path=str(tmp_path), veth=True)
        keepalived = Keepalived(watch, options)
        served = router(*map(interface, interfaces), ha=membership())
        serving = Serving(active=False, failover=failover(served, options))
        await keepalived.ensure(served, serving)
        assert keepalived.find(served, serving) == []
        await keepalived.close()

    asyncio.run(ensure(1, 2))
    assert signals == []  # as it was
    asyncio.run(ensure(1, 2, 3))
    assert len(signals) == 1


def test_radvd_withdraws_the_default_route_only_where_the_router_advertises_no_more(host: Host) -> None:
    """Not on a standby host, nor where the router has moved to another host, which advertises it by now."""
    own = address("2001:db8:1::1", "2001:db8:1::/64", ra_mode="slaac")
    signals = host.processes.signals
    served = router(interface(1), interface(2, own), ha=membership())

    async def becomes(active: bool) -> None:
        radvd = Radvd(Supervisor(host.processes), L3Options(host="h1", state_path=str(host.state_path)))
        await radvd.ensure(served, Serving(active))

    asyncio.run(becomes(True))
    assert "radvd r1" in host.processes.running()
    asyncio.run(becomes(False))
    assert [number for name, number in signals if name == "radvd r1"] == [signal.SIGKILL]
    signals.clear()
    there = router(interface(1), interface(2, own))

    async def test() -> None:
        for gone, expected in ((None, signal.SIGKILL), (router(interface(1)), signal.SIGTERM)):
            host.send(there)
            await host.until(lambda: "radvd r1" in host.processes.running(), "it runs")
            await host.role.finish()
            host.send(gone)
            await host.until(lambda: "radvd r1" not in host.processes.running(), "it ends")
            await host.role.finish()
            assert [number for name, number in signals if name == "radvd r1"] == [expected]
            signals.clear()

    run(host, test)


def test_options_of_l3_agent_ini_decide_where_daemons_have_their_files(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "l3_agent.ini"
    file.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\nha_confs_path = {tmp_path}/vrrp\nra_confs = {tmp_path}/adverts\n"
        "radvd_user = nobody\n"
    )
    options = l3_options(agent_config.configuration([str(file)]))
    own = address("2001:db8:1::1", "2001:db8:1::/64", ra_mode="slaac")
    served = router(interface(1), interface(2, own), ha=membership())
    keepalived, advertises = tmp_path / "vrrp" / "r1" / "keepalived.conf", tmp_path / "adverts" / "r1.radvd.conf"

    async def test() -> None:
        services = [service(Supervisor(host.processes), options) for service in (Keepalived, Radvd)]
        for service in services:
            await service.ensure(served, Serving(failover=failover(served, options)))
        assert set(host.processes.running()) == {"keepalived r1", "radvd r1"}
        assert str(tmp_path / "vrrp" / "r1" / "notify") in keepalived.read_text()
        assert advertises.stat().st_mode & 0o777 == 0o644  # its user reads it at a reload
        for service in services:
            await service.stop("r1", moved=False)
        assert host.processes.running() == {}
        assert not keepalived.exists()
        assert not advertises.exists()

    asyncio.run(test())


def test_stale_connections_of_removed_translations() -> None:
    entry = PortForwarding(
        id="p",
        protocol="tcp",
        external_ip_address="203.0.113.20",
        external_port_first=80,
        external_port_last=80,
        internal_ip_address="10.0.1.9",
        internal_port_first=8080,
        internal_port_last=8080,
    )
    options = L3Options()
    first = rendered(router(floating_ips=(floating(9, "10.0.1.9"),), port_forwardings=(entry,)), options)
    before, after = table(first), table(rendered(router(floating_ips=(floating(9, "10.0.1.10"),)), options))
    assert before is not None
    assert after is not None
    assert first.rendered_from is not None
    there = {PATH: TableState(elements={each.name: each.elements for each in before.sets})}
    assert set(Nat().stale_connections(first.rendered_from, {PATH: before}, there)) == set()
    assert set(Nat().stale_connections(first.rendered_from, {PATH: after}, there)) == {
        ConntrackFlush(0, 4, "ingress", "203.0.113.9"),
        ConntrackFlush(0, 4, "egress", "10.0.1.9"),
        ConntrackFlush(0, 4, "ingress", "203.0.113.20", "", TCP, 80, 80),
    }


def test_tables_of_others_in_a_routers_namespace_are_reported_and_left_alone(tmp_path: Path) -> None:
    host = Host(tmp_path, repair=0.05)
    name = f"foreign tables in {NAMESPACE}"

    async def test() -> None:
        host.send(router())
        await host.until(lambda: host.is_there, "the router is there")
        host.feed.is_synced = True
        host.nft.foreign[NAMESPACE] = ("inet evil",)
        await host.until(lambda: name in host.problems, "it is not reported")
        assert host.problems[name] == "tables that are not this agent's, and drop packets: inet evil"
        assert f"{name}: tables that are not" in (await host.role.find()).plan, "a difference for verify"
        host.nft.foreign.clear()
        await host.until(lambda: name not in host.problems, "it is reported still")
        host.nft.foreign[NAMESPACE] = ("inet evil",)
        await host.until(lambda: name in host.problems, "it is not reported")
        host.send(None)
        await host.until(lambda: name not in host.problems, "the router is gone")

    run(host, test)
