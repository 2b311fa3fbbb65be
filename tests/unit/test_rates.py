"""Counters of ports and tunnels: what a host reports, and the series that come of it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping

import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.rates import RateReporter, TrafficCounts, busiest, difference
from neutrino.dataplane.openflow.api import OpenFlowError
from neutrino.dataplane.ovsdb.api import Bridge, Interface, Port, Snapshot
from neutrino.features.rates.series import HostReport, port_series, tunnel_series
from neutrino.feed.messages import HostReport as Message
from neutrino.feed.messages import NotUnderstood, Rates, encode, read_from_host
from neutrino.model.rates import MAX_COUNTED, MAX_PORTS, Counted
from neutrino.server.feed.reports.rules import refusal
from tests.fakes.openflow import FakeSwitch

PORT, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def test_differences_are_taken() -> None:
    counts = TrafficCounts()
    assert counts.take({PORT: Counted(1000)}) == {}  # of how long that is, is not known
    assert counts.take({PORT: Counted(1000)}) == {}
    assert counts.take({PORT: Counted(1500, 20)}) == {PORT: Counted(500, 20)}
    assert counts.take({PORT: Counted(1500, 20), OTHER: Counted(7)}) == {OTHER: Counted(7)}  # plugged since
    assert counts.totals == {PORT: Counted(500, 20), OTHER: Counted(7)}
    assert counts.take({OTHER: Counted(7)}) == {}
    assert counts.totals.keys() == {OTHER}


def test_counters_that_start_again_with_the_switch() -> None:
    assert difference(Counted(10**9, 10**9, 900, 900), Counted(300, 10**9 + 5)) == Counted(300, 10**9 + 5)
    counts = TrafficCounts()
    counts.take({PORT: Counted(1000)})
    counts.take({PORT: Counted(3000)})
    assert counts.take({PORT: Counted(10)}) == {PORT: Counted(10)}
    assert counts.totals == {PORT: Counted(2010)}  # a metric does not fall


def test_of_too_many_ports_the_busiest() -> None:
    several = {str(number): Counted(number, number) for number in range(10)}
    assert busiest(several, 2).keys() == {"9", "8"}


# --- the agent --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Feed:
    reports: list[tuple[int, Mapping[str, Counted], Mapping[str, Counted]]] = dataclasses.field(default_factory=list)

    def rates(self, seconds: int, ports: Mapping[str, Counted], tunnels: Mapping[str, Counted]) -> None:
        self.reports.append((seconds, ports, tunnels))


class Ovsdb:
    def read(self) -> Snapshot:
        def port(name: str, number: int, **more: Mapping[str, str]) -> Port:
            return Port(name, interfaces=(Interface(name, ofport=number, **more),))  # type: ignore[arg-type]

        integration = [
            port("tap1", 1, external_ids={"iface-id": PORT}),
            port("tap2", 2, external_ids={"iface-id": OTHER}),
            port("patch", 3),
        ]
        tunnels = [
            port("vxlan-1", 1, options={"remote_ip": "192.0.2.2"}),
            port("gre-1", 2, options={"remote_ip": "192.0.2.2"}),
        ]
        bridges = {"br-int": integration, "br-tun": tunnels}
        return Snapshot({name: Bridge(name, ports={p.name: p for p in several}) for name, several in bridges.items()})


def test_a_host_reports_what_has_counted() -> None:
    switch, feed, now = FakeSwitch(), Feed(), [0.0]
    for bridge in ("br-int", "br-tun"):
        switch.add_bridge(bridge)
    reporter = RateReporter(feed, L2Options(), Ovsdb, switch, 30, clock=lambda: now[0])  # type: ignore[arg-type]
    asyncio.run(reporter.report())
    assert feed.reports == []
    switch.counters = {
        "br-int": {1: Counted(800, 100), 3: Counted(1)},
        "br-tun": {1: Counted(5, 6), 2: Counted(10, 20)},
    }
    now[0] = 29.7
    asyncio.run(reporter.report())
    # Of a tunnel, `in` is from the other host: what its port has sent to the switch.
    assert feed.reports == [(30, {PORT: Counted(800, 100)}, {"192.0.2.2": Counted(26, 15)})]
    now[0] = 60
    asyncio.run(reporter.report())
    assert len(feed.reports) == 1  # nothing was counted
    metrics = {(one.name, *labels): value for one, labels, value in reporter.measures()}
    assert metrics["neutrino_agent_port_bytes_total", PORT, "in"] == 800
    assert metrics["neutrino_agent_tunnel_bytes_total", "192.0.2.2", "out"] == 15


def test_a_switch_that_does_not_answer_is_no_end_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, feed = FakeSwitch(), Feed()

    def fail(bridge: str) -> dict[int, Counted]:
        raise OpenFlowError("no")

    monkeypatch.setattr(switch, "read_port_counters", fail)
    asyncio.run(RateReporter(feed, L2Options(), Ovsdb, switch, 30).report())  # type: ignore[arg-type]
    assert feed.reports == []


# --- hostile reports --------------------------------------------------------------------------------------------------


def sent(message: Rates) -> Message:
    (received,) = read_from_host(encode([message]))
    assert isinstance(received, Rates)
    return received


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Rates(seconds=0), "seconds"),
        (Rates(seconds=3601), "seconds"),
        (Rates(seconds=30, ports={"": Counted()}), "no id"),
        (Rates(seconds=30, ports={"x" * 37: Counted()}), "no id"),
        (Rates(seconds=30, ports={"a\u202eb": Counted()}), "no id"),
        (Rates(seconds=30, ports={PORT: Counted(-1)}), "counters"),
        (Rates(seconds=30, ports={PORT: Counted(drops_out=MAX_COUNTED + 1)}), "counters"),
        (Rates(seconds=30, ports={f"p{n}": Counted(1) for n in range(MAX_PORTS + 1)}), "at most"),
        (Rates(seconds=30, tunnels={"not an address": Counted(1)}), "address"),
    ],
)
def test_reports_that_are_refused(message: Rates, fault: str) -> None:
    assert fault in refusal(sent(message), "h1", ("l2",), {})


def test_reports_that_are_taken() -> None:
    good = sent(Rates(seconds=30, ports={PORT: Counted(1, 2, 3, 4, 5, 6)}, tunnels={"2001:db8::1": Counted(1)}))
    assert refusal(good, "h1", ("l2",), {}) == ""
    assert refusal(good, "h1", ("dhcp",), {}) != ""  # its credential has not the role


@pytest.mark.parametrize(
    "frame",
    [
        b'[{"type":"rates","seconds":1e999}]',
        b'[{"type":"rates","seconds":30,"ports":{"a":{"bytes_in":1}}}]',
        b'[{"type":"rates","seconds":30,"ports":{"a":[1,2,3,4,5,"6"]}}]',
        b'[{"type":"rates"}]',
    ],
)
def test_frames_that_are_not_understood(frame: bytes) -> None:
    (received,) = read_from_host(frame)
    assert isinstance(received, NotUnderstood) or refusal(received, "h1", ("l2",), {})  # type: ignore[arg-type]


# --- series -----------------------------------------------------------------------------------------------------------


def test_a_series_has_rates_and_whole_drops() -> None:
    reports = [
        HostReport("h1", 90, 30, {}),
        HostReport("h1", 60, 30, {PORT: Counted(3000, 600, 60, 30, 2, 1)}),
    ]
    assert port_series(reports, [PORT]) == [[60, 800, 160, 2, 1, 2, 1], [90, 0, 0, 0, 0, 0, 0]]
    assert tunnel_series([HostReport("h1", 60, 10, tunnels={"a": Counted(10)})], "a") == [[60, 8, 0, 0, 0, 0, 0]]


def test_a_port_on_several_hosts_is_their_sum() -> None:
    reports = [HostReport(host, at, 30, {PORT: Counted(30)}) for host, at in (("h1", 61), ("h2", 75), ("h1", 91))]
    assert port_series(reports, [PORT]) == [[60, 16, 0, 0, 0, 0, 0], [90, 8, 0, 0, 0, 0, 0]]
