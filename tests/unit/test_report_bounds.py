"""Long error texts in reports: shortened on the host, and left out by the server, which keeps the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from neutrino.agent.runtime.role import MAX_PROBLEMS, described
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.messages import ErrorMessage, HostReport, PortDown, Report, Status, read_from_host
from neutrino.model.agents import DATAPLANE, DHCP, MAX_REASON, OVS, PROBLEMS, AgentState
from neutrino.model.roles import ROLES
from neutrino.server.features import sources
from neutrino.server.feed.reports.rules import MAX_TEXT, refusal, without_oversized

LONG = "what a program printed\n" * 10_000
SWITCH = AgentState(OVS, "neutrino-agent", "h1", "N/A", configurations={"tunneling_ip": "192.0.2.1"})
ID = "0" * 36


@pytest.mark.parametrize("text", [LONG, "\x00" * 100_000, "\U0001f525" * 100_000], ids=["ascii", "escaped", "wide"])
def test_what_an_agent_describes_fits_into_a_report(text: str) -> None:
    problems = {f"{number} {text}": text for number in range(2 * MAX_PROBLEMS)}
    state = described(SWITCH, {DATAPLANE: f"down: {text}", "devices": 3}, problems)
    assert state.configurations["devices"] == 3
    assert state.configurations[DATAPLANE].startswith("down: ")
    report = Report(states=(state,))
    if text is LONG:
        assert without_oversized(report) == (report, "")
    assert refusal(without_oversized(report)[0], "h1", ROLES, sources().statuses) == ""


@pytest.mark.parametrize(
    "report",
    [
        lambda client: client.error("port", "p", LONG),
        lambda client: client.port_down("p", LONG),
        lambda client: client.status("trunk", "t", "ERROR", reason=LONG),
        lambda client: client.answer("q", 10.0, error=LONG),
    ],
)
def test_texts_of_reports_are_shortened(report: Callable[[FeedClient], None]) -> None:
    client = FeedClient(ClientOptions(Address(path="/nowhere"), "h1", ""))
    report(client)
    frame = client._reports.take()
    assert frame is not None
    (sent,) = read_from_host(frame)
    text = next(value for name in ("text", "reason", "error") if (value := getattr(sent, name, "")))
    assert len(text) == MAX_REASON
    assert text.endswith("…")


def test_a_heartbeat_is_kept_without_its_oversized_part() -> None:
    other = AgentState(DHCP, "neutrino-agent", "h1", "dhcp_agent", configurations={"networks": 2})
    sent = Report(states=(other, replace(SWITCH, configurations={**SWITCH.configurations, PROBLEMS: {"p1": LONG}})))
    kept, left_out = without_oversized(sent)
    assert kept == Report(states=(other, SWITCH))
    assert OVS in left_out
    assert PROBLEMS in left_out
    assert refusal(kept, "h1", ROLES, sources().statuses) == ""


def test_large_resource_versions_are_left_out() -> None:
    kept, left_out = without_oversized(Report(states=(replace(SWITCH, resource_versions={"Port": "1" * MAX_TEXT}),)))
    assert kept == Report(states=(SWITCH,))
    assert "resource_versions" in left_out


def test_many_keys_that_are_too_large_together() -> None:
    many = {f"k{number}": "x" * 5000 for number in range(100)}
    kept, left_out = without_oversized(Report(states=(replace(SWITCH, configurations=many),)))
    assert isinstance(kept, Report)
    assert 0 < len(kept.states[0].configurations) < len(many)
    assert len(msgspec.json.encode(kept.states[0].configurations)) <= MAX_TEXT
    assert left_out


@pytest.mark.parametrize(
    "message",
    [
        PortDown(port_id=ID, reason=LONG),
        Status(kind="trunk", id=ID, status="ERROR", reason=LONG),
        ErrorMessage(text=LONG, kind="port", id=ID),
    ],
    ids=lambda message: type(message).__name__,
)
def test_other_reports_of_earlier_releases_are_shortened(message: HostReport) -> None:
    assert refusal(message, "h1", ROLES, sources().statuses)
    assert refusal(without_oversized(message)[0], "h1", ROLES, sources().statuses) == ""
