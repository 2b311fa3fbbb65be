"""The recorded exchanges, replayed against a live server: differences are exactly the documented ones."""

from __future__ import annotations

import pytest

from tests.conformance.recording.exchange import read_recording
from tests.conformance.recording.replay import Outcome, Report, read_accepted, replay
from tests.conformance.server import RecordedServer

# Addresses are random. In about one of thirty runs another port is allocated an address that this exchange uses.
BY_CHANCE = {284}
TRIES = 4


def is_chance(outcome: Outcome) -> bool:
    """Whether the result may differ between runs, also if a requested address was allocated to another port."""
    taken = outcome.status == 409 and outcome.exchange.status < 300
    return taken or outcome.exchange.number in BY_CHANCE


@pytest.fixture(scope="module")
def report() -> Report:
    for _ in range(TRIES):
        with RecordedServer() as server:
            judged = replay(server.url)
        if not any(map(is_chance, judged.differing)):
            break
    return judged


def test_every_difference_is_accepted(report: Report) -> None:
    assert "\n".join(map(str, report.unexplained(read_accepted()))) == ""


def test_every_accepted_difference_is_there(report: Report) -> None:
    assert report.outdated(read_accepted()) == ()


def test_all_of_it_is_judged(report: Report) -> None:
    assert len(report.outcomes) == len(read_recording())
