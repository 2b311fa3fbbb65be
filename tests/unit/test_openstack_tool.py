"""Pure parts of `make openstack`."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest

from qa.openstack.checks import CHECKS
from qa.openstack.checks.expect import CheckError, slowness
from qa.openstack.checks.migration import Answer, Arrival, Gap, activation, arrival, longest_gap, shares
from qa.openstack.checks.remains import State
from qa.openstack.cloud import ini
from qa.openstack.guest import unpacked_kernel
from qa.openstack.hosts import management_address, render_hosts_file, render_management
from qa.openstack.results import FAILED, PASSED, Result, markdown, table, write
from qa.openstack.services import NETWORKING, SERVICES


def test_the_longest_gap_is_between_answers_that_follow_each_other() -> None:
    assert longest_gap({}).seconds == 0
    assert longest_gap({n: Answer(10.0 + n / 20, 0.01) for n in range(3)}).seconds == pytest.approx(0.05)
    found = longest_gap({1: Answer(10.0, 0.1), 9: Answer(12.5, 0.6), 2: Answer(10.1, 0.1), 10: Answer(12.6, 0.1)})
    assert (found.begin, found.end, found.lost) == (10.1, 12.5, pytest.approx(1.9))


@pytest.mark.parametrize(("pause", "own"), [(0.5, 1.5), (2.0, 0.0), (2.5, 0.0)])
def test_what_of_a_gap_is_not_qemus_pause_is_our_own(pause: float, own: float) -> None:
    found = shares(Gap(10.0, 12.0, 2.0), pause, Arrival(11.5, 11.75), 13.0)
    assert (found.gap, found.qemu, found.neutrino) == (2.0, pause, pytest.approx(own))
    assert found.request == pytest.approx(3.0 - pause)
    assert (found.arrived, found.applied) == (1.5, 0.25)


def test_the_time_of_an_activation_is_read_from_the_servers_log() -> None:
    line = (
        "2026-11-16 17:05:30.250 32549 INFO neutrino.server.requests [-] 192.0.2.11 "
        '"PUT /v2.0/ports/p1/bindings/h2/activate HTTP/1.1" status: {} len: 291 time: 0.2500000'
    )
    log = "\n".join([line.format(200), line.format(409), "another line"])
    assert activation(log, "p1", "h2") % 60 == pytest.approx(30.0)
    with pytest.raises(CheckError):
        activation(log, "p1", "h1")


def test_the_time_of_an_arrival_is_read_from_the_agents_log() -> None:
    agent = "2026-11-16 17:05:{} 2716 INFO neutrino.agent.l2.role [-] "
    flows = "1 ports wired (0 added, 0 updated, 0 removed); on ancillary bridges 0 ports wired (0 added, 0 updated, "
    text = "the instance of port {} has arrived by live migration"
    lines = [
        agent.format("10.000") + text.format("p1"),
        agent.format("10.500") + f"{flows}0 removed); 4 changes in 0.040 s",
        agent.format("20.000") + text.format("p1"),
        agent.format("20.100") + text.format("p2"),
        agent.format("20.250") + f"{flows}0 removed); 4 changes in 0.040 s",
        agent.format("25.000") + f"{flows}0 removed); 1 changes in 0.040 s",
        agent.format("30.000") + text.format("p3"),
    ]
    found = arrival("\n".join(lines), "p1")
    assert (found.seen % 60, found.applied % 60) == (pytest.approx(20.0), pytest.approx(20.25))
    for port in ("p3", "p4"):
        with pytest.raises(CheckError):
            arrival("\n".join(lines), port)


def test_a_kernel_of_x86_is_unpacked_and_others_are_left() -> None:
    kernel = b"\x7fELF" + bytes(5000)
    packed = lzma.compress(kernel, check=lzma.CHECK_CRC32) + struct.pack("<I", len(kernel))
    head = bytearray(1024)
    head[0x1F1], head[0x202:0x206] = 1, b"HdrS"
    struct.pack_into("<II", head, 0x248, 16, len(packed))
    assert unpacked_kernel(bytes(head) + bytes(16) + packed) == kernel
    other = bytes(head) + bytes(16) + b"something else"
    assert unpacked_kernel(other) == other
    arm = bytes(2048)
    assert unpacked_kernel(arm) == arm


@pytest.mark.parametrize(("load", "factor"), [(0.1, 1), (2.0, 1), (5.0, 2.5), (100.0, 5)])
def test_a_busy_machine_gets_more_time(load: float, factor: float) -> None:
    assert slowness(load, 2) == factor


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
