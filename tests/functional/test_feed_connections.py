"""The connections of hosts in the status: gone at once, with several feed processes, and after one of them was killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.diagnosis.facts import FEED_PROCESS
from neutrino.feed.address import Address
from neutrino.server.db.tables import server_processes
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.server import FeedServer
from neutrino.server.hosts.registry import timestamp
from neutrino.server.main import Server
from neutrino.server.status.processes import START, ServerProcess, start_ticks
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving
from tests.support.feed_raw import Raw

LONG = 60.0  # seconds that feed processes have been running: their hosts have connected


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path))
    for host in ("h1", "h2"):
        switch(made, host)
    yield made
    made.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await test

    asyncio.run(bounded())


class Process:
    """The row of a feed process, written as in the process itself."""

    def __init__(self, server: Server, feed: FeedServer, host: str) -> None:
        self.row = ServerProcess(server.db, host, FEED_PROCESS, feed.describe)
        self.row._started_at = timestamp(time.time() - LONG)
        self.row.start()
        feed.on_changed_hosts = self.row.soon


def status(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = Api(server.app).as_admin().get("/status").expect(200).body["status"]
    return found


async def shows(server: Server, what: Callable[[dict[str, Any]], bool], seconds: float = 5.0) -> dict[str, Any]:
    """The status once it shows this; long before a row is written by itself, or an agent counts as dead."""
    found: dict[str, Any] = {}
    async with asyncio.timeout(seconds):
        while not found or not what(found):
            await asyncio.sleep(0.05)
            found = await asyncio.to_thread(status, server)
    return found


def connections(found: dict[str, Any]) -> dict[str, str | None]:
    return {host["name"]: host["connection"] for host in found["hosts"]}


def disconnected(found: dict[str, Any]) -> list[str]:
    return [problem["host"] for problem in found["problems"] if problem["kind"] == "host-disconnected"]


def test_a_connection_that_is_gone_is_shown_at_once(server: Server, tmp_path: Path) -> None:
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}
    first, second = (Address(path=str(tmp_path / f"{name}.sock")) for name in ("first", "second"))

    async def test() -> None:
        async with serving(server, first) as one, serving(server, second) as two:
            rows = [Process(server, one, "server-1"), Process(server, two, "server-2")]
            async with HostEnd(first, "h1", keys["h1"]) as h1, HostEnd(second, "h2", keys["h2"]) as h2:
                await h1.client.wait_synced()
                await h2.client.wait_synced()
                both = {"h1": "connected", "h2": "connected"}
                found = await shows(server, lambda found: connections(found) == both)
                assert (found["verdict"], found["feed"]["connected_hosts"]) == ("ok", 2)
            # Both agents have stopped; their last reports are young.
            found = await shows(server, lambda found: disconnected(found) == ["h1", "h2"])
            assert found["verdict"] == "degraded"
            assert connections(found) == {"h1": "late", "h2": "late"}
            assert "has no connection to any feed; its last report was" in found["problems"][0]["what"]
            set_clock(server, 40.0)  # late, not dead: the rows of the processes are not old yet
            assert connections(await asyncio.to_thread(status, server)) == {"h1": "late", "h2": "late"}
            for row in rows:
                await asyncio.to_thread(row.row.stop)

    run(test())


def test_a_feed_process_that_is_killed_has_no_connections(server: Server, tmp_path: Path) -> None:
    """Its row stays, and is young: on its machine the status sees that the process has ended."""
    key, address = Credentials(server.db).add("h1"), Address(path=str(tmp_path / "feed.sock"))
    of_feed = server_processes.c.kind == FEED_PROCESS

    async def test() -> None:
        async with serving(server, address) as feed, HostEnd(address, "h1", key) as h1:
            await h1.client.wait_synced()
            process = Process(server, feed, "server-1").row
            await shows(server, lambda found: connections(found)["h1"] == "connected")
            process._stop.set()  # what the row says now stays
            process._due.set()
            assert process._thread is not None
            await asyncio.to_thread(process._thread.join)
            stand_in = await asyncio.to_thread(subprocess.Popen, ["sleep", "60"])
            try:
                with server.db.transaction(of_cloud=False) as tx:
                    row = tx.execute(sa.select(server_processes).where(of_feed)).one()
                    details = json.dumps({**json.loads(row.details), START: start_ticks(stand_in.pid)})
                    tx.execute(sa.update(server_processes).where(of_feed).values(pid=stand_in.pid, details=details))
                assert connections(status(server))["h1"] == "connected"
            finally:
                stand_in.kill()
                stand_in.wait()
            found = status(server)
            assert connections(found)["h1"] == "late"
            (feeds,) = found["feed"]["processes"]
            assert (feeds["alive"], feeds["ended"]) == (False, True)
            assert "machine" not in feeds["details"]
            problems = [problem["kind"] for problem in found["problems"]]
            assert "feed-not-running" in problems
            assert "host-disconnected" not in problems, "one problem, not one of each host"
            with server.db.transaction(of_cloud=False) as tx:  # as of another machine: it is not known there
                tx.execute(
                    sa.update(server_processes)
                    .where(of_feed)
                    .values(details=json.dumps({**json.loads(row.details), "machine": "x"}))
                )
            assert connections(status(server))["h1"] == "connected"

    run(test())


def test_a_host_that_moves_to_another_process_stays_connected(server: Server, tmp_path: Path) -> None:
    """As after the death of its process, whose row stays until it is found too old."""
    key = Credentials(server.db).add("h1")
    first, second = (Address(path=str(tmp_path / f"{name}.sock")) for name in ("first", "second"))

    async def test() -> None:
        async with serving(server, second) as two:
            rows = [Process(server, two, "server-2")]
            async with serving(server, first) as one, HostEnd(first, "h1", key) as h1:
                await h1.client.wait_synced()
                rows.append(Process(server, one, "server-1"))
                await shows(server, lambda found: connections(found)["h1"] == "connected")
            rows[-1].row._stop.set()  # killed: it neither writes nor deletes its row
            rows[-1].row._due.set()
            async with HostEnd(second, "h1", key) as h1:
                await h1.client.wait_synced()
                found = await shows(server, lambda found: connections(found)["h1"] == "connected")
                assert "h1" not in disconnected(found)
            assert rows[-1].row._thread is not None
            await asyncio.to_thread(rows[-1].row._thread.join)
            # The next process of its machine deletes the row, and what the dead one has said is gone with it.
            with server.db.transaction(of_cloud=False) as tx:
                tx.execute(
                    sa.update(server_processes).where(server_processes.c.host == "server-1").values(pid=2**22 + 1)
                )
            await asyncio.to_thread(ServerProcess(server.db, "server-1", FEED_PROCESS).remove_ended)
            await shows(server, lambda found: connections(found)["h1"] == "late")
            await asyncio.to_thread(rows[0].row.stop)

    run(test())


def test_a_host_that_is_refused_for_its_roles_is_named_with_the_reason(server: Server, tmp_path: Path) -> None:
    key = Credentials(server.db).add("h1", ["dhcp"])
    address = Address(path=str(tmp_path / "feed.sock"))

    async def test() -> None:
        async with serving(server, address) as feed:
            row = Process(server, feed, "server-1")
            end = HostEnd(address, "h1", key)
            end.client._options = replace(end.client._options, roles=("l2", "dhcp"))
            async with end:
                found = await shows(
                    server, lambda found: any(problem["kind"] == "host-refused" for problem in found["problems"])
                )
                (problem,) = (each for each in found["problems"] if each["host"] == "h1")
                assert "the credential of host h1 has the roles dhcp, and not" in problem["what"]
                assert problem["severity"] == "error"
            await asyncio.to_thread(row.row.stop)

    run(test())


def test_wrong_credentials_do_not_write_a_row_each(server: Server, tmp_path: Path) -> None:
    Credentials(server.db).add("h1")
    address = Address(path=str(tmp_path / "feed.sock"))
    woken: list[float] = []

    async def test() -> None:
        async with serving(server, address) as feed:
            feed.on_changed_hosts = lambda: woken.append(time.monotonic())
            for number in range(5):
                assert await Raw(address, "h1", "wrong").refused() == 401
                assert await Raw(address, f"stranger-{number}", "wrong").refused() == 401

    run(test())
    assert len(woken) == 2, "the first of a known host, and the first of a stranger"
