"""HA routers whose active host the server knows wrongly, as after its database was restored from a backup."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.ha_states import Disagreement, HaConflicts
from neutrino.agent.l3.services.keepalived.render import primary_address
from neutrino.dataplane.netlink.api import DeleteItem, SetItem
from neutrino.dataplane.netlink.values import address as on_device
from neutrino.model.routing import Router
from tests.support.l3_host import NAMESPACE, Host, run
from tests.support.routing import membership, router

HA = "ha-ffffffff-aa"
PRIMARY = on_device(HA, primary_address(membership()))


def named(host: str) -> Router:
    """The router with this host as its active one, by the server."""
    return router(ha=msgspec.structs.replace(membership(), active_host=host))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def states(host: Host) -> list[str]:
    return [status for kind, _, status in host.feed.statuses if kind == "router"]


async def elected(host: Host, active: bool, before: str = "") -> None:
    """keepalived runs here and has elected this host, or has not; the server names it then."""
    host.send(named(before))
    await host.until(lambda: "keepalived r1" in host.processes.running(), "keepalived does not run")
    if active:
        host.netlink.apply(NAMESPACE, [SetItem(PRIMARY)])
        host.send(named(""))
        await host.until(lambda: states(host)[-1:] == ["active"], "it is not reported as active")
        host.send(named("h1"))
    await host.role.finish()
    host.feed.statuses.clear()


def test_an_active_host_reports_again_when_the_server_names_another(host: Host) -> None:
    host.role.ha.conflicts.report_seconds = 0.05

    async def test() -> None:
        await elected(host, active=True)
        host.send(named("h2"))
        await host.until(lambda: states(host) == ["active"], "it does not report again")
        host.send(named("h1"))
        await host.role.finish()
        assert host.problems == {}
        assert states(host) == ["active"], "once"

    run(host, test)


def test_two_hosts_that_are_active_do_not_take_the_router_from_each_other_for_ever(host: Host) -> None:
    conflicts = host.role.ha.conflicts
    conflicts.report_seconds, conflicts.seconds = 0.02, 0.1

    async def test() -> None:
        await elected(host, active=True)
        host.send(named("h2"))
        await host.until(lambda: states(host) == ["active"], "it does not report again")
        host.send(named("h1"))
        host.send(named("h2"))  # which has reported again too
        await host.until(lambda: "here and on h2 at once" in host.problems.get("r1", ""), "no conflict")
        assert states(host) == ["active"]
        host.netlink.apply(NAMESPACE, [DeleteItem(PRIMARY)])  # it steps back
        host.send(msgspec.structs.replace(named("h2"), name="again"))
        await host.until(lambda: states(host)[-1] == "standby", "its new state is not reported")
        await host.until(lambda: host.problems == {}, "the conflict is still shown")

    run(host, test)


def test_a_standby_host_that_the_server_names_reports_at_once_that_it_is_not_active(host: Host) -> None:
    async def test() -> None:
        await elected(host, active=False)
        host.send(named("h1"))
        await host.until(lambda: states(host) == ["standby"], "the server still names it")
        host.send(named("h2"))
        await host.role.finish()
        assert states(host) == ["standby"]

    run(host, test)


def test_a_disagreement_is_reported_once_and_becomes_a_conflict_when_it_stays() -> None:
    conflicts = HaConflicts("h1", seconds=10, report_seconds=3)
    other, own = named("h2"), named("h1")
    assert conflicts.check(other, active=True, now=0) == Disagreement(check_again=3)
    assert conflicts.check(other, active=True, now=1) == Disagreement(check_again=2)
    assert conflicts.check(other, active=False, now=2) == Disagreement(), "a failover: it was active for a moment"
    assert conflicts.check(other, active=True, now=6) == Disagreement(check_again=3)
    assert conflicts.check(other, active=True, now=9) == Disagreement(report=True, check_again=10)
    assert conflicts.check(own, active=True, now=10) == Disagreement()
    assert conflicts.check(other, active=True, now=12) == Disagreement(check_again=10), "not reported a second time"
    assert "here and on h2 at once" in conflicts.check(other, active=True, now=22).problem
    assert conflicts.check(own, active=True, now=23) == Disagreement()
    assert conflicts.check(other, active=False, now=24) == Disagreement()
    assert conflicts.check(other, active=True, now=25) == Disagreement(check_again=3), "it was standby in between"
