"""Watching over daemons, with daemons in memory and delays of milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import pytest

from neutrino.agent.supervisor import DaemonExited, Delays, ProcessEvent, Supervisor
from neutrino.dataplane.process.api import Daemon, Ended, Process, ProcessError
from tests.fakes.process import FakeProcesses

DNSMASQ = Daemon("dnsmasq net", ("dnsmasq", "-k"))
SOON = Delays(first=0.01, longest=0.04, steady=1000)


class Host:
    """Daemons, the watch over them, and what it told."""

    def __init__(self, **options) -> None:
        self.processes = FakeProcesses()
        self.events: list[ProcessEvent] = []
        self.watch = Supervisor(self.processes, **{"delays": SOON, "told": self.events.append, **options})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.watch.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def hears(self, *expected: str) -> None:
        async with asyncio.timeout(5):
            while [event.what for event in self.events] != list(expected):
                assert len(self.events) <= len(expected), self.events
                await asyncio.sleep(0.001)


def test_what_is_kept_is_started_and_started_again():
    async def run() -> None:
        host = Host()
        async with host.running():
            first = await host.watch.keep(DNSMASQ)
            assert host.watch.running(DNSMASQ.name) == first
            host.processes.end(DNSMASQ.name, Ended(status=2))
            await host.hears("ended", "started")
            assert host.events[0] == ProcessEvent(DNSMASQ.name, "ended", "ended with status 2")
            second = host.processes.find(DNSMASQ.name)
            assert second not in (None, first)
            assert host.watch.running(DNSMASQ.name) == second
            host.processes.end(DNSMASQ.name)
            await host.hears("ended", "started", "ended", "started")

    asyncio.run(run())


def test_what_runs_already_is_left_and_watched():
    """As after the agent's restart."""

    async def run() -> None:
        host = Host()
        there = host.processes.start(DNSMASQ)
        async with host.running():
            assert await host.watch.keep(DNSMASQ) == there
            assert await host.watch.keep(DNSMASQ) == there
            assert len(host.processes.started) == 1
            host.processes.end(DNSMASQ.name)
            await host.hears("ended", "started")

    asyncio.run(run())


def test_what_runs_otherwise_is_started_anew():
    async def run() -> None:
        host = Host()
        async with host.running():
            first = await host.watch.keep(DNSMASQ)
            other = Daemon(DNSMASQ.name, ("dnsmasq", "-k", "--log-dhcp"))
            second = await host.watch.keep(other)
            assert (first.digest, second.digest) == (DNSMASQ.digest(), other.digest())
            assert host.processes.signals == [(DNSMASQ.name, signal.SIGTERM)]
            third = await host.watch.restart(other)
            assert third != second
            await asyncio.sleep(0.02)
            assert host.events == []  # what we ended ourselves is nobody's surprise
            assert host.processes.running() == {DNSMASQ.name: third}

    asyncio.run(run())


def test_what_is_dropped_is_stopped_and_stays_so():
    async def run() -> None:
        host = Host()
        async with host.running():
            await host.watch.keep(DNSMASQ)
            await host.watch.drop(DNSMASQ.name)
            await host.watch.drop(DNSMASQ.name)
            await asyncio.sleep(0.02)
            assert (host.events, host.processes.running()) == ([], {})
            host.processes.start(DNSMASQ)  # of an agent before us
            await host.watch.drop(DNSMASQ.name)
            assert host.processes.running() == {}

    asyncio.run(run())


def test_one_that_keeps_ending_is_tried_ever_less_often():
    delays = Delays(first=0.5, longest=60, steady=60)
    assert [delays.after(failures) for failures in range(5)] == [0, 0.5, 1, 2, 4]
    assert delays.after(100) == 60

    async def run() -> None:
        host = Host()
        async with host.running():
            await host.watch.keep(DNSMASQ)
            started = asyncio.get_running_loop().time()
            for number in range(1, 5):
                host.processes.end(DNSMASQ.name)
                await host.hears(*["ended", "started"] * number)
            assert asyncio.get_running_loop().time() - started >= 0.07  # 0, then 10, 20 and 40 ms

    asyncio.run(run())


def test_one_that_has_run_for_long_has_no_past():
    async def run() -> None:
        host = Host(delays=Delays(first=1000, longest=1000, steady=0))
        async with host.running():
            await host.watch.keep(DNSMASQ)
            for number in range(1, 4):
                host.processes.end(DNSMASQ.name)
                await host.hears(*["ended", "started"] * number)

    asyncio.run(run())


def test_one_that_cannot_be_started():
    async def run() -> None:
        host = Host()
        async with host.running():
            host.processes.broken.add("dnsmasq")
            with pytest.raises(ProcessError):
                await host.watch.keep(DNSMASQ)
            assert host.watch.running(DNSMASQ.name) is None
            host.processes.broken.clear()
            await host.watch.keep(DNSMASQ)
            host.processes.broken.add("dnsmasq")
            host.processes.end(DNSMASQ.name)
            await host.hears("ended", "failed", "failed")
            assert "cannot be started" in host.events[1].text
            host.processes.broken.clear()
            async with asyncio.timeout(5):
                while host.watch.running(DNSMASQ.name) is None:
                    await asyncio.sleep(0.001)

    asyncio.run(run())


def test_an_end_ends_the_agent_where_that_is_configured():
    async def run() -> None:
        host = Host(action="exit")
        task = asyncio.create_task(host.watch.run())
        await host.watch.keep(DNSMASQ)
        await host.watch.keep(Daemon("radvd router", ("radvd",)))
        host.processes.end(DNSMASQ.name)
        with pytest.raises(DaemonExited, match="dnsmasq net ended by SIGKILL"):
            await asyncio.wait_for(task, 5)
        assert set(host.processes.running()) == {"radvd router"}  # the others go on

    asyncio.run(run())


def test_an_interval_of_zero_turns_watching_off():
    async def run() -> None:
        host = Host(interval=0)
        async with host.running():
            await host.watch.keep(DNSMASQ)
            host.processes.end(DNSMASQ.name)
            await asyncio.sleep(0.05)
            assert (host.events, host.processes.running()) == ([], {})

    asyncio.run(run())


class Silent(FakeProcesses):
    """One that tells of no end, as where the kernel has no pidfds."""

    async def wait(self, process: Process) -> Ended:
        raise OSError("Function not implemented")


def test_an_end_that_nobody_told_of_is_found():
    async def run() -> None:
        host = Host(interval=0.02)
        host.processes = Silent()
        host.watch = Supervisor(host.processes, interval=0.02, delays=SOON, told=host.events.append)
        async with host.running():
            await host.watch.keep(DNSMASQ)
            for number in range(1, 3):
                host.processes.end(DNSMASQ.name)
                await host.hears(*["ended", "started"] * number)

    asyncio.run(run())


def test_daemons_are_left_when_the_agent_ends():
    async def run() -> None:
        host = Host()
        async with host.running():
            there = await host.watch.keep(DNSMASQ)
        assert host.processes.running() == {DNSMASQ.name: there}
        host.processes.end(DNSMASQ.name)
        await asyncio.sleep(0.02)
        assert host.processes.running() == {}

    asyncio.run(run())
