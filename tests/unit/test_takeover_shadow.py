"""Shadow mode: when it looks, what ends a look, what is reported, and what the server makes of reports."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.agent.guard.decide import FOREIGN_FLOWS
from neutrino.agent.runtime.role import held
from neutrino.agent.takeover import shadow as module
from neutrino.agent.takeover.look import MAX_DIFFERENCES, Look, Pace
from neutrino.agent.takeover.shadow import (
    REPORTED,
    REPORTED_CHARACTERS,
    LookFailed,
    Shadow,
    compared_of,
    look_in_process,
)
from neutrino.agent.takeover.works import Works
from neutrino.model.agents import AgentState
from neutrino.model.takeover import Action, Compared, HostTakeover, WorkState
from neutrino.server.feed.reports.rules import MAX_TEXT
from neutrino.server.hosts.queries import NoAnswer, Reason
from neutrino.takeover.fleet.shadow import MAX_LINES, comparison_lines, read_differences

TEXT = "tap1 (port p), ingress: tcp 198.51.100.77:40000 → 10.0.0.5:443 passes now, and would be dropped"
LOOK = Look(ports=3, of_ports=5, packets=90, differences=(TEXT,), differing=1, changes=12)


class Offered:
    is_synced = True

    def dump(self) -> bytes:
        return b"objects"


class Host:
    """A shadow whose process is a Python program."""

    def __init__(self, program: str, interval: float = 0.01) -> None:
        self.problems = {FOREIGN_FLOWS: "flows of Neutron"}
        self.works = Works()
        self.began: list[int] = []
        self.offered = Offered()
        gate: Any = self

        def command(first: int) -> Sequence[str]:
            self.began.append(first)
            return [sys.executable, "-c", program]

        offered: Any = lambda: self.offered  # noqa: E731
        self.shadow = Shadow(gate, offered, self.works, command, lambda: interval)


def printing(look: Look) -> str:
    return f"import sys; sys.stdin.read(); print({msgspec.json.encode(look).decode()!r})"


def run(host: Host, test: Callable[[Host], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOT_READY_SECONDS", 0.01)

    async def main() -> None:
        running = asyncio.create_task(host.shadow.run())
        try:
            async with asyncio.timeout(60):
                await test(host)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_a_held_agent_looks_again_and_again_at_one_port_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(host: Host) -> None:
        await until(lambda: len(host.began) >= 3)
        assert host.began[:3] == [0, 3, 6], "a look that could not finish is followed by one that begins later"
        compared = host.shadow.held()
        assert compared is not None
        assert (compared.packets, compared.differences, compared.changes) == (90, (TEXT,), 12)
        work = host.works.last(Action.SHADOW)
        assert work is not None
        assert (work.state().status, work.state().lines) == (1, (TEXT,))
        assert {instrument.name: value for instrument, _, value in host.shadow.measures()}.items() >= {
            ("neutrino_agent_takeover_differences", 1),
            ("neutrino_agent_takeover_packets", 90),
        }
        host.problems = {}
        assert host.shadow.held() is None, "of a host that is converted nothing is reported"
        assert [*host.shadow.measures()] == []

    run(Host(printing(LOOK)), test, monkeypatch)


def test_a_look_is_killed_with_what_it_has_started_when_a_conversion_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And none begins while it runs."""
    program = (
        "import os, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(tmp_path / 'new')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}');"
        f"os.rename({str(tmp_path / 'new')!r}, {str(tmp_path / 'pids')!r}); time.sleep(600)"
    )

    async def test(host: Host) -> None:
        await until((tmp_path / "pids").exists)
        pids = (tmp_path / "pids").read_text().split()
        conversion = host.works.begin(Action.CONVERT)
        host.shadow.stop()
        await until(lambda: not any(is_running(pid) for pid in pids))
        await asyncio.sleep(0.1)
        assert len(host.began) == 1
        assert host.shadow.held() is None, "nothing was compared"
        conversion.end(module.Answer("refused", 1))
        await until(lambda: len(host.began) == 2)

    run(Host(program), test, monkeypatch)


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("of", "value"),
    [("problems", {"unknown_ports": "61"}), ("problems", {}), ("offered", None)],
    ids=["held for another reason", "converted", "the server has sent nothing"],
)
def test_when_it_does_not_look(monkeypatch: pytest.MonkeyPatch, of: str, value: object) -> None:
    async def test(host: Host) -> None:
        await asyncio.sleep(0.2)
        assert host.began == []

    host = Host(printing(LOOK))
    setattr(host, of, value)
    run(host, test, monkeypatch)


def test_an_interval_of_zero_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(host: Host) -> None:
        await asyncio.sleep(0.2)
        assert host.began == []

    monkeypatch.setattr(module, "FIRST_SECONDS", 0.01)
    run(Host(printing(LOOK), interval=0), test, monkeypatch)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print('{}x')", "its output cannot be read"),
        ("print('[1')", "its output cannot be read"),
        ("import sys; sys.exit('the switch \\x1b[2J is gone')", "the switch"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "exit status -24"),
        ("import time; time.sleep(600)", "has not ended after"),
    ],
)
def test_looks_that_fail(monkeypatch: pytest.MonkeyPatch, program: str, reason: str) -> None:
    monkeypatch.setattr(module, "KILL_SECONDS", 2.0)

    async def look() -> None:
        await look_in_process([sys.executable, "-c", program], b"{}")

    with pytest.raises(LookFailed, match=reason):
        asyncio.run(look())


def test_a_failed_look_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(host: Host) -> None:
        await until(lambda: host.shadow.compared is not None)
        compared = host.shadow.held()
        assert compared is not None
        assert "the switch" in compared.error
        assert compared.error.isprintable()
        assert [*host.shadow.measures()] == []
        assert "not compared: the switch" in "\n".join(comparison_lines({"h": compared}))

    run(Host("import sys; sys.exit('the switch \\x1b[2J is gone')"), test, monkeypatch)


def test_the_pace_leaves_the_switch_most_of_its_time() -> None:
    now, slept = [0.0], [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        slept[0] += seconds

    goes_on = Pace(100.0, lambda: now[0], sleep)
    traces = 0
    while goes_on():
        now[0] += 0.005  # a trace
        traces += 1
    assert 99 <= now[0] <= 101
    assert 0.15 <= traces * 0.005 / now[0] <= 0.21
    assert slept[0] > 75


def test_a_report_is_bounded() -> None:
    many = Look(differences=("x" * 2000,) * MAX_DIFFERENCES, differing=10**6)
    compared = compared_of(many, "2026-11-18T10:00:00Z")
    assert len(compared.differences) == REPORTED
    assert {len(text) for text in compared.differences} == {REPORTED_CHARACTERS}
    agent = AgentState("Open vSwitch agent", "neutrino-agent", "h1", "N/A", configurations={"dataplane": "up"})
    configurations = held(agent, {FOREIGN_FLOWS: "flows"}, compared).configurations
    assert len(json.dumps(configurations)) < MAX_TEXT / 4
    assert msgspec.convert(configurations["takeover"], Compared) == compared
    assert "takeover" not in held(agent, {FOREIGN_FLOWS: "flows"}).configurations


# --- the server -------------------------------------------------------------------------------------------------------


def test_what_hosts_have_compared_is_shown() -> None:
    compared = compared_of(LOOK, "2026-11-18T10:00:00Z")
    many = Compared(at="2026-11-18T10:00:00Z", ports=9, of_ports=9, differing=7, differences=(TEXT,) * 7, packets=99)
    text = [*comparison_lines({"h2": compared, "h1": None, "h3": many})]
    assert text == [
        "3 hosts have an agent that is held beside Neutron's, and compares:",
        "  h1: not compared yet",
        "  h2: 2026-11-18T10:00:00Z: 90 packets of 3 of 5 ports, 1 differs; a conversion would make 12 changes",
        f"    {TEXT}",
        "  h3: 2026-11-18T10:00:00Z: 99 packets of 9 ports, 7 differ; a conversion would make 0 changes",
        *[f"    {TEXT}"] * 3,
        "    and 4 more: --differences shows them",
    ]
    assert [*comparison_lines({"h3": many}, {"h3": [f"{n}" for n in range(7)]})][2:] == [f"    {n}" for n in range(7)]
    assert [*comparison_lines({})] == []
    bad = Compared(at="\x1b[2J", differing=1, differences=("tap\n\x1b[31m\u202e",))
    for line in comparison_lines({"h\x07": bad, "h": Compared(error="\x9b2J")}):
        assert line.isprintable()


class Asks:
    """Hosts that answer with so many lines, garbage, or nothing."""

    def __init__(self, hosts: dict[str, int | bytes | None]) -> None:
        self.hosts, self.asked = hosts, 0

    def ask_all(self, kind: str, questions: Any, seconds: float) -> dict[str, bytes | NoAnswer]:
        self.asked += 1
        assert self.asked < 100, "it never ends"
        return {host: self._answer(host, json.loads(text).get("after", 0)) for host, text in questions.items()}

    def _answer(self, host: str, after: int) -> bytes | NoAnswer:
        total = self.hosts[host]
        if total is None:
            return NoAnswer(host, Reason.TIMEOUT, "none")
        if isinstance(total, bytes):
            return total
        lines = tuple(f"\x1b{n}" for n in range(after, min(after + 200, total)))
        return msgspec.json.encode(HostTakeover(work=WorkState(id="x", lines=lines, total=total)))


def test_all_differences_are_asked_for_page_by_page() -> None:
    asks = Asks({"a": 450, "b": 0, "c": None, "d": b"[" * 2**20, "e": 10**9, "f": b"{}"})
    found = read_differences(asks, asks.hosts)
    assert found["a"] == [f" {n}" for n in range(450)]
    assert found.keys() == {"a", "b", "e"}
    assert len(found["e"]) == MAX_LINES
