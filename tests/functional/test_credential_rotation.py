"""A host whose credential is rotated: its agent reads the file again, and `status` names hosts that are refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.diagnosis.facts import FEED_PROCESS, LOGINS, REFUSED, UNKNOWN_LOGIN, WRONG_CREDENTIAL
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.credential_file import CredentialFile
from neutrino.server.feed.connections import admission
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from neutrino.server.status.processes import ServerProcess
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path))
    switch(made, "h1")
    yield made
    made.close()


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


@pytest.fixture
def file(server: Server, tmp_path: Path) -> Path:
    path = tmp_path / "credential"
    path.write_text(f"{Credentials(server.db).add('h1')}\n")
    return path


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await test

    asyncio.run(bounded())


@contextlib.asynccontextmanager
async def host(address: Address, file: Path, longest_delay: float = 0.1) -> AsyncIterator[FeedClient]:
    options = ClientOptions(address, "h1", CredentialFile(str(file)), first_delay=0.01, longest_delay=longest_delay)
    client = FeedClient(options)
    task = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_rotated_credential_is_read_at_the_next_attempt(
    server: Server, address: Address, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with serving(server, address), host(address, file) as client:
            await client.wait_synced()
            new = await asyncio.to_thread(Credentials(server.db).rotate, "h1")
            await until(lambda: "refuses host h1" in caplog.text, "the old credential to be refused")
            assert f"[feed] credential_file={file}" in caplog.text
            assert not client.connected
            file.write_text(new)
            await client.wait_synced()
        assert "has changed: the new credential is used" in caplog.text
        assert new not in caplog.text

    run(test())


@pytest.mark.parametrize("between", ["", "two words", "caf\xe9", "x" * 5000, None], ids=str)
def test_a_file_that_cannot_be_used_leaves_the_last_credential_in_use(
    server: Server, address: Address, file: Path, between: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """As between the two steps of replacing it."""

    async def test() -> None:
        async with host(address, file) as client:
            good = file.read_text()
            async with serving(server, address):
                await client.wait_synced()
            file.unlink() if between is None else file.write_text(between)
            async with serving(server, address):
                await client.wait_synced()
            assert f"{file} cannot be used, the last credential stays in use" in caplog.text
            assert caplog.text.count("cannot be used") == 1, "once"
            file.write_text(good)

    run(test())


def test_a_reload_does_not_wait_for_the_next_attempt(
    server: Server, address: Address, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        good = file.read_text()
        file.write_text("wrong")
        async with serving(server, address), host(address, file, longest_delay=3600.0) as client:
            client._failures = 40  # its next attempt would be in half an hour or later
            await until(lambda: "refuses host h1" in caplog.text, "the refusal")
            file.write_text(good)
            client.retry_now()
            await client.wait_synced()
            client.retry_now()
            assert client.connected, "an open connection stays"

    run(test())


def test_a_refusal_is_a_warning_also_after_the_server_was_away(
    server: Server, address: Address, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> int:
        texts = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
        return sum("refuses host h1" in text for text in texts)

    async def test() -> None:
        file.write_text("wrong")
        async with host(address, file):
            await until(lambda: "no connection to the server" in caplog.text, "the first failure")
            async with serving(server, address):
                await until(lambda: warnings() == 1, "the refusal")
                await until(lambda: caplog.text.count("login as host h1") >= 3, "further attempts")
        assert warnings() == 1, "once for each reason"

    run(test())


# --- status -----------------------------------------------------------------------------------------------------------


def problems(server: Server) -> list[dict[str, Any]]:
    found = Api(server.app).as_admin().get("/status").expect(200).body["status"]["problems"]
    return [each for each in found if "refused" in each["what"]]


def test_status_names_hosts_that_are_refused(server: Server, address: Address, file: Path) -> None:
    async def test() -> None:
        async with serving(server, address) as feed:
            process = ServerProcess(server.db, "server-1", FEED_PROCESS, feed.describe)
            process.id = "feed-1"
            assert await Raw(address, "h1", "wrong").refused() == 401
            assert await Raw(address, "unknown", "wrong").refused() == 401
            await asyncio.to_thread(process.write)
            problem, stranger = await asyncio.to_thread(problems, server)
            assert problem["severity"] == "error", "its agents are alive, and nothing reaches them"
            assert problem["host"] == "h1"
            assert stranger["kind"] == "host-unknown"
            assert stranger["what"].startswith("a login as 'unknown' from a local socket was refused")
            assert problem["what"].startswith("host h1: a login from a local socket was refused")
            assert "[feed] credential_file" in problem["fix"]

            set_clock(server, 200.0)  # its agents are dead by now, and the feed process is not
            process.clock = lambda: time.time() + 200.0
            await asyncio.to_thread(process.write)
            problem, _ = await asyncio.to_thread(problems, server)
            assert problem["severity"] == "error"

            async with HostEnd(address, "h1", file.read_text().strip()) as h1:
                await h1.client.wait_synced()
                await asyncio.to_thread(process.write)
                (stranger,) = await asyncio.to_thread(problems, server)
                assert stranger["kind"] == "host-unknown"

    run(test())


def test_refusals_are_bounded_and_expire() -> None:
    now = 1000.0
    refusals = admission.Refusals(lambda: now)
    for number in range(admission.MAX_REFUSED_HOSTS + 5):
        refusals.add(f"h{number}", "192.0.2.1")
    for number in range(1000):  # names that a stranger chose
        refusals.add_unknown(f"{number}\x1b[2J" + "x" * 1000, "192.0.2.9")
    shown = refusals.recent()
    hosts = shown[REFUSED]
    assert len(hosts) == admission.MAX_REFUSED_HOSTS
    assert "h0" not in hosts
    assert hosts["h9"] == {"address": "192.0.2.1", "at": 1000, "reason": WRONG_CREDENTIAL}
    assert shown[UNKNOWN_LOGIN]["name"].startswith("999[2Jx"), "without control characters"
    assert len(shown[UNKNOWN_LOGIN]["name"]) == admission.MAX_SHOWN_NAME
    refusals.admitted("h9")
    assert "h9" not in refusals.recent()[REFUSED]
    assert refusals.recent()[LOGINS] == {"h9": 1000}
    for number in range(admission.MAX_LOGINS):
        refusals.admitted(f"g{number}")
    assert len(refusals.recent()[LOGINS]) == admission.MAX_LOGINS
    assert "h9" not in refusals.recent()[LOGINS]
    now += admission.REFUSED_SECONDS + 1
    assert refusals.recent() == {REFUSED: {}, LOGINS: {}}
