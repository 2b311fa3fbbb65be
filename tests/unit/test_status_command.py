"""neutrino status: the text of a document, the live screen in a small terminal, and exit statuses."""

from __future__ import annotations

import argparse
import io
import json
import os
import pty
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neutrino.cli import cloud
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.status import command, screen, text
from neutrino.cli.tables import duration, printable, table


def agent(**more: Any) -> dict[str, Any]:
    return {
        "id": "a",
        "agent_type": "Open vSwitch agent",
        "role": "l2",
        "alive": True,
        "admin_state_up": True,
        "heartbeat_seconds_ago": 3,
        "dataplane": "up",
        "dataplane_reason": "",
        "feed_behind": 0,
        "last_repair": None,
        "problems": {},
        "tunneling_ip": "192.0.2.1",
        **more,
    }


def host(name: str, problems: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {"name": name, "alive": True, "connection": "connected", "agents": [agent(**more)]} | {
        "problems": list(problems)
    }


def document(**more: Any) -> dict[str, Any]:
    process = {"host": "server-1", "kind": "feed", "pid": 7, "release": "1.0", "started_at": "2026-01-01T00:00:00Z"}
    process |= {"seen_seconds_ago": 4, "alive": True}
    counted = {"total": 2, "by_status": {"ACTIVE": 1, "DOWN": 1}}
    return {
        "verdict": "ok",
        "problems": [],
        "problems_total": 0,
        "release": "1.0",
        "servers": [{"name": "server-1", "processes": [process]}],
        "feed": {"processes": [process], "connected_hosts": 2},
        "database": {"dialect": "sqlite", "server_version": "3.40", "round_trip_ms": 0.1, "schema_version": "0100"},
        "change_log": {"position": 9, "removed": 2, "kept": 7, "pending": 0},
        "hosts": [host("h1")],
        "hosts_total": 1,
        "hosts_alive": 1,
        "hosts_left": 0,
        "ports": {**counted, "by_binding": {"bound": 1, "unbound": 1, "failed": 0}},
        "networks": counted,
        "subnets": {"total": 1},
        "floatingips": {"total": 0, "by_status": {}},
        "routers": {
            **counted,
            "ha": 1,
            "distributed": 0,
            "ha_states": {"one_active": 1, "none_active": 0, "several_active": 0},
        },
        **more,
    }


PROBLEM = {"severity": "error", "what": "agent on h2: no report", "meaning": "It is lost.", "fix": "Start it."}


# --- text -------------------------------------------------------------------------------------------------------------


def test_a_healthy_service() -> None:
    lines = text.render(document())
    assert lines[0] == "OK: no problems; 1 of 1 hosts alive; neutrino 1.0"
    assert "h1    l2     yes    connected  up         0       3 s ago      -            -" in lines
    assert "Ports: 2 (1 ACTIVE, 1 DOWN); 1 bound, 0 failed, 1 unbound" in lines
    assert "Change log: position 9, 7 rows kept, 0 without position" in lines
    assert any(line.startswith("Routers: 2") and "1 with one active instance" in line for line in lines)


def test_problems_come_first_with_meaning_and_fix() -> None:
    lines = text.render(document(verdict="degraded", problems=[PROBLEM], problems_total=1))
    assert lines[0].startswith("DEGRADED: 1 problem;")
    assert lines[2:5] == ["ERROR agent on h2: no report", "  It is lost.", "  Fix: Start it."]
    many = text.render(document(problems=[PROBLEM] * 30, problems_total=900))
    assert "… 880 more problems: neutrino status --json" in many


def test_hosts_with_problems_come_first_and_many_are_left_out() -> None:
    hosts = [host(f"h{number:03}") for number in range(200)] + [host("z", ("dataplane down",), dataplane="down")]
    lines = text.render(document(hosts=hosts, hosts_total=900, hosts_left=699))
    rows = [line for line in lines if line.startswith(("h0", "h1", "z"))]
    assert rows[0].startswith("z ")
    assert "down" in rows[0]
    assert len(rows) == 1 + text.MAX_HOSTS
    assert "… 849 more hosts (--all, --host NAME)" in lines
    assert sum(line.startswith("h") for line in text.render(document(hosts=hosts), every_host=True)) == 200


def test_names_cannot_write_to_the_terminal() -> None:
    lines = text.render(document(hosts=[host("h\x1b[2J1")]))
    assert not [line for line in lines if "\x1b" in line]
    assert printable("a\nb\x07") == "a b "


@pytest.mark.parametrize(
    "seconds,expected", [(3, "3 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_a_table() -> None:
    assert table(("A", "LONG"), [("one", "x")]) == ["A    LONG", "one  x"]


# --- the screen -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width,height", [(80, 24), (20, 5), (10, 1), (1, 1), (200, 60)])
def test_a_frame_fits_the_terminal(width: int, height: int) -> None:
    shown = screen.frame([f"line {number} " * 10 for number in range(30)], width, height)
    rows = shown.removeprefix("\x1b[H").removesuffix("\x1b[J").split("\r\n")
    assert len(rows) <= height
    assert all(len(row.removesuffix("\x1b[K")) <= width for row in rows)


def watched(read: Callable[[], dict[str, Any]], keys: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit status and the output of the screen on a terminal of its own, where `keys` are pressed."""
    ours, theirs = pty.openpty()
    output = os.dup(theirs)
    with open(theirs, closefd=True) as stdin, open(output, "w", closefd=True) as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((60, 12)))
        shown = bytearray()

        def type_keys() -> None:
            while b"verdict" not in shown and b"cannot read" not in shown:
                shown.extend(os.read(ours, 4096))
            os.write(ours, keys.encode())

        typing = threading.Thread(target=type_keys, daemon=True)
        typing.start()
        try:
            status = screen.watch(read, lambda found, width: [f"verdict {found['verdict']}"], interval=0.05)
        finally:
            monkeypatch.undo()
        typing.join(30)
    os.close(ours)
    return status, shown.decode(errors="replace")


def test_q_ends_the_live_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    status, shown = watched(lambda: {"verdict": "degraded"}, "q", monkeypatch)
    assert status == 1
    assert shown.startswith("\x1b[?1049h")
    assert "verdict degraded" in shown


def test_a_server_that_is_lost_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> dict[str, Any]:
        raise CommandError("no connection")

    status, shown = watched(read, "xq", monkeypatch)
    assert status == 3
    assert "cannot read the state: no connection" in shown


def test_the_last_state_stays_when_the_server_is_lost() -> None:
    answers: Iterator[dict[str, Any]] = iter([{"verdict": "ok"}])

    def read() -> dict[str, Any]:
        try:
            return next(answers)
        except StopIteration:
            raise CommandError("gone") from None

    source = screen.Source(read, 0.001)
    thread = threading.Thread(target=source.run)
    thread.start()
    deadline = time.monotonic() + 5
    while not source.error and time.monotonic() < deadline:
        time.sleep(0.002)
    source.stop.set()
    thread.join(30)
    lines = screen._lines(source, lambda found, width: [f"verdict {found['verdict']}"], 80)
    assert re.match(r"NO RESPONSE for \d+ s, the last state is shown: gone", lines[1])
    assert lines[2] == "verdict ok"


# --- the command ------------------------------------------------------------------------------------------------------


class Api:
    url = "http://127.0.0.1:9696"

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: list[dict[str, object]] = []

    def get(self, path: str, **query: object) -> dict[str, Any]:
        self.asked.append(query)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"status": self.answer}


def run(answer: dict[str, Any] | Exception, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[int, str]:
    monkeypatch.setattr(cloud, "connect", lambda args: Api(answer))
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    arguments = {"json": False, "watch": False, "all": False, "host": None, **options}
    return command.status(argparse.Namespace(**arguments)), out.getvalue()


def test_exit_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(document(), monkeypatch)[0] == 0
    assert run(document(verdict="degraded"), monkeypatch)[0] == 1
    for error in (CommandError("no connection"), cloud.ApiError(403, "forbidden"), cloud.ApiError(503, "no database")):
        with pytest.raises(CommandError) as raised:
            run(error, monkeypatch)
        assert raised.value.exit_status == 3
    with pytest.raises(CommandError) as raised:
        run(document(hosts=[]), monkeypatch, host="nowhere")
    assert raised.value.exit_status == INVALID
    with pytest.raises(CommandError, match="not the status of a neutrino server"):
        run({"verdict": "ok"}, monkeypatch)


@pytest.mark.parametrize(("code", "remedy"), [(401, "--os-cloud NAME"), (403, "administrators"), (500, "")])
def test_without_credentials_url_and_remedy_are_named(code: int, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError) as raised:
        run(cloud.ApiError(code, f"no (HTTP {code})"), monkeypatch)
    text = str(raised.value)
    assert text.startswith(f"no (HTTP {code})")
    assert (Api.url in text) == bool(remedy)
    assert remedy in text


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    status, out = run(document(), monkeypatch, json=True)
    assert (status, json.loads(out)["verdict"]) == (0, "ok")
