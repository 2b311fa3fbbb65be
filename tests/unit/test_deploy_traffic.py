"""Pings of `make deploy-test`: what counts as lost."""

from __future__ import annotations

from collections.abc import Iterable

from qa.deploy.traffic import ON_THE_WAY, PingCount, counted


def _output(answered: Iterable[int], sent: int | None) -> str:
    lines = [f"64 bytes from 10.0.0.1: icmp_seq={number} ttl=64 time=0.1 ms" for number in answered]
    summary = "" if sent is None else f"\n{sent} packets transmitted, {len(lines)} received, 0% packet loss, time 9ms"
    return "PING 10.0.0.1\n" + "\n".join(lines) + "\n\n--- 10.0.0.1 ping statistics ---" + summary


def test_answers_that_may_be_on_their_way_are_not_lost() -> None:
    assert counted(_output(range(1, 101), 100 + ON_THE_WAY)) == PingCount(100, 0, 0.0)


def test_a_gap_is_lost() -> None:
    assert counted(_output([*range(1, 51), *range(61, 101)], 100)) == PingCount(100, 10, 0.2)


def test_a_path_that_ends_to_answer_has_lost_the_rest() -> None:
    count = counted(_output(range(1, 51), 100))
    assert (count.sent, count.lost, count.longest) == (100, 50, 1.0)


def test_of_a_machine_that_was_killed_the_last_answer_is_the_end() -> None:
    assert counted(_output(range(1, 51), None)) == PingCount(50, 0, 0.0)


def test_a_path_without_an_answer_has_no_count() -> None:
    assert counted(_output([], 50)) == PingCount(0, 0, 0.0)


def test_a_gap_has_the_time_of_its_end() -> None:
    text = _output([*range(1, 51), *range(61, 101)], 100)
    stamped = "\n".join(
        f"[1700000000.{line.split('=')[1][:3].strip():0>3}] {line}" if "seq=" in line else line
        for line in text.splitlines()
    )
    count = counted(stamped)
    assert (count.lost, count.longest, count.ended) == (10, 0.2, 1700000000.061)
