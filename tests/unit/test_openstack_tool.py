"""Pure parts of `make openstack`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.openstack.checks import CHECKS
from tests.openstack.checks.migration import INTERVAL, longest_gap
from tests.openstack.checks.remains import State
from tests.openstack.cloud import ini
from tests.openstack.hosts import management_address, render_hosts_file, render_management
from tests.openstack.results import FAILED, PASSED, Result, markdown, table, write
from tests.openstack.services import NETWORKING, SERVICES


@pytest.mark.parametrize(
    ("answered", "sent", "packets"),
    [([], 0, 0), ([1, 2, 3], 3, 0), ([1, 5], 5, 3), ([1], 4, 3), ([3, 2, 1, 3], 5, 2), ([], 4, 4)],
)
def test_the_longest_gap_is_the_longest_run_of_lost_packets(answered: list[int], sent: int, packets: int) -> None:
    assert longest_gap(answered, sent) == pytest.approx(packets * INTERVAL)


def test_what_has_come_and_gone() -> None:
    before = State(frozenset({"database: 1 rows in ports"}), frozenset({"h1: port tap1"}))
    after = State(frozenset({"database: 2 rows in ports"}), frozenset({"h1: port tap1"}))
    assert before.differences(before) == []
    assert before.differences(after) == ["+ database: 2 rows in ports", "- database: 1 rows in ports"]


def test_machines_have_addresses_of_their_own() -> None:
    names = ("h1", "h2", "external")
    assert len({management_address(name) for name in names}) == 3
    assert "192.0.2.12 h2\n" in render_hosts_file(("h1", "h2"))
    lines = render_management({"h1": 17})
    assert "link add mgmt-h1 type veth peer name mgmt netns 17" in lines


def test_a_configuration_file() -> None:
    assert ini({"DEFAULT": {"a": 1}, "b": {"c": "d"}}) == "[DEFAULT]\na = 1\n\n[b]\nc = d\n"


def test_results_are_written_with_versions(tmp_path: Path) -> None:
    results = [Result("boot", PASSED, 5.25, "ACTIVE 5.0 s"), Result("hybrid", FAILED, 1.0, "no ping\nsecond line")]
    assert table(results).splitlines()[-1] == "1 of 2 checks passed"
    text = markdown(results, {"nova": "34.0.0"})
    assert "| hybrid | FAILED | 1 s | no ping |" in text
    assert "nova 34.0.0" in text
    assert write(tmp_path, results, {}).read_text().startswith("With")
    assert (tmp_path / "results.json").exists()


def test_checks_can_be_named_in_a_shell_and_say_what_they_show() -> None:
    assert all(name.replace("-", "").isalpha() and check.__doc__ for name, check in CHECKS.items())
    assert set(NETWORKING) < set(SERVICES)
