"""Findings on the service from the server's facts; the document of GET /v2.0/status: problems, pages of hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neutrino.diagnosis.facts import (
    BINDING_FAILED,
    FEED_PROCESS,
    NAMED,
    AgentRow,
    Disk,
    Facts,
    NamedObject,
    ObjectsWithProblems,
    ProcessRow,
)
from neutrino.diagnosis.findings import find
from neutrino.diagnosis.host_findings import REPORTED
from neutrino.diagnosis.problems import MAX_TEXT
from neutrino.diagnosis.status import Page, document
from neutrino.model.agents import DHCP, HELD, L3, OVS

AT = "2026-01-01T00:00:00Z"
NOW = 1767225610.0  # ten seconds later
PORT = NamedObject("p", "web", "h1")
ROUTER = NamedObject("r", "edge")


def agent(host: str, kind: str = OVS, **configurations: Any) -> AgentRow:
    return AgentRow(f"{host}-{kind}", kind, host, "nova", True, AT, AT, configurations)


def process(release: str = "1", seen_at: str = AT, **details: Any) -> ProcessRow:
    return ProcessRow(f"f{release}", "server-1", FEED_PROCESS, 7, release, AT, seen_at, details)


def facts(**values: Any) -> Facts:
    """A healthy service without objects, except for what is given."""
    healthy = Facts(
        now=NOW,
        down_time=75.0,
        dialect="mysql",
        server_version="",
        round_trip=0.0,
        schema="1",
        schema_needed="1",
        position=0,
        removed=0,
        pending=0,
        processes=[process()],
        agents=[],
        ports=[],
        networks={},
        subnets=0,
        routers=[],
        ha_routers={},
        floatingips={},
        named=ObjectsWithProblems(),
    )
    return replace(healthy, **values)


def named(**values: Any) -> Facts:
    return facts(named=ObjectsWithProblems(**values))


REFUSED = {"refused_hosts": {"h1": {"at": NOW - 3, "address": "192.0.2.7"}}}
LONG_AGO = "2025-12-31T23:00:00Z"
DOWN = {"underlay": {"use": "underlay", "state": "no carrier"}, "eth1": {"use": "physical network x", "state": "up"}}


def feed(*hosts: str, **details: Any) -> ProcessRow:
    """A feed process that has run for long, with these hosts connected."""
    return replace(process(hosts=list(hosts), **details), started_at=LONG_AGO)


def silent(*hosts: str, **more: Any) -> list[AgentRow]:
    """Agents of all kinds, which have stopped an hour ago."""
    return [replace(agent(host, kind, **more), heartbeat_timestamp=LONG_AGO) for host in hosts for kind in (DHCP, OVS)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (facts(), []),
        (facts(agents=[agent("h1", dataplane="up", feed_behind=100, tunneling_ip="192.0.2.1")]), []),
        (facts(schema="0"), [("schema-differs", "error")]),
        (facts(round_trip=0.2), [("database-slow", "warning")]),
        (facts(disk=Disk("/db", 2**20 - 1, False)), [("disk-full", "error")]),
        (facts(disk=Disk("/db", 2**40, True)), [("disk-full", "error")]),
        (facts(disk=Disk("/db", 2**20, False)), [("disk-low", "warning")]),
        (facts(processes=[process(seen_at="2025-12-31T23:59:00Z")]), [("server-process-silent", "error")]),
        (facts(processes=[process(), process("2")]), [("releases-differ", "warning")]),
        (facts(processes=[process(drivers_not_ready={"rack": "x"})] * 2), [("driver-not-ready", "error")]),
        (facts(processes=[process(drivers_not_ready={"a": "x", "b": "y"})]), [("driver-not-ready", "error")] * 2),
        (facts(processes=[process(drivers_not_ready="of another program")]), []),
        (facts(processes=[], agents=[agent("h1")]), [("feed-not-running", "error")]),
        (facts(agents=[agent("h1", problems={"x": "old"})], down_time=5.0), [("host-down", "error")]),
        (facts(agents=[agent("h1", dataplane="down: no socket")]), [("dataplane-down", "error")]),
        (facts(agents=[agent("h1", feed_behind=101)]), [("lag", "warning")]),
        (facts(agents=[agent("h1", respawned={"dnsmasq": "killed"})]), [("daemon-respawned", "warning")]),
        (facts(agents=[agent("h1", problems={"router r": "nft failed"})]), [("object-not-applied", "error")]),
        (facts(agents=[agent("h1", dataplane=f"down: {HELD}", problems={HELD: "x"})]), [("agent-held", "error")]),
        (facts(processes=[process(**REFUSED)]), [("feed-credential-refused", "error")]),
        (facts(processes=[process(**REFUSED)], agents=[agent("h1")]), [("feed-credential-refused", "warning")]),
        (
            facts(agents=[agent(host, tunneling_ip="192.0.2.1") for host in "ab"]),
            [("tunnel-address-duplicate", "error")],
        ),
        (
            facts(agents=[agent(f"h{n}", L3, ha_vrrp_advert_int=n) for n in (1, 2)]),
            [("vrrp-intervals-differ", "error")],
        ),
        (
            facts(
                agents=[
                    agent(h, L3, agent_mode="legacy", ha_conntrackd=g) for h, g in (("a", ""), ("b", "225.0.0.50:1"))
                ]
            ),
            [("conntrackd-differs", "warning")],
        ),
        (
            facts(agents=[agent(h, L3, agent_mode=m, ha_conntrackd=m) for h, m in (("a", "dvr"), ("b", "dvr_snat"))]),
            [],
        ),
        # A host's connection: gone at once, though its last report is young; but not while a feed process starts.
        (facts(processes=[feed("h1")], agents=[agent("h1")]), []),
        (facts(processes=[feed()], agents=[agent("h1"), agent("h1", DHCP)]), [("host-disconnected", "error")]),
        (facts(processes=[feed(), feed("h1")], agents=[agent("h1")]), []),
        (facts(processes=[process(hosts=[])], agents=[agent("h1")]), []),
        (facts(processes=[feed(), process()], agents=[agent("h1")]), []),  # a process of an older release does not say
        # What has stopped a host is one problem, however many agents it has.
        (facts(processes=[feed()], agents=silent("h1")), [("host-down", "error")]),
        (facts(processes=[feed("h1")], agents=[*silent("h1"), agent("h1", L3)]), [("host-down", "error")] * 2),
        (facts(processes=[feed(**REFUSED)], agents=[agent("h1")]), [("feed-credential-refused", "error")]),
        (facts(processes=[feed(**REFUSED)], agents=silent("h1")), [("feed-credential-refused", "error")]),
        (facts(processes=[feed("h1", **REFUSED)], agents=[agent("h1")]), [("feed-credential-refused", "warning")]),
        (
            facts(processes=[feed(refused_hosts={"h1": {"at": NOW, "address": "a", "reason": "no such role"}})]),
            [("host-refused", "error")],
        ),
        (
            facts(processes=[feed(unknown_login={"name": "h9", "at": NOW - n, "address": "a"}) for n in (1, 2)]),
            [("host-unknown", "warning")],
        ),
        (facts(agents=[agent("h1", links=DOWN)]), [("link-down", "error")]),
        (facts(agents=[agent("h1", problems={"foreign flows on br-int": "3"})]), [("foreign-rules", "error")]),
        (facts(agents=[agent("h1", problems={"BGP session 192.0.2.1": "x"})]), [("bgp-session-down", "error")]),
        (facts(agents=[agent("h1", problems={"SR-IOV card ens1": "x"})]), [("sriov-card", "error")]),
        (facts(agents=[agent("h1", problems={"SR-IOV port p1": "x"})]), [("sriov-port", "warning")]),
        (named(networks_of_disabled_agents=[NamedObject("n", "")]), [("network-agents-disabled", "error")]),
        (named(routers_of_disabled_agents=[ROUTER]), [("router-agents-disabled", "error")]),
        (named(ports_with_failed_binding=[PORT]), [("binding-failed", "error")]),
        (facts(ports=[("DOWN", BINDING_FAILED, 3)]), [("binding-failed", "error")]),
        (named(networks_without_dhcp=[NamedObject("n", "")]), [("network-without-dhcp", "error")]),
        (named(routers_not_scheduled=[ROUTER]), [("router-not-scheduled", "error")]),
        (named(ha_routers=[ROUTER]), [("router-not-active", "error")]),
        (named(ha_routers=[replace(ROUTER, active_instances=2)]), [("router-active-twice", "error")]),
        (named(routers_in_error=[ROUTER]), [("object-error", "error")]),
        (named(ports_not_wired=[PORT]), [("port-not-wired", "note")]),
        (named(ports_not_wired=[PORT] * NAMED), [("port-not-wired", "note")] * (NAMED + 1)),
    ],
)
def test_findings(given: Facts, expected: list[tuple[str, str]]) -> None:
    findings = find(given)
    assert [(finding.kind, finding.severity) for finding in findings] == expected
    assert not [finding for finding in findings if "{" in finding.fix]


def test_notes_are_no_problems() -> None:
    """Ports of instances that are stopped are not wired: the page shows them, and the service is well."""
    given = replace(named(ports_not_wired=[PORT]), agents=[agent("h1", feed_behind=101)])
    shown = document(given, find(given), Page(limit=1))
    assert (shown["verdict"], shown["problems_total"]) == ("ok", 1)
    assert [problem["kind"] for problem in shown["problems"]] == ["lag"]
    (note,) = shown["notes"]
    assert (note["resource_type"], note["resource_id"], note["host"]) == ("port", "p", "h1")
    assert note["what"] == "port web (p) (host h1): its host has not reported it as up"


def test_pages_have_each_host_once_whatever_the_collation_of_the_database() -> None:
    """A collation that ignores case sorts "a", "B", "c", and rows of "H1" and "h1" by their second column."""
    rows = [agent(host) for host in ("a", "B", "c", "D")]
    rows += [agent("h1", DHCP), agent("H1", DHCP), agent("h1"), agent("H1")]
    listed: list[str] = []
    marker = ""
    for _ in range(len(rows)):
        shown = document(facts(agents=rows), [], Page(limit=2, marker=marker))
        assert shown["hosts_total"] == 6
        listed += [host["name"] for host in shown["hosts"]]
        assert shown["hosts_left"] == 6 - len(listed)
        if not shown["hosts_left"]:
            break
        marker = listed[-1]
    assert listed == ["B", "D", "H1", "a", "c", "h1"]


def test_the_connection_of_a_host_has_three_states() -> None:
    """Connected, late (its last report is young, and the connection is gone), dead."""
    given = facts(processes=[feed("a")], agents=[agent("a"), agent("b"), *silent("c")])
    shown = document(given, find(given), Page(limit=10))
    assert {host["name"]: host["connection"] for host in shown["hosts"]} == {"a": "connected", "b": "late", "c": "dead"}
    assert "hosts" not in shown["feed"]["processes"][0]["details"]
    assert shown["feed"]["processes"][0]["details"] == {}
    unknown = replace(given, processes=[])
    assert document(unknown, [], Page(limit=10))["hosts"][0]["connection"] is None


def test_a_hostile_report_neither_hides_other_problems_nor_controls_the_terminal() -> None:
    flood = {f"{number:04}": "\x1b[2J\u202e" + "x" * 60_000 for number in range(1000)}
    given = facts(agents=[agent("evil", problems=flood, respawned=flood), agent("h1", dataplane="down: no socket")])
    findings = find(given)
    assert len(findings) == 2 * REPORTED + 1
    assert any(finding.kind == "dataplane-down" for finding in findings)
    assert all(len(finding.what) <= MAX_TEXT and finding.what.isprintable() for finding in findings)
