"""The L2 role: retries of failed reconciliations, held ports, and reports of what the switch rejects."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import threading
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from msgspec import structs

from neutrino.agent.l2 import role as role_module
from neutrino.agent.l2.extension_api import cookie_of
from neutrino.agent.l2.packet_logger import PacketLogger
from neutrino.agent.l2.pipeline import DEAD_VLAN, TRANSIENT
from neutrino.agent.l2.reconciler import Outcome, Reconciler, ReconcilerView
from neutrino.agent.l2.role import L2Role
from neutrino.agent.l2.statistics import PacketCounts
from neutrino.agent.runtime.context import Intervals, PortHolds
from neutrino.dataplane.openflow.api import Flow, FlowsRejected, OpenFlowError, PacketCount
from neutrino.dataplane.ovsdb.api import DeletePort, SetBridge, SetPort
from neutrino.dataplane.protocols.packet_in import PacketIn, PacketIns
from neutrino.model import agents
from neutrino.model.firewall import FirewallGroup
from tests.support.l2 import mac, network, port
from tests.support.metadata import Feed, until
from tests.support.switch_host import SwitchHost


class Failing(Reconciler):
    """A reconciler whose switch does not answer while `fails` is set."""

    fails = True

    def reconcile(self, *args: object, **options: object) -> Outcome:
        if self.fails:
            raise OpenFlowError("no answer")
        return super().reconcile(*args, **options)  # type: ignore[arg-type]

    def find(self, *args: object, **options: object) -> object:  # type: ignore[override]
        raise OpenFlowError("no answer")


class Watch:
    """A switch that never restarts."""

    async def present(self, bridge: str) -> None:
        return None

    async def gone(self, bridge: str) -> None:
        await asyncio.Event().wait()


def test_a_failed_reconciliation_does_not_end_the_agent() -> None:
    host, feed = SwitchHost(), Feed()
    host.reconcile()  # the bridges are there from before
    reconciler = Failing(lambda: host.switch.ovsdb, host.switch.openflow, host.connections, host.options)
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, reconciler, Watch(), "br-int", describe)  # type: ignore[arg-type]

    def dataplane() -> str:
        (state,) = role.describe()
        return str(state.configurations[agents.DATAPLANE])

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        await until(lambda: dataplane() == "down: no answer")
        assert (await role.find()).problems == {"br-int": "no answer"}
        reconciler.fails = False
        host.plug("p1")
        feed.put("network", "net1", network("net1", number=1))
        feed.put("port", "p1", port("p1", 1, "net1"))
        role.synced()
        await until(lambda: dataplane() == "up")
        await until(lambda: host.tag("p1") == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_packets_of_flows_are_counted_since_the_agents_start() -> None:
    now = 100.0
    counts = PacketCounts(lambda: now)
    now = 110.0
    counts.read({"old": PacketCount(50, 60.0), "new": PacketCount(2, 5.0)})
    assert counts.total == 2
    counts.read({"old": PacketCount(51, 70.0), "new": PacketCount(4, 15.0)})
    assert counts.total == 5
    counts.read({"new": PacketCount(1, 1.0)})  # deleted and added again
    assert counts.total == 6
    counts.read({})
    assert counts.total == 6


def test_a_view_that_is_cancelled_keeps_the_reconciler_until_its_thread_returns() -> None:
    """The reconciler is for one thread at a time."""
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Reconciler):
        def view(self, *args: object, **options: object) -> ReconcilerView:
            entered.set()
            assert go_on.wait(10)
            raise OpenFlowError("no answer")  # nobody waits for it any more

    reconciler = Slow(lambda: host.switch.ovsdb, host.switch.openflow, host.connections, host.options)
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, reconciler, Watch(), "br-int", describe)  # type: ignore[arg-type]
    unhandled: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        viewing = asyncio.create_task(role.view())
        await until(entered.is_set)
        viewing.cancel()
        await asyncio.gather(viewing, return_exceptions=True)
        assert viewing.cancelled()
        settled = asyncio.create_task(role.finish())
        _, waiting = await asyncio.wait([settled], timeout=0.05)
        assert waiting
        go_on.set()
        await asyncio.wait_for(settled, 10)

    asyncio.run(scenario())
    gc.collect()
    assert not unhandled


def test_the_report_has_what_the_switch_supports() -> None:
    host, feed = SwitchHost(), Feed()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe)  # type: ignore[arg-type]
    (before,) = role.describe()
    assert before.configurations[agents.OVS_CAPABILITIES] == {"datapath_types": [], "iface_types": []}
    host.switch.ovsdb.set_capabilities(("netdev",), ("dpdkvhostuserclient", "vxlan"))

    def supported() -> bool:
        (state,) = role.describe()
        wanted = {"datapath_types": ["netdev"], "iface_types": ["dpdkvhostuserclient", "vxlan"]}
        return bool(state.configurations[agents.OVS_CAPABILITIES] == wanted)

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        await until(supported)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_firewall_group_is_reported_with_the_ports_that_it_filters() -> None:
    class Reports(Feed):
        def __init__(self) -> None:
            super().__init__()
            self.statuses: list[tuple[object, ...]] = []

        def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "", role: str = "") -> None:
            self.statuses.append((kind, key, status, revision, reason, role))

    host, feed = SwitchHost(), Reports()
    host.reconcile()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    kinds = frozenset({"firewall_group"})
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe, kinds=kinds)  # type: ignore[arg-type]

    def reported(*wanted: tuple[str, int]) -> bool:
        return feed.statuses == [("firewall_group", "f1", status, revision, "", "l2") for status, revision in wanted]

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        host.plug("p1")
        feed.put("network", "net1", network("net1", number=1))
        feed.put("firewall_group", "f1", FirewallGroup(id="f1", revision=3))
        feed.put("port", "p1", port("p1", 1, "net1", firewall_group_id="f1"))
        role.synced()
        await until(lambda: reported(("ACTIVE", 3)))
        feed.put("port", "p1", port("p1", 1, "net1", firewall_group_id="f1", revision=2))
        role.synced()
        feed.put("firewall_group", "f1", FirewallGroup(id="f1", revision=4))
        role.synced()
        await until(lambda: reported(("ACTIVE", 3), ("ACTIVE", 4)))
        # A port that must not talk is no error of its group.
        feed.put("port", "p1", port("p1", 1, "net1", firewall_group_id="f1", admin_state_up=False))
        role.synced()
        await until(lambda: reported(("ACTIVE", 3), ("ACTIVE", 4), ("INACTIVE", 0)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_port_of_an_inactive_binding_is_reported_once_when_it_is_plugged() -> None:
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe)  # type: ignore[arg-type]

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        feed.put("network", "net1", network("net1", number=1))
        feed.put("port", "p1", port("p1", 1, "net1", active=False, revision=3))
        host.plug("p1")
        role.synced()
        await until(lambda: feed.plugged == {"p1": 3})
        feed.plugged.clear()
        feed.put("port", "p1", port("p1", 1, "net1", active=False, revision=4))
        feed.put("port", "p2", port("p2", 2, "net1"))
        host.plug("p2")
        role.synced()
        await until(lambda: "p2" in feed.up)
        assert (feed.plugged, "p1" in feed.up, feed.down) == ({}, False, {})
        feed.put("port", "p1", port("p1", 1, "net1", revision=5))  # activated
        role.synced()
        await until(lambda: feed.up.get("p1") == 5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_an_instance_that_arrives_by_live_migration_gets_packets_before_its_binding_is_active() -> None:
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    logger = PacketLogger(PacketIns("", 0))
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe, packet_logger=logger)  # type: ignore[arg-type]

    def delivers() -> bool:
        return any(f"dl_dst={mac(1)}" in flow for flow in host.flows())

    async def scenario() -> None:
        working = asyncio.create_task(role._work())
        feed.put("network", "net1", network("net1", number=1))
        for each in (port("p1", 1, "net1", active=False), port("p2", 2, "net1")):
            feed.put("port", each.id, structs.replace(each, port_security_enabled=False))
            host.plug(each.id)
        role.synced()
        await until(lambda: "p2" in feed.up)
        assert not delivers()
        for owner in ("port p2", "port p1"):
            logger.arrived(PacketIn(cookie_of(owner), TRANSIENT.number, 1, b""))
        await until(delivers)
        assert ("p1" in feed.up, feed.plugged) == (False, {"p1": 0})
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    asyncio.run(scenario())


def test_the_megaflow_cache_is_flushed_after_a_change_and_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_module, "FLUSH_SECONDS", 0.0)
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    flushed = 0

    def flush() -> None:
        nonlocal flushed
        flushed += 1

    monkeypatch.setattr(host.switch.openflow, "flush_megaflows", flush)
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe)  # type: ignore[arg-type]

    async def scenario() -> None:
        flushing = asyncio.create_task(role._flush_megaflows())
        role._flows_changed.set()
        await until(lambda: flushed == 2)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    asyncio.run(scenario())
    assert flushed == 2


def test_an_instance_that_arrives_by_live_migration_waits_for_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for that between reconciliations nor for that between flushes of the megaflow cache."""
    for name in ("FLUSH_SECONDS", "LONGEST_PAUSE"):
        monkeypatch.setattr(role_module, name, 3600.0)
    clock = itertools.count(0.0, 10_000.0)  # each reconciliation takes long, and would be followed by a long pause
    monkeypatch.setattr(role_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    flushes: list[bool] = []  # of each, whether packets were delivered to the instance then

    def delivers() -> bool:
        return any(f"dl_dst={mac(1)}" in flow for flow in host.flows())

    monkeypatch.setattr(host.switch.openflow, "flush_megaflows", lambda: flushes.append(delivers()))
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    logger = PacketLogger(PacketIns("", 0))
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe, packet_logger=logger)  # type: ignore[arg-type]

    async def scenario() -> None:
        running = [asyncio.create_task(role._work()), asyncio.create_task(role._flush_megaflows())]
        feed.put("network", "net1", network("net1", number=1))
        feed.put("port", "p1", structs.replace(port("p1", 1, "net1", active=False), port_security_enabled=False))
        host.plug("p1")
        role.synced()
        await until(lambda: flushes == [False])
        logger.arrived(PacketIn(cookie_of("port p1"), TRANSIENT.number, 1, b""))
        await until(lambda: flushes[-1:] == [True])
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_deleted_port_stays_wired_while_it_is_held() -> None:
    host, feed, port_holds = SwitchHost(), Feed(), PortHolds()
    host.reconcile()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(
        feed,
        host.reconciler,
        Watch(),  # type: ignore[arg-type]
        "br-int",
        describe,
        port_holds=port_holds,
    )

    def flows() -> object:
        return host.switch.openflow.read_flows("br-int", cookie_of("port p1"), 0xFFFFFFFFFFFFFFFF)

    def forget(*keys: tuple[str, str]) -> None:
        for kind, key in keys:
            feed.put(kind, key, None)
        role.synced()

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        for key in ("p1", "p2"):
            host.plug(key)
            feed.put("port", key, port(key, 1, "net1"))
        feed.put("network", "net1", network("net1", number=1))
        port_holds.hold("holder", "p1")
        role.synced()
        await until(lambda: host.tag("p1") == host.tag("p2") == 1 and bool(flows()))  # flows follow the tags
        before = flows()
        forget(("port", "p1"), ("port", "p2"), ("network", "net1"))
        await until(lambda: host.tag("p2") == DEAD_VLAN)
        assert host.tag("p1") == 1
        assert flows() == before
        port_holds.release("holder")
        await until(lambda: host.tag("p1") == DEAD_VLAN)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_rejected_flow_is_a_problem_of_its_port_until_it_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(
        feed,
        host.reconciler,
        Watch(),  # type: ignore[arg-type]
        "br-int",
        describe,
        intervals=Intervals(check=0.01, repair=0.05),
    )
    up: set[str] = set()
    rejecting = True
    monkeypatch.setattr(feed, "port_up", lambda port_id, revision: up.add(port_id))
    apply = host.switch.openflow.apply_flows

    def apply_flows(bridge: str, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        found = {each.key: "OFPBAC_BAD" for each in add if rejecting and "arp_spa=10.0.0.1," in each.match}
        if found:
            raise FlowsRejected("OFPBAC_BAD", found)
        apply(bridge, add=add, delete=delete)

    monkeypatch.setattr(host.switch.openflow, "apply_flows", apply_flows)

    def described() -> tuple[str, dict[str, str]]:
        (state,) = role.describe()
        configurations = state.configurations
        return str(configurations[agents.DATAPLANE]), configurations[agents.PROBLEMS]  # type: ignore[return-value]

    async def scenario() -> None:
        nonlocal rejecting
        running = asyncio.create_task(role.run())
        feed.put("network", "net1", network("net1", number=1))
        for number in (1, 2):
            host.plug(f"p{number}")
            feed.put("port", f"p{number}", port(f"p{number}", number, "net1"))
        role.synced()
        await until(lambda: up == {"p2"} and "p1" in described()[1])
        dataplane, problems = described()
        assert dataplane == "up"
        assert problems.keys() == {"p1"}
        for part in ("ARP_SPOOFING", "OFPBAC_BAD", "arp_spa=10.0.0.1,"):
            assert part in problems["p1"]
        rejecting = False
        await until(lambda: up == {"p1", "p2"} and described() == ("up", {}))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_each_round_logs_port_statistics_with_ancillary_ports_apart(caplog: pytest.LogCaptureFixture) -> None:
    """A port on a bridge of others is reported up and down, and counted separately."""
    host, feed = SwitchHost(), Feed()
    host.reconcile()
    describe = agents.AgentState(agents.OVS, "neutrino-agent", "h1", "N/A")
    role = L2Role(feed, host.reconciler, Watch(), "br-int", describe)  # type: ignore[arg-type]
    ovsdb = host.switch.ovsdb

    def devices() -> tuple[object, object]:
        (state,) = role.describe()
        return state.configurations["devices"], state.configurations["ancillary_devices"]

    def is_logged(level: int, text: str) -> bool:
        return any(each.levelno == level and text in each.getMessage() for each in caplog.records)

    async def scenario() -> None:
        running = asyncio.create_task(role.run())
        feed.put("network", "net1", network("net1", number=1))
        for number, name in enumerate(("p1", "p2"), 1):
            feed.put("port", name, port(name, number, "net1"))
        host.plug("p1")
        role.synced()
        await until(lambda: devices() == (1, 0))
        ovsdb.apply([SetBridge("br-other"), SetPort("br-other", "veth2", external_ids={"iface-id": "p2"})])
        await until(lambda: devices() == (1, 1))
        assert feed.up["p2"] == feed.up["p1"]
        feed.put("port", "p1", structs.replace(port("p1", 1, "net1"), revision=7))
        role.synced()
        await until(lambda: feed.up["p1"] == 7)
        ovsdb.apply([DeletePort("br-other", "veth2")])
        await until(lambda: devices() == (1, 0))
        assert "p2" in feed.down
        role.synced()
        quiet = "1 ports wired (0 added, 0 updated, 0 removed); on ancillary bridges 0 ports wired"
        await until(lambda: is_logged(logging.DEBUG, quiet))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with caplog.at_level(logging.DEBUG, logger="neutrino.agent.l2.role"):
        asyncio.run(scenario())
    for own, ancillary in (
        ("1 ports wired (1 added, 0 updated, 0 removed)", "0 ports wired (0 added, 0 updated, 0 removed)"),
        ("1 ports wired (0 added, 0 updated, 0 removed)", "1 ports wired (1 added, 0 updated, 0 removed)"),
        ("1 ports wired (0 added, 1 updated, 0 removed)", "1 ports wired (0 added, 0 updated, 0 removed)"),
        ("1 ports wired (0 added, 0 updated, 0 removed)", "0 ports wired (0 added, 0 updated, 1 removed)"),
    ):
        assert is_logged(logging.INFO, f"{own}; on ancillary bridges {ancillary}; ")
