"""The logs of daemons, which may run for years: bounded, and never by way of a link that a daemon's user could make."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from neutrino.agent.runtime.supervisor import Service, Supervisor
from neutrino.daemon_files import KEPT_LOG, MAX_LOG, bound_log
from neutrino.dataplane.process.api import Daemon
from tests.fakes.process import FakeProcesses


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_the_last_lines_stay_and_the_daemon_appends_to_them(log: Path) -> None:
    line = b"x" * 99 + b"\n"
    with open(log, "ab", buffering=0) as daemon:
        daemon.write(line * (MAX_LOG // 100 + 1) + b"the last\n")
        bound_log(str(log))
        text = log.read_bytes()
        assert text.startswith(line), "whole lines"
        assert text.endswith(b"the last\n")
        assert KEPT_LOG - 100 < len(text) <= KEPT_LOG
        daemon.write(b"one more\n")
        assert log.read_bytes() == text + b"one more\n"
        bound_log(str(log))
        assert log.read_bytes() == text + b"one more\n", "a short one stays as it is"


def test_a_link_is_not_followed(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"x" * (MAX_LOG + 1))
    os.symlink(other, log)
    bound_log(str(log))
    assert other.stat().st_size == MAX_LOG + 1
    log.unlink()
    bound_log(str(log))
    assert not log.exists()


def test_the_logs_of_all_daemons_of_a_supervisor_are_bounded(tmp_path: Path) -> None:
    logs = {name: tmp_path / f"{name}.log" for name in ("dnsmasq", "radvd", "keepalived")}

    async def test() -> None:
        supervisor = Supervisor(FakeProcesses(), log_interval=0.001)
        for name, path in logs.items():
            path.write_bytes(b"x\n" * MAX_LOG)
            await supervisor.ensure(Service(Daemon(name, (name,), log_file=str(path))))
        await supervisor.ensure(Service(Daemon("silent", ("silent",))))
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            while any(path.stat().st_size > MAX_LOG for path in logs.values()):
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(test())
