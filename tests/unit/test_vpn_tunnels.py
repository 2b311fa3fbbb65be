"""Tunnels of a host: which charon runs, what it is given and when, and which statuses are reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.api import Serving
from neutrino.agent.l3.services.charon import tunnels as module
from neutrino.agent.l3.services.charon.tunnels import Tunnels
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.process.api import Daemon, Process
from neutrino.model.routing import Router
from tests.fakes.charon import FakeCharon
from tests.fakes.process import FakeProcesses
from tests.support.l3_host import Feed
from tests.support.routing import router
from tests.unit.test_vpn_render import tunnel, with_vpn


class Processes(FakeProcesses):
    """A charon that is started listens."""

    def __init__(self, charon: FakeCharon, socket: Path) -> None:
        super().__init__()
        self._loop, self._charon, self._socket = asyncio.get_running_loop(), charon, socket

    def start(self, daemon: Daemon) -> Process:
        asyncio.run_coroutine_threadsafe(self._charon.listen(self._socket), self._loop).result()
        return super().start(daemon)


class Host:
    def __init__(self, state: Path) -> None:
        self.state, self.charon, self.feed = state, FakeCharon(), Feed()
        self.processes = Processes(self.charon, self.directory / "vici")
        self.queued: list[str] = []
        self.tunnels: Tunnels

    async def agent(self) -> Tunnels:
        """An agent that knows nothing yet."""
        options = L3Options(host="h1", state_path=str(self.state), vpn_userspace=True)
        made = Tunnels(Supervisor(self.processes), options, self.feed)
        await made.start(lambda router_id, priority=0: self.queued.append(router_id))
        return made

    @property
    def directory(self) -> Path:
        return self.state / "vpn" / "r1"

    async def ensure(self, wanted: Router, **values: bool) -> list[str]:
        return await self.tunnels.ensure(wanted, Serving(**values))

    async def find(self, wanted: Router) -> list[str]:
        return await asyncio.to_thread(self.tunnels.find, wanted, Serving())

    async def reported(self, *wanted: tuple[str, str]) -> None:
        """Until the newest statuses are these."""
        async with asyncio.timeout(60):
            while any(self.newest(key) != status for key, status in wanted):
                await asyncio.sleep(0.001)

    def newest(self, key: str) -> str:
        return next((status for _, each, status in reversed(self.feed.statuses) if each == key), "")


@asynccontextmanager
async def host(state: Path) -> AsyncIterator[Host]:
    made = Host(state)
    made.tunnels = await made.agent()
    try:
        yield made
    finally:
        await made.tunnels.close()
        await made.charon.exit()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("v")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEGOTIATION_SECONDS", 0.0)


def test_a_connection_is_not_down_before_it_could_be_up(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEGOTIATION_SECONDS", 60.0)

    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            await here.reported(("s1", "ACTIVE"))
            assert here.newest("c1") == ""
            (name,) = here.charon.connections
            here.charon.tunnel(name, up=True)
            await here.reported(("c1", "ACTIVE"))
            here.charon.tunnel(name, up=False)
            await here.reported(("c1", "DOWN"))

    run(test())


def test_a_connection_is_not_down_while_its_peer_may_be_new_too(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def test() -> None:
        async with host(state) as here:
            here.charon.unanswered = "c1."
            await here.ensure(with_vpn(tunnel("c1"), tunnel("c2")))
            await here.reported(("s1", "ACTIVE"), ("c2", "DOWN"))
            assert here.newest("c1") == ""
            here.charon.unanswered = ""  # the peer has refused it
            await here.reported(("c1", "DOWN"))

    run(test())


def test_connections_are_loaded_once_and_statuses_follow_events(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            assert await here.ensure(with_vpn()) == []
            (name,) = here.charon.connections
            assert here.charon.keys[name]["data"] == "s3cret"
            await here.reported(("c1", "DOWN"), ("s1", "ACTIVE"))
            here.charon.tunnel(name, up=True)
            await here.reported(("c1", "ACTIVE"))
            before, loaded = len(here.feed.statuses), dict(here.charon.connections)
            assert await here.ensure(with_vpn()) == []
            assert here.charon.connections == loaded
            assert here.charon.terminated == []
            here.charon.tunnel(name, up=False)
            await here.reported(("c1", "DOWN"))
            assert len(here.feed.statuses) == before + 1  # what stays is not reported again
            assert (here.directory / "strongswan.conf").stat().st_mode & 0o777 == 0o600
            assert not [path for path in here.directory.iterdir() if path.is_file() and "s3cret" in path.read_text()]

    run(test())


def test_a_changed_connection_is_replaced_and_another_one_is_not_touched(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn(tunnel("c1"), tunnel("c2")))
            old = {name.partition(".")[0]: name for name in here.charon.connections}
            here.charon.up |= set(old.values())
            await here.ensure(with_vpn(tunnel("c1"), tunnel("c2", psk="new")))
            new = {name.partition(".")[0]: name for name in here.charon.connections}
            assert new["c1"] == old["c1"]
            assert new["c2"] != old["c2"]
            assert here.charon.terminated == [old["c2"]]
            assert set(here.charon.keys) == set(new.values())
            await here.reported(("c1", "ACTIVE"), ("c2", "DOWN"))

    run(test())


def test_the_next_agent_takes_a_running_charon_over(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            (name,) = here.charon.connections
            here.charon.tunnel(name, up=True)
            await here.tunnels.close()
            here.tunnels = await here.agent()
            # Before the first `synced`: what it has may be newer than the cache.
            await here.ensure(with_vpn(tunnel(psk="old")), synced=False)
            assert list(here.charon.connections) == [name]
            await here.ensure(with_vpn())
            assert list(here.charon.connections) == [name]
            assert here.charon.terminated == []
            assert len(here.processes.running()) == 1
            await here.reported(("c1", "ACTIVE"))

    run(test())


def test_a_charon_that_exits_is_given_its_connections_again(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            (name,) = here.charon.connections
            here.charon.tunnel(name, up=True)
            await here.reported(("c1", "ACTIVE"))
            await here.charon.exit()
            await here.reported(("c1", "DOWN"))
            assert here.queued == ["r1"]
            here.processes.end("charon r1")
            await here.ensure(with_vpn())
            assert list(here.charon.connections) == [name]

    run(test())


def test_a_connection_without_a_tunnel_is_initiated_again(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.1)

    async def test() -> None:
        async with host(state) as here:
            wanted = with_vpn(tunnel("c1"), tunnel("c2", initiates=False))
            await here.ensure(wanted)
            name = next(name for name in here.charon.connections if name.startswith("c1."))
            async with asyncio.timeout(10):
                while len(here.charon.initiated) < 2:
                    await here.ensure(wanted)  # more often than it is retried
            assert set(here.charon.initiated) == {(name, "net-0")}

    run(test())


def test_what_charon_refuses_is_an_error_of_that_connection(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            here.charon.refuses = "198.51.100.9"
            bad = tunnel("c2", peer_address="198.51.100.9", peer_id="x")
            (problem,) = await here.ensure(with_vpn(tunnel("c1"), bad))
            assert "c2" in problem
            assert "s3cret" not in problem
            await here.reported(("c1", "DOWN"), ("c2", "ERROR"))
            here.charon.refuses = ""
            assert await here.ensure(with_vpn(tunnel("c1"), bad)) == []
            await here.reported(("c2", "DOWN"))

    run(test())


def test_what_charon_refuses_does_not_hinder_the_others(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def test() -> None:
        async with host(state) as here:
            here.charon.refuses = "198.51.100.9"
            bad = tunnel("c2", peer_address="198.51.100.9", peer_id="x")
            await here.ensure(with_vpn(tunnel("c1"), bad))
            (name,) = here.charon.connections
            assert list(here.charon.keys) == [name]  # charon could choose the key of the other for this peer
            async with asyncio.timeout(10):
                while len(here.charon.initiated) < 3:
                    await asyncio.sleep(0.001)
            here.charon.tunnel(name, up=True)
            await here.reported(("c1", "ACTIVE"), ("c2", "ERROR"))
            assert here.queued == []

    run(test())


def test_a_key_without_its_connection_is_unloaded(state: Path) -> None:
    """As an agent leaves it that is killed between the two."""

    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            (name,) = here.charon.connections
            here.charon.keys["gone"] = {"id": "gone"}
            await here.ensure(with_vpn(), synced=False)
            assert set(here.charon.keys) == {name, "gone"}  # it may be newer than the cache
            await here.ensure(with_vpn())
            assert list(here.charon.keys) == [name]

    run(test())


def test_a_host_without_tunnels_has_no_charon(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            assert await here.find(with_vpn()) == []
            assert await here.find(router()) == ["stop charon r1"]
            await here.ensure(with_vpn(tunnel(admin_state_up=False)))
            assert here.processes.running() == {}
            assert not here.directory.exists()
            await here.reported(("c1", "DOWN"), ("s1", "DOWN"))
            before = len(here.feed.statuses)
            await here.ensure(with_vpn(tunnel(admin_state_up=False)))
            assert len(here.feed.statuses) == before
            assert await here.find(with_vpn()) == ["start charon r1"]

    run(test())


def test_connections_that_charon_lacks_or_has_too_many_are_found(state: Path) -> None:
    """By `neutrino agent verify`, which is another process than the agent."""

    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            (name,) = here.charon.connections
            here.charon.connections["c9.other"] = here.charon.connections.pop(name)
            loaded = dict(here.charon.connections)
            assert await here.find(with_vpn()) == ["unload VPN connection c9.other", f"load VPN connection {name}"]
            assert here.charon.connections == loaded
            await here.ensure(with_vpn())
            assert await here.find(with_vpn()) == []

    run(test())


def test_a_standby_host_reports_nothing(state: Path) -> None:
    async def test() -> None:
        async with host(state) as here:
            await here.ensure(with_vpn())
            await here.reported(("c1", "DOWN"))
            before = len(here.feed.statuses)
            await here.ensure(with_vpn(), active=False)
            assert here.processes.running() == {}
            assert len(here.feed.statuses) == before

    run(test())


def test_a_path_that_is_too_long_for_a_socket_is_a_problem(tmp_path: Path) -> None:
    async def test() -> None:
        made = Host(tmp_path / ("x" * 100))
        made.tunnels = await made.agent()
        (problem,) = await made.ensure(with_vpn())
        assert "too long" in problem
        assert made.newest("c1") == "ERROR"

    run(test())


def test_a_host_without_strongswan_reports_an_error(state: Path) -> None:
    async def test() -> None:
        made = Host(state)
        made.tunnels = await made.agent()
        made.processes.broken.add("charon-systemd")
        (problem,) = await made.ensure(with_vpn())
        assert "cannot be started" in problem
        assert made.newest("c1") == "ERROR"

    run(test())
