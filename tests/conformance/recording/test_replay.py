"""The replay itself: it must let a faithful server pass and notice one that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.recording.compare import judge
from tests.conformance.recording.echo import echo_server
from tests.conformance.recording.exchange import Exchange, Names, Step, read_recording
from tests.conformance.recording.replay import main, read_accepted, replay

EXCHANGES = read_recording()
BY_NUMBER = {exchange.number: exchange for exchange in EXCHANGES}


def exchange_of(body: Any, status: int = 200, loose: tuple[str, ...] = ()) -> Exchange:
    return Exchange(1, Step("part", "admin", "GET", "/v2.0/things", loose=loose), status, body)


def without_first_field(exchange: Exchange, status: int, body: Any) -> tuple[int, Any]:
    """A server that forgets one field in exchange 1 and refuses exchange 4 with another status."""
    if exchange.number == 1:
        del body["versions"][0]["status"]
    return (400, body) if exchange.number == 4 else (status, body)


def test_a_server_that_answers_as_recorded_is_alike() -> None:
    with echo_server(EXCHANGES) as url:
        report = replay(url)
    assert [str(outcome) for outcome in report.differing] == []
    assert len(report.outcomes) == len(EXCHANGES)


def test_differences_are_found_and_can_be_accepted() -> None:
    with echo_server(EXCHANGES, without_first_field) as url:
        report = replay(url)
    assert [outcome.exchange.number for outcome in report.differing] == [1, 4]
    assert [outcome.exchange.number for outcome in report.unexplained({1: "meant"})] == [4]
    assert report.outdated({1: "meant", 4: "meant", 5: "was meant"}) == (5,)


def test_only_chosen_parts_are_judged_while_the_earlier_ones_are_asked() -> None:
    with echo_server(EXCHANGES, without_first_field) as url:
        report = replay(url, parts=["networks"])
    assert report.alike
    assert set(report.tally()) == {"networks"}


def test_a_part_can_be_asked_alone() -> None:
    networks = [exchange for exchange in EXCHANGES if exchange.step.part == "networks"]
    with echo_server(networks) as url:
        assert replay(url, EXCHANGES, ["networks"], alone=True).alike


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no such part: nonsense"):
        replay("http://127.0.0.1:1", parts=["nonsense"])


@pytest.mark.parametrize(
    ("accepted", "status"), [({"1": "a", "4": "b"}, 0), ({"1": "a"}, 1), ({"1": "a", "4": "b", "5": "c"}, 1)]
)
def test_the_exit_status_says_whether_all_is_explained(accepted: dict[str, str], status: int, tmp_path: Path) -> None:
    file = tmp_path / "accepted.json"
    file.write_text(json.dumps(accepted))
    with echo_server(EXCHANGES, without_first_field) as url:
        assert main(["--url", url, "--accepted", str(file), "--show", "0"]) == status


def test_an_accepted_difference_needs_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "accepted.json"
    file.write_text('{"7": " "}')
    with pytest.raises(ValueError, match="without a reason"):
        read_accepted(file)


def test_the_accepted_differences_are_of_recorded_exchanges() -> None:
    assert read_accepted().keys() <= BY_NUMBER.keys()


@pytest.mark.parametrize(
    ("want", "got", "alike"),
    [
        ({"a": 1}, {"a": 1, "more": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": None}, {}, False),
        ({"id": "x"}, {"id": "y"}, True),
        ({"id": "x"}, {"id": None}, False),
        ({"list": [{"n": 1}, {"n": 2}]}, {"list": [{"n": 2}, {"n": 1}]}, True),
        ({"list": [1]}, {"list": [1, 1]}, False),
        ({"ips": [{"ip": "a"}]}, {"ips": [{"ip": "b"}]}, True),
        ({"ips": [{"ip": "a"}]}, {"ips": [{"ip": None}]}, False),
        (None, {"a": 1}, False),
    ],
)
def test_successes_are_compared_field_by_field(want: Any, got: Any, alike: bool) -> None:
    assert (judge(exchange_of(want, loose=("ips.*.ip",)), 200, got) == []) is alike


@pytest.mark.parametrize(
    ("recorded", "status", "error", "alike"),
    [
        (404, 404, {"type": "T", "message": "m"}, True),
        (404, 404, {"type": "T", "message": ""}, False),
        (404, 404, {"type": "U", "message": "m"}, False),
        (404, 409, {"type": "T", "message": "m"}, False),
        (500, 400, {"type": "T", "message": "m"}, True),
        (500, 500, {"type": "T", "message": "m"}, False),
    ],
)
def test_errors_are_compared_by_status_and_type(recorded: int, status: int, error: dict[str, str], alike: bool) -> None:
    exchange = exchange_of({"NeutronError": {"type": "T"}}, recorded)
    assert (judge(exchange, status, {"NeutronError": error}) == []) is alike


def test_names_are_filled_in_and_found_again() -> None:
    names = Names({"project_a": "aa" * 16})
    step = Step("part", "alice", "POST", "/v2.0/networks", save={"n1": "network.id", "gone": "network.none"})
    network = "0b55e1ab-0000-4000-8000-000000000001"
    names.learn(step, {"network": {"id": network}})
    assert names.fill("/v2.0/networks/{n1}?x={gone}") == f"/v2.0/networks/{network}?x={{gone}}"
    assert names.masked({"id": network, "p": "aa" * 16, "t": "2026-01-02T03:04:05Z", "standard_attr_id": 4}) == {
        "id": "{n1}",
        "p": "{project_a}",
        "t": "<time>",
    }
