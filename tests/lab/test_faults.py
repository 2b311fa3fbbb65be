"""Whatever is killed, cut, restarted or meddled with: packets go on, and everything is put right.

Each under fifty pings a second on four paths: on one host and between hosts, by a tunnel and by a VLAN. Where it is
not said otherwise, not one of them may be lost. `python -m qa.faults.outage` is the long form for the server.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.ovs import DATABASE
from neutrino.model.roles import USUAL
from qa.faults.outage import without_server
from tests.support.lab_control import Lab, end
from tests.support.lab_faults import (
    BRIDGES,
    QUICK_AGENT,
    Log,
    Relay,
    Site,
    Traffic,
    Wiring,
    expect_closed,
    expect_open,
    extra_rule,
    feed_process,
    foreign_port,
    make_site,
    now,
    ofctl,
    wait_until_remembered,
    wait_until_well,
)
from tests.support.lab_guests import (
    SOON,
    add_rule,
    allow,
    wait_until_reachable,
)
from tests.support.lab_kinds import LabKind
from tests.support.routing_lab import wait_until_no_drift
from tests.support.shared_labs import lab_of_kind

DEAD = "4095"
THEIRS = "cookie=0x1234"
OURS = "cookie=0x6e74726e00000000/0xffffffff00000000"
SECONDS_TO_WIRE = 20.0  # after the switch is back: half of one, and more on a busy machine


@pytest.fixture(scope="module")
def made() -> Iterator[Site]:
    """A lab of its own, as it is broken here."""
    with lab_of_kind(LabKind(hosts=2, roles=USUAL, agent=QUICK_AGENT)) as lab:
        yield make_site(lab)


@pytest.fixture(scope="module")
def before(made: Site) -> Wiring:
    """What was there when nothing had happened yet, and must be there after every test."""
    return made.wiring()


@pytest.fixture
def site(made: Site, before: Wiring) -> Iterator[Site]:
    yield made
    wait_until_well(made)
    made.wait_until_as(before)


@pytest.fixture
def lab(site: Site) -> Lab:
    return site.lab


# --- the agent --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [False, True], ids=["ended", "killed"])
def test_an_agent_restarted(site: Site, lab: Lab, kill: bool, before: Wiring) -> None:
    with Traffic(site) as traffic:
        lab.stop_agent("h1", kill=kill)
        lab.start_agent("h1")
    assert traffic.lost == {}
    assert site.changed(before) == []


def test_what_changes_while_the_agent_is_away_is_done_when_it_is_back(site: Site, lab: Lab) -> None:
    blue = site.networks["vxlan"]["id"]
    old_rule = add_rule(lab, site.narrow_group, allow("tcp", 80))
    expect_open(site, 80)
    going = lab.vm("going", network=blue, host="h1", security_groups=[site.group])
    with Traffic(site, plugs=True) as traffic:
        lab.stop_agent("h1")
        lab.api.delete("security_group_rule", old_rule)
        new_rule = add_rule(lab, site.narrow_group, allow("tcp", 81))
        coming = lab.vm("coming", network=blue, host="h1", security_groups=[site.group], wait=False)
        lab.api.delete("port", going.port_id)
        lab.start_agent("h1")
        lab.wait_for_port(coming)
        lab.address("coming")
        assert lab.run("coming", ["ping", "-n", "-c", "1", "-W", "5", site["vxlan3"].addresses[4]]).returncode == 0
        expect_open(site, 81)
        expect_closed(site, 80)
        switch = lab.ovs("h1")
        wait_until(lambda: switch.vsctl("get", "port", going.tap, "tag").strip() == DEAD, SOON, "it still talks")
        wait_until_no_drift(lab, "h1")
    assert traffic.lost == {}
    lab.api.delete("security_group_rule", new_rule)
    for name in ("going", "coming"):
        lab.delete_vm(name)


# --- the server -------------------------------------------------------------------------------------------------------


def test_the_dataplane_stays_without_the_server_and_later_changes_arrive(site: Site, before: Wiring) -> None:
    assert without_server(site, seconds=2).lost == {}
    site.wait_until_as(before)


def test_an_agent_restarted_while_the_server_is_away_changes_nothing(site: Site, lab: Lab, before: Wiring) -> None:
    """Also where it remembers a rule that was removed a moment before it was killed."""
    log = Log(lab, "h1-agent")
    with extra_rule(site, 8084) as rule:
        expect_open(site, 8084)
        cache = wait_until_remembered(lab, "h1", rule)
        old = cache.read_bytes()
    site.wait_until_as(before)
    with Traffic(site) as traffic:
        lab.stop_server()
        lab.stop_agent("h1", kill=True)
        cache.write_bytes(old)
        since = now()
        log.forget()
        lab.start_agent("h1", wait=False)
        log.wait_for("the dataplane is up")
        assert site.changed(before) == []
        lab.start_server()
        lab.wait_for_agent("h1", since)
        site.wait_until_as(before)
    assert traffic.lost == {}


def test_an_agent_that_remembers_nothing_deletes_nothing_until_the_server_has_told(
    site: Site, lab: Lab, before: Wiring
) -> None:
    log = Log(lab, "h1-agent")
    with Traffic(site, plugs=True) as traffic:
        lab.stop_server()
        lab.stop_agent("h1", kill=True)
        (lab.paths.host("h1") / "feed.json").unlink()
        since = now()
        log.forget()
        lab.start_agent("h1", wait=False)
        log.wait_for("no connection to the server at")
        log.wait_for("nothing is changed on this host before the server has sent its objects")
        assert site.changed(before) == []
        lab.start_server()
        lab.wait_for_agent("h1", since)
        site.wait_until_as(before)
    assert traffic.lost == {}


# --- the feed ---------------------------------------------------------------------------------------------------------


def test_a_killed_feed_process_is_started_again_and_goes_on(site: Site, lab: Lab) -> None:
    with Traffic(site) as traffic:
        killed = feed_process(lab)
        os.kill(killed, signal.SIGKILL)
        with extra_rule(site, 8081):
            expect_open(site, 8081)
        expect_closed(site, 8081)
    assert feed_process(lab) != killed
    assert traffic.lost == {}


def test_a_cut_connection_is_resumed_with_what_it_missed(site: Site, lab: Lab) -> None:
    with Relay(lab) as relay:
        lab.stop_agent("h1")
        lab.start_agent("h1", relay.options)
        with Traffic(site) as traffic:
            relay.cut()
            with extra_rule(site, 8082):
                relay.resume()
                expect_open(site, 8082)
                relay.cut()
            assert site["narrow"].port["status"] == "ACTIVE"
            relay.resume()
            expect_closed(site, 8082)
        assert relay.connections == 3
        assert traffic.lost == {}
        lab.stop_agent("h1")
        lab.start_agent("h1", {})


# --- meddling ---------------------------------------------------------------------------------------------------------


def test_flows_and_ports_of_others_are_left_alone(site: Site, lab: Lab) -> None:
    switch = lab.ovs("h1")
    for bridge in BRIDGES:
        ofctl(lab, "h1", "add-flow", bridge, f"{THEIRS},table=0,priority=7,dl_type=0x88b6,actions=drop")
    tunnel = ("type=gre", "options:remote_ip=10.255.0.99")
    with foreign_port(lab, "br-int", "theirs"), foreign_port(lab, "br-tun", "gre-theirs", *tunnel):
        switch.vsctl("set", "port", "theirs", "tag=12")
        with Traffic(site) as traffic:
            with extra_rule(site, 8083):
                lab.stop_agent("h1", kill=True)
                lab.start_agent("h1", {"ovs": {"kept_cookies": THEIRS.partition("=")[2]}})
                expect_open(site, 8083)
            expect_closed(site, 8083)
        assert switch.vsctl("get", "port", "theirs", "tag").strip() == "12"
        assert "gre-theirs" in switch.vsctl("list-ports", "br-tun")
    for bridge in BRIDGES:
        assert "dl_type=0x88b6" in ofctl(lab, "h1", "dump-flows", bridge, f"{THEIRS}/-1")
        ofctl(lab, "h1", "del-flows", bridge, f"{THEIRS}/-1")
    assert traffic.lost == {}
    lab.stop_agent("h1")
    lab.start_agent("h1", {})


@pytest.mark.parametrize("bridge", BRIDGES)
def test_flows_deleted_by_hand_are_put_back_and_told(site: Site, lab: Lab, bridge: str, before: Wiring) -> None:
    """Packets are lost while they are missing: for check_interval, which is one second here."""
    with Traffic(site) as traffic:
        ofctl(lab, "h1", "del-flows", bridge, OURS)
        site.wait_until_as(before)
    assert traffic.outage < 1 + SECONDS_TO_WIRE
    repairs = lambda: lab.agents()["h1"]["configurations"].get("last_repair", {})  # noqa: E731
    wait_until(lambda: bridge in repairs(), SOON, "it is not told")


def test_a_flow_changed_by_hand_is_put_right(site: Site, lab: Lab, before: Wiring) -> None:
    """Their number is as it was, so that takes repair_interval, which is three seconds here."""
    ofctl(lab, "h1", "mod-flows", "br-int", "table=94,actions=drop")
    assert site.changed(before)
    site.wait_until_as(before)


def test_a_tag_changed_by_hand_is_put_right(site: Site, lab: Lab, before: Wiring) -> None:
    device = site["vxlan2"].vm.tap
    with Traffic(site) as traffic:
        lab.ovs("h1").vsctl("set", "port", device, "tag=77")
        site.wait_until_as(before)
    assert set(traffic.lost) <= {"vxlan on one host"}
    assert traffic.outage < SECONDS_TO_WIRE


# --- Open vSwitch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [False, True], ids=["restarted", "killed"])
def test_a_switch_that_comes_back_is_wired_again_in_seconds(site: Site, lab: Lab, kill: bool, before: Wiring) -> None:
    """It has forgotten all flows. Packets are lost from its end until then, and no longer."""
    with Traffic(site) as traffic:
        lab.stop_ovs("h1", kill=kill, database=False)
        lab.start_ovs("h1")
        took = max(wait_until_reachable(one, other) for one, other in site.paths.values())
        site.wait_until_as(before)
    assert took < SECONDS_TO_WIRE
    assert 0 < traffic.outage < SECONDS_TO_WIRE + 2
    wait_until_no_drift(lab, "h1")


def test_a_restarted_database_costs_no_packet(site: Site, lab: Lab, before: Wiring) -> None:
    switch = lab.ovs("h1")
    with Traffic(site, plugs=True) as traffic:
        pid = switch.pid(DATABASE)
        assert pid is not None
        end(pid)
        switch.start()
        # The agent has found it again: a device that is plugged now is wired.
        lab.vm("after", network=site.networks["vxlan"]["id"], host="h1", security_groups=[site.group])
        lab.delete_vm("after")
        site.wait_until_as(before)
    assert traffic.lost == {}


def test_agent_and_switch_killed_without_a_server_are_wired_from_the_cache(
    site: Site, lab: Lab, before: Wiring
) -> None:
    wait_until_remembered(lab, "h1", *(guest.port_id for guest in site.guests.values() if guest.host == "h1"))
    lab.stop_server()
    lab.stop_agent("h1", kill=True)
    lab.stop_ovs("h1", kill=True)
    lab.start_ovs("h1")
    since = now()
    lab.start_agent("h1", wait=False)
    took = max(wait_until_reachable(one, other) for one, other in site.paths.values())
    assert took < SECONDS_TO_WIRE
    with Traffic(site) as traffic:
        lab.start_server()
        lab.wait_for_agent("h1", since)
        site.wait_until_as(before)
    assert traffic.lost == {}
