"""Metering in routers: what is rendered in which namespace, and which totals follow from the values of counters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options, MeterOptions
from neutrino.agent.l3.names import METERING_PATH, counter, label_of
from neutrino.agent.l3.services import meters
from neutrino.agent.l3.services.meters import MeterReports, Meters
from neutrino.agent.runtime.service_namespaces import plan_tables
from neutrino.dataplane.nft.api import Table
from neutrino.model.routing import MeteredTraffic, MeteringLabel, MeteringRule, Router
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.support.l3_host import Feed, Host, run
from tests.support.routing import GATEWAY, QG, find_rendered, floating, interface, membership, rendered, router

OPTIONS = L3Options(host="h1")
ONE, TWO = "11111111-aaaa-bbbb-cccc-000000000001", "11111111-aaaa-bbbb-cccc-000000000002"
NAMESPACE = "qrouter-r1"


def rule(direction: str = "egress", **values: object) -> MeteringRule:
    return MeteringRule(direction=direction, **values)  # type: ignore[arg-type]


def metering(wanted: Router, **values: object) -> Table | None:
    found = find_rendered(wanted, OPTIONS, **values)  # type: ignore[arg-type]
    tables = found.namespace.tables if found is not None else ()
    return next((each for each in tables if each.path == METERING_PATH), None)


# --- rendering --------------------------------------------------------------------------------------------------------


def test_a_label_counts_once_after_what_it_excludes() -> None:
    label = MeteringLabel(
        ONE,
        (
            rule(source="10.0.1.0/24", destination="203.0.113.0/24"),
            rule(source="10.0.0.0/8"),
            rule(source="10.0.1.7/32", excluded=True),
            rule("ingress", destination="fd00::/64"),
        ),
    )
    found = metering(router(metering_labels=(label, MeteringLabel(TWO))))
    assert found is not None
    name = counter(ONE)
    chains = {each.name: each for each in found.chains}
    assert chains[f"egress_{name}"].rules == (
        "ip saddr 10.0.1.7/32 return",
        f'ip saddr 10.0.1.0/24 ip daddr 203.0.113.0/24 counter name "{name}" return',
        f'ip saddr 10.0.0.0/8 counter name "{name}" return',
    )
    assert chains[f"ingress_{name}"].rules == (f'ip6 daddr fd00::/64 counter name "{name}" return',)
    assert chains["metering_forward"].rules == (
        f'iifname "{QG}" jump ingress_{name}',
        f'oifname "{QG}" jump egress_{name}',
    )
    assert found.counters == (name, counter(TWO))  # a label without rules is reported too
    assert [label_of(each) for each in found.counters] == [ONE, TWO]


def test_a_router_without_gateway_or_labels_counts_nothing() -> None:
    label = MeteringLabel(ONE, (rule(source="10.0.0.0/8"),))
    assert metering(router()) is None
    assert metering(router(gateway=None, metering_labels=(label,))) is None


def test_both_namespaces_of_a_distributed_router_count() -> None:
    label = MeteringLabel(ONE, (rule(source="10.0.0.0/8"),))
    here = msgspec.structs.replace(floating(9, "10.0.1.9"), host="h1")
    wanted = router(
        distributed=True, metering_labels=(label,), floating_ips=(here,), agent_gateway=GATEWAY, ha=membership()
    )
    link = ("169.254.64.0", "169.254.64.1")
    outward = metering(wanted, kind="router", link=link)
    central = metering(wanted, kind="snat", link=link)
    assert outward is not None
    assert central is not None
    assert outward.chains[-1].rules == (f'oifname "rfp-r1" jump egress_{counter(ONE)}',)
    assert central.chains[-1].rules == (f'oifname "{QG}" jump egress_{counter(ONE)}',)
    assert metering(msgspec.structs.replace(wanted, floating_ips=()), kind="router") is None


def test_other_changes_of_a_router_leave_the_table_with_the_counters() -> None:
    label = MeteringLabel(ONE, (rule(source="10.0.0.0/8"),))
    nft = FakeNft(FakeNetlink())
    nft._netlink.create_namespace(NAMESPACE)
    for wanted in (
        router(metering_labels=(label,)),
        router(interface(1), interface(3), metering_labels=(label,), floating_ips=(floating(9, "10.0.1.9"),)),
    ):
        for plan in plan_tables(rendered(wanted, OPTIONS).namespace.tables, nft.read(NAMESPACE)):
            nft.apply(NAMESPACE, plan)
    assert [table.path for _, table in nft.replaced].count(METERING_PATH) == 1


# --- totals -----------------------------------------------------------------------------------------------------------


class Counting:
    """A namespace with counters of labels, and agents that read them; the clock is the test's."""

    def __init__(self, state_path: Path) -> None:
        self.netlink = FakeNetlink()
        self.nft = FakeNft(self.netlink)
        self.state_path = state_path
        self.now = 100.0
        self.netlink.create_namespace(NAMESPACE)
        self.meters = self.restart()

    def restart(self) -> Meters:
        self.meters = Meters(self.nft, self.netlink.namespaces, str(self.state_path), lambda: self.now)
        return self.meters

    def labels(self, *labels: str) -> None:
        table = Table(name="neutrino_metering", counters=tuple(map(counter, labels)))
        (plan,) = plan_tables([table], self.nft.read(NAMESPACE))
        self.nft.apply(NAMESPACE, plan)

    def count(self, packets: int, label: str = ONE) -> None:
        self.nft.count(NAMESPACE, METERING_PATH, counter(label), packets, 100)

    def measured(self) -> dict[str, tuple[int, int]]:
        self.meters.measure({"r1": "project"})
        return self.totals(acknowledged=False)

    def totals(self, *, acknowledged: bool) -> dict[str, tuple[int, int]]:
        found = self.meters.report(acknowledged=acknowledged)
        return {each.label_id: (each.packets, each.bytes) for each in found}


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


def test_totals_grow_across_restarts_and_changes_of_labels(counting: Counting) -> None:
    counting.meters.measure({})  # the agent starts, without routers
    counting.labels(ONE)
    counting.count(5)
    assert counting.measured() == {ONE: (5, 500)}
    assert counting.measured() == {ONE: (5, 500)}
    counting.count(2)
    counting.restart()
    counting.count(1)
    assert counting.measured() == {ONE: (8, 800)}
    counting.labels(ONE, TWO)
    counting.count(4, TWO)
    assert counting.measured() == {ONE: (8, 800), TWO: (4, 400)}


def test_a_counter_that_is_removed_is_kept_until_the_server_has_it(counting: Counting) -> None:
    counting.meters.measure({})
    counting.labels(ONE)
    counting.count(5)
    counting.meters.measure_one("r1", "project")  # before its label is removed
    counting.nft.apply(NAMESPACE, plan_tables([], counting.nft.read(NAMESPACE))[0])
    assert counting.measured() == {ONE: (5, 500)}
    counting.restart()
    assert counting.totals(acknowledged=False) == {ONE: (5, 500)}
    assert counting.totals(acknowledged=True) == {}


def test_a_counter_that_is_created_anew_is_another_one(counting: Counting) -> None:
    counting.meters.measure({})
    counting.labels(ONE)
    counting.count(5)
    assert counting.measured() == {ONE: (5, 500)}
    counting.netlink.delete_namespace(NAMESPACE)
    counting.meters.measure({})
    counting.netlink.create_namespace(NAMESPACE)
    counting.labels(ONE)
    counting.count(9)
    counting.meters.measure({"r1": "project"})
    found = counting.meters.report(acknowledged=False)
    assert sorted(each.packets for each in found) == [5, 9]
    assert len({each.id for each in found}) == 2


def test_a_counter_that_somebody_has_reset_counts_on(counting: Counting) -> None:
    counting.meters.measure({})
    counting.labels(ONE)
    counting.count(5)
    counting.measured()
    counting.nft.apply(NAMESPACE, plan_tables([], counting.nft.read(NAMESPACE))[0])  # by hand, between two readings
    counting.labels(ONE)
    counting.count(3)
    assert counting.measured() == {ONE: (8, 800)}


def test_after_a_reboot_the_kernel_counts_from_zero(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    counting.meters.measure({})
    counting.labels(ONE)
    counting.count(5)
    counting.measured()
    monkeypatch.setattr(meters, "_boot_id", lambda: "another")
    counting.restart()
    counting.meters.measure({})
    counting.netlink.delete_namespace(NAMESPACE)
    counting.netlink.create_namespace(NAMESPACE)
    counting.labels(ONE)
    counting.count(7)  # more than before
    counting.meters.measure({"r1": "project"})
    assert sorted(each.packets for each in counting.meters.report(acknowledged=False)) == [5, 7]


def test_without_its_file_an_agent_counts_from_then_on(counting: Counting) -> None:
    counting.meters.measure({})
    counting.labels(ONE)
    counting.count(5)
    counting.measured()
    (counting.state_path / meters.FILE).write_text("{")
    counting.restart()
    counting.meters.measure({})
    counting.count(2)
    assert counting.measured() == {ONE: (2, 200)}
    (found,) = counting.meters.report(acknowledged=False)
    assert found.project_id == "project"


def test_times_are_those_of_readings(counting: Counting) -> None:
    counting.meters.measure({})
    counting.labels(ONE)
    counting.meters.measure({"r1": "project"})
    counting.now = 130.0
    counting.meters.measure({"r1": "project"})
    (found,) = counting.meters.report(acknowledged=False)
    assert (found.first_update, found.last_update) == (100, 130)


# --- the role ---------------------------------------------------------------------------------------------------------


def test_the_role_reads_counters_before_it_removes_them(tmp_path: Path) -> None:
    host, label = Host(tmp_path), MeteringLabel(ONE, (rule(source="10.0.0.0/8"),))
    reader = Meters(host.nft, host.netlink.namespaces, str(tmp_path), lambda: 100.0)
    host.meters = MeterReports(reader, host.feed, MeterOptions(measure_interval=3600), host.role.desired.served)
    host.restart()

    def packets() -> list[int]:
        return [each.packets for each in reader.report(acknowledged=False)]

    async def test() -> None:
        host.send(router(metering_labels=(label,), project_id="p"))
        await host.until(lambda: host.is_there and METERING_PATH in host.nft.read(NAMESPACE), "no counters")
        await host.role.finish()
        host.nft.count(NAMESPACE, METERING_PATH, counter(ONE), 3, 100)
        host.send(router(project_id="p"))
        await host.until(lambda: METERING_PATH not in host.nft.read(NAMESPACE), "the label is still there")
        assert packets() == [3]
        host.send(router(metering_labels=(label,), project_id="p"))
        await host.until(lambda: METERING_PATH in host.nft.read(NAMESPACE), "no counters")
        await host.role.finish()
        host.nft.count(NAMESPACE, METERING_PATH, counter(ONE), 4, 100)
        host.send(None)
        await host.until(lambda: not host.is_there, "the router is still there")
        assert sorted(packets()) == [3, 4]

    run(host, test)


def test_reports_go_to_the_server_and_the_last_is_empty(tmp_path: Path) -> None:
    counting, feed = Counting(tmp_path), Feed()
    options = MeterOptions(measure_interval=0, report_interval=0)
    reports = MeterReports(counting.meters, feed, options, lambda: [router(metering_labels=(MeteringLabel(ONE),))])
    counting.meters.measure({})
    counting.labels(ONE)

    async def until(done: object) -> None:
        task = asyncio.create_task(reports.run())
        async with asyncio.timeout(30):
            while not done():  # type: ignore[operator]
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(until(lambda: any(feed.reported)))
    assert isinstance(feed.reported[-1][0], MeteredTraffic)
    counting.netlink.delete_namespace(NAMESPACE)
    asyncio.run(until(lambda: feed.reported[-1] == ()))
    known = len(feed.reported)
    asyncio.run(reports._report())
    assert len(feed.reported) == known, "an empty report is sent once"
