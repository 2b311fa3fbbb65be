"""The supervisor of daemons: respawn, back-off, reload; with daemons in memory and delays of milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from neutrino.agent.runtime.supervisor import Action, DaemonExited, Delays, ProcessEvent, Service, Supervisor
from neutrino.dataplane.process.api import Daemon, ExitCode, Process, ProcessError
from tests.fakes.process import FakeProcesses

DNSMASQ = Daemon("dnsmasq net", ("dnsmasq", "-k"))
SOON = Delays(first=0.01, longest=0.04, steady=1000)


class Host:
    """Daemons in memory, their supervisor and its notifications."""

    def __init__(self, **options) -> None:
        self.processes = FakeProcesses()
        self.events: list[ProcessEvent] = []
        self.supervisor = Supervisor(self.processes, **{"delays": SOON, "notify": self.events.append, **options})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.supervisor.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def ensure(self, daemon: Daemon) -> Process:
        _, process = await self.supervisor.ensure(Service(daemon))
        return process

    async def notified(self, *expected: str) -> None:
        async with asyncio.timeout(30):
            while [event.what for event in self.events] != list(expected):
                assert len(self.events) <= len(expected), self.events
                await asyncio.sleep(0.001)


def test_a_daemon_is_started_and_respawned():
    async def run() -> None:
        host = Host()
        async with host.running():
            first = await host.ensure(DNSMASQ)
            assert host.supervisor.running(DNSMASQ.name) == first
            host.processes.end(DNSMASQ.name, 2)
            await host.notified("exited", "started")
            assert host.events[0] == ProcessEvent(DNSMASQ.name, "exited", "exited with status 2")
            second = host.processes.find(DNSMASQ.name)
            assert second not in (None, first)
            assert host.supervisor.running(DNSMASQ.name) == second
            host.processes.end(DNSMASQ.name)
            await host.notified("exited", "started", "exited", "started")

    asyncio.run(run())


def test_a_respawned_daemon_is_reported_for_an_hour():
    async def run() -> None:
        now = [1_700_000_000.0]
        host = Host(clock=lambda: now[0])
        async with host.running():
            await host.ensure(DNSMASQ)
            assert host.supervisor.described() == {}
            host.processes.end(DNSMASQ.name, -11)
            await host.notified("exited", "started")
            once = "respawned once, last at 2023-11-14T22:13:20Z: killed by SIGSEGV"
            assert host.supervisor.described() == {"respawned": {DNSMASQ.name: once}}
            now[0] += 3599
            host.processes.end(DNSMASQ.name, 2)
            await host.notified("exited", "started", "exited", "started")
            twice = "respawned 2 times, last at 2023-11-14T23:13:19Z: exited with status 2"
            assert host.supervisor.described() == {"respawned": {DNSMASQ.name: twice}}
            now[0] += 3600
            assert host.supervisor.described() == {}
            host.processes.end(DNSMASQ.name, 2)
            await host.notified(*("exited", "started") * 3)
            assert "respawned once" in str(host.supervisor.described())

    asyncio.run(run())


def test_a_running_daemon_is_adopted():
    """As after the agent's restart."""

    async def run() -> None:
        host = Host()
        there = host.processes.start(DNSMASQ)
        async with host.running():
            assert await host.ensure(DNSMASQ) == there
            assert await host.ensure(DNSMASQ) == there
            assert len(host.processes.started) == 1
            host.processes.end(DNSMASQ.name)
            await host.notified("exited", "started")

    asyncio.run(run())


def test_a_daemon_with_another_digest_is_restarted():
    async def run() -> None:
        host = Host()
        async with host.running():
            first = await host.ensure(DNSMASQ)
            other = Daemon(DNSMASQ.name, ("dnsmasq", "-k", "--log-dhcp"))
            second = await host.ensure(other)
            assert (first.digest, second.digest) == (DNSMASQ.digest(), other.digest())
            assert host.processes.signals == [(DNSMASQ.name, signal.SIGTERM)]
            await host.supervisor.stop(other.name)
            third = await host.ensure(other)
            assert third != second
            await asyncio.sleep(0.02)
            assert host.events == []  # an exit that we cause is no event
            assert host.processes.running() == {DNSMASQ.name: third}

    asyncio.run(run())


def test_a_stopped_daemon_stays_stopped():
    async def run() -> None:
        host = Host()
        async with host.running():
            await host.ensure(DNSMASQ)
            await host.supervisor.stop(DNSMASQ.name)
            await host.supervisor.stop(DNSMASQ.name)
            await asyncio.sleep(0.02)
            assert (host.events, host.processes.running()) == ([], {})
            host.processes.start(DNSMASQ)  # of an agent before us
            await host.supervisor.stop(DNSMASQ.name)
            assert host.processes.running() == {}

    asyncio.run(run())


def test_respawns_back_off():
    delays = Delays(first=0.5, longest=60, steady=60)
    assert [delays.after(failures) for failures in range(5)] == [0, 0.5, 1, 2, 4]
    assert delays.after(100) == 60

    async def run() -> None:
        host = Host()
        async with host.running():
            await host.ensure(DNSMASQ)
            started = asyncio.get_running_loop().time()
            for number in range(1, 5):
                host.processes.end(DNSMASQ.name)
                await host.notified(*["exited", "started"] * number)
            assert asyncio.get_running_loop().time() - started >= 0.07  # 0, then 10, 20 and 40 ms

    asyncio.run(run())


def test_a_long_run_resets_the_back_off():
    async def run() -> None:
        host = Host(delays=Delays(first=1000, longest=1000, steady=0))
        async with host.running():
            await host.ensure(DNSMASQ)
            for number in range(1, 4):
                host.processes.end(DNSMASQ.name)
                await host.notified(*["exited", "started"] * number)

    asyncio.run(run())


def test_a_daemon_that_cannot_be_started():
    async def run() -> None:
        host = Host()
        async with host.running():
            host.processes.broken.add("dnsmasq")
            with pytest.raises(ProcessError):
                await host.ensure(DNSMASQ)
            assert host.supervisor.running(DNSMASQ.name) is None
            host.processes.broken.clear()
            await host.ensure(DNSMASQ)
            host.processes.broken.add("dnsmasq")
            host.processes.end(DNSMASQ.name)
            await host.notified("exited", "failed", "failed")
            assert "cannot be started" in host.events[1].text
            host.processes.broken.clear()
            async with asyncio.timeout(30):
                while host.supervisor.running(DNSMASQ.name) is None:
                    await asyncio.sleep(0.001)

    asyncio.run(run())


def test_with_action_exit_the_agent_exits_with_a_daemon():
    async def run() -> None:
        host = Host(action="exit")
        task = asyncio.create_task(host.supervisor.run())
        await host.ensure(DNSMASQ)
        await host.ensure(Daemon("radvd router", ("radvd",)))
        host.processes.end(DNSMASQ.name)
        with pytest.raises(DaemonExited, match="dnsmasq net killed by SIGKILL"):
            await asyncio.wait_for(task, 30)
        assert set(host.processes.running()) == {"radvd router"}  # the others go on

    asyncio.run(run())


class Silent(FakeProcesses):
    """Without notifications of exits, as on a kernel without pidfds."""

    async def wait(self, process: Process) -> ExitCode:
        raise OSError("Function not implemented")


def test_an_exit_without_notification_is_found_by_polling():
    async def run() -> None:
        host = Host(interval=0.02)
        host.processes = Silent()
        host.supervisor = Supervisor(host.processes, interval=0.02, delays=SOON, notify=host.events.append)
        async with host.running():
            await host.ensure(DNSMASQ)
            for number in range(1, 3):
                host.processes.end(DNSMASQ.name)
                await host.notified(*["exited", "started"] * number)

    asyncio.run(run())


def test_daemons_outlive_the_agent():
    async def run() -> None:
        host = Host()
        async with host.running():
            there = await host.ensure(DNSMASQ)
        assert host.processes.running() == {DNSMASQ.name: there}
        host.processes.end(DNSMASQ.name)
        await asyncio.sleep(0.02)
        assert host.processes.running() == {}

    asyncio.run(run())


# --- configuration files ---


class Configured(Host):
    """A daemon with one configuration file."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.file = directory / "conf"
        self.prepared = 0
        self.daemon = Daemon("radvd r1", ("radvd",), pid_file=str(directory / "radvd.pid"))

    def service(self, text: str) -> Service:
        def prepare() -> None:
            self.prepared += 1

        return Service(self.daemon, {str(self.file): text}, before_start=prepare)


def test_a_changed_file_is_a_reload_and_an_unchanged_one_nothing(tmp_path: Path):
    async def run() -> None:
        host = Configured(tmp_path)
        actions = [(await host.supervisor.ensure(host.service(text)))[0] for text in ("a", "a", "b", "b")]
        assert actions == [Action.START, Action.NOTHING, Action.RELOAD, Action.NOTHING]
        assert (host.processes.signals, host.file.read_text()) == ([("radvd r1", signal.SIGHUP)], "b")
        assert (host.prepared, host.file.stat().st_mode & 0o777) == (1, 0o600)

    asyncio.run(run())


def test_a_reload_that_a_killed_agent_did_not_send_is_sent_by_the_next(tmp_path: Path):
    async def run() -> None:
        host = Configured(tmp_path)
        await host.supervisor.ensure(host.service("a"))
        host.file.write_text("b")  # and killed before the signal
        assert host.supervisor.plan(host.service("b")) == ["reload radvd r1"]
        assert (await host.supervisor.ensure(host.service("b")))[0] is Action.RELOAD
        assert host.supervisor.plan(host.service("b")) == []

    asyncio.run(run())


def test_from_the_cache_a_missing_daemon_is_started_and_a_running_one_left_as_it_is(tmp_path: Path):
    async def run() -> None:
        host = Configured(tmp_path)
        assert (await host.supervisor.ensure(host.service("new"), complete=False))[0] is Action.START
        assert (await host.supervisor.ensure(host.service("cached"), complete=False))[0] is Action.NOTHING
        assert (host.file.read_text(), host.processes.signals) == ("new", [])
        host.processes.end(host.daemon.name)
        await host.notified("exited", "started")
        assert host.prepared == 2

    asyncio.run(run())
