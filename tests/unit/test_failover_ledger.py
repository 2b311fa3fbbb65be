"""The comparison of answered writes with the database, the figures of a fault, and the documented settings."""

from __future__ import annotations

import re

import pytest

from qa.faults.failover import galera, standby
from qa.faults.failover.ledger import Answer, Entry, Found, Outcome, figures, violations
from qa.faults.failover.proxy import PAGE, documented

DONE, REFUSED, UNKNOWN = Outcome.ACKNOWLEDGED, Outcome.REFUSED, Outcome.UNKNOWN


def answer(status: int, began: float, ended: float, error: str = "", target: str = "server1") -> Answer:
    return Answer(status, error, began, ended, target, "PUT ports")


def test_outcomes() -> None:
    assert answer(201, 0, 1).outcome is DONE
    assert answer(503, 0, 1, "DatabaseUnreachable").outcome is REFUSED
    assert answer(503, 0, 1, "DatabaseOutcomeUnknown").outcome is UNKNOWN
    assert answer(0, 0, 1).outcome is UNKNOWN
    assert answer(502, 0, 1).outcome is UNKNOWN


def test_a_correct_database_has_no_violations() -> None:
    renamed = Entry("port", "b", DONE, {"b"})
    renamed.renamed("b2", UNKNOWN)
    deleted = Entry("port", "c", DONE, {"c"})
    deleted.delete(DONE)
    entries = [Entry("port", "a", DONE, {"a"}), renamed, deleted, Entry("port", "d", UNKNOWN, {"d"})]
    assert violations(entries, [Found("port", "a", "a"), Found("port", "b", "b2")]) == []


def test_every_kind_of_violation_is_found() -> None:
    lost = Entry("port", "lost", DONE, {"x"})
    appeared = Entry("port", "appeared", REFUSED, {"x"})
    twice = Entry("port", "twice", UNKNOWN, {"x"})
    undeleted = Entry("port", "undeleted", DONE, {"x"})
    undeleted.delete(DONE)
    stale = Entry("port", "stale", DONE, {"x"})
    stale.renamed("y", DONE)
    stale.renamed("z", REFUSED)
    found = [Found("port", token, "x") for token in ("appeared", "twice", "twice", "undeleted", "stale")]
    wrong = violations([lost, appeared, twice, undeleted, stale], found)
    assert [text.split(":")[0].split()[1] for text in wrong] == ["lost", "appeared", "twice", "undeleted", "stale"]


def test_figures_of_a_fault() -> None:
    answers = [
        answer(200, 0.5, 1.0),
        answer(200, 1.0, 7.0),  # waits for the failover
        answer(200, 2.0, 2.5, target="server2"),
        answer(503, 2.5, 3.0, "DatabaseUnreachable", "server2"),
        answer(200, 3.0, 8.0, target="server2"),
        answer(500, 8.0, 8.5, "HTTPInternalServerError"),
    ]
    seen = figures(answers, 1.0, 9.0, ["server1", "server2"])
    assert seen.stall == 4.5
    assert seen.server_stall == 6.0
    assert seen.longest == 6.0
    assert seen.unavailable == 1
    assert seen.defects == {"500 HTTPInternalServerError PUT ports": 1}


@pytest.mark.parametrize("settings", [galera.SETTINGS, standby.SETTINGS], ids=["galera", "postgresql"])
def test_the_documented_settings_are_those_that_are_run(settings: dict[str, str]) -> None:
    blocks = "\n".join(re.findall(r"^```ini\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    documented_settings = dict(re.findall(r"^(\w+) = (.*)$", blocks, re.MULTILINE))
    assert {name: documented_settings.get(name) for name in settings} == settings


def test_the_configuration_of_haproxy_is_on_the_page() -> None:
    assert "on-marked-down shutdown-sessions" in documented("haproxy")
    assert documented("sh").startswith("#!/bin/sh")
