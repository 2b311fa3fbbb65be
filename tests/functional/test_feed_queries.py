"""Queries to hosts: through any feed process on three databases, with hosts that connect late, refuse or do not answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import sqlalchemy as sa

from neutrino.agent.runtime.queries import Queries
from neutrino.feed.address import Address
from neutrino.feed.messages import Ack, Answer, ErrorMessage, Hello, Query
from neutrino.server.db import tables as t
from neutrino.server.feed.connections import session as session_module
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.hosts.queries import LEFT_SECONDS, MAX_KEPT, MAX_OPEN, HostQueries, NoAnswer, OpenQueries, Reason
from neutrino.server.main import Server
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {})
    for number, host in enumerate(("h1", "h2")):
        switch(made, host, tunneling_ip=f"192.0.2.{number + 1}")
    yield made
    made.close()


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def run(test: Awaitable[None], seconds: float = 60) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await test

    asyncio.run(bounded())


def queries(server: Server) -> HostQueries:
    return HostQueries(server.db, server.registry)


def rows(server: Server) -> list[Any]:
    with server.db.read() as connection:
        return list(connection.execute(sa.select(t.host_queries)))


async def ask(server: Server, host: str = "h1", question: object = None, seconds: float = 60.0) -> Any:
    asked = queries(server)
    return json.loads(await asyncio.to_thread(asked.ask, host, "echo", json.dumps(question).encode(), seconds))


class AnsweringHost(HostEnd):
    """A host with the agent's queries."""

    def __init__(self, address: Address, host: str, credential: str, delay: float = 0.0) -> None:
        super().__init__(address, host, credential)
        self.asked: list[Any] = []
        self._delay = delay
        self.client.on_query(Queries(self.client, {"echo": self._echo, "broken": self._broken}).take)

    async def _echo(self, question: bytes) -> bytes:
        self.asked.append(json.loads(question))
        await asyncio.sleep(self._delay)
        return json.dumps({"host": self.host, "question": json.loads(question)}).encode()

    async def _broken(self, question: bytes) -> bytes:
        raise RuntimeError("the switch is gone")


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_hosts_answer_through_whichever_process_serves_them(server: Server, tmp_path: Path) -> None:
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}
    at = [Address(path=str(tmp_path / f"feed{number}.sock")) for number in (1, 2)]

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for where in at:
                await stack.enter_async_context(serving(server, where))
            h1 = await stack.enter_async_context(AnsweringHost(at[0], "h1", keys["h1"]))
            h2 = await stack.enter_async_context(AnsweringHost(at[1], "h2", keys["h2"]))
            await until(lambda: h1.client.is_synced and h2.client.is_synced, "both to be synced")
            assert await ask(server, "h1", {"é": [1, None]}) == {"host": "h1", "question": {"é": [1, None]}}
            many = await asyncio.gather(*(ask(server, f"h{1 + n % 2}", n) for n in range(12)))
            assert many == [{"host": f"h{1 + n % 2}", "question": n} for n in range(12)]
            assert len(h1.asked) == 7
            assert len(h2.asked) == 6
            with pytest.raises(NoAnswer, match="the switch is gone") as caught:
                await asyncio.to_thread(queries(server).ask, "h1", "broken", b"1")
            assert caught.value.reason is Reason.ERROR
            with pytest.raises(NoAnswer, match="queries of kind later are unknown"):
                await asyncio.to_thread(queries(server).ask, "h2", "later", b"1")
        assert rows(server) == []

    run(test())


def test_an_answer_is_about_everything_that_was_committed_before_the_question(server: Server, address: Address) -> None:
    key = Credentials(server.db).add("h1")
    api = Api(server.app).as_admin()

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", key) as host:
            answering = Queries(host.client, {"ports": ports_of(host)})
            host.client.on_query(answering.take)
            await until(lambda: host.client.is_synced, "the host to be synced")
            network = await asyncio.to_thread(api.network)
            for count in range(1, 6):
                await asyncio.to_thread(
                    api.port, network, binding__host_id="h1", device_owner="compute:nova", name=f"p{count}"
                )
                found = json.loads(await asyncio.to_thread(queries(server).ask, "h1", "ports", b"null"))
                assert found == {"ports": count, "position": found["position"]}
            head = found["position"]
            await asyncio.to_thread(api.network)  # no change for this host
            found = json.loads(await asyncio.to_thread(queries(server).ask, "h1", "ports", b"null"))
            assert found["position"] > head + 1  # the position of the question: it follows the other change

    def ports_of(host: HostEnd) -> Any:
        async def ports(_: bytes) -> bytes:
            return json.dumps(
                {"ports": len(host.client.state.objects["port"]), "position": host.client.position}
            ).encode()

        return ports

    run(test())


def test_hosts_that_do_not_answer(server: Server, address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Credentials(server.db).add("h1")

    async def test() -> None:
        async with serving(server, address), Raw(address, "h1", key) as silent:
            await silent.send(Hello(host="h1"))
            await silent.receive_until_synced()
            began = time.monotonic()
            with pytest.raises(NoAnswer, match="not answered within") as caught:
                await ask(server, "h1", seconds=0.3)
            assert caught.value.reason is Reason.TIMEOUT
            assert time.monotonic() - began >= 0.3
            with pytest.raises(NoAnswer, match="none has ever reported") as caught:
                await ask(server, "h9")
            assert caught.value.reason is Reason.DOWN
            set_clock(server, time.time() + 1000)
            with pytest.raises(NoAnswer, match="the last report was at") as caught:
                await ask(server, "h1")
            assert caught.value.reason is Reason.DOWN
        assert rows(server) == []

    run(test())


def test_a_host_that_connects_while_the_query_is_open_gets_it(server: Server, address: Address) -> None:
    key = Credentials(server.db).add("h1")

    async def test() -> None:
        async with serving(server, address):
            asking = asyncio.create_task(ask(server, "h1", "late"))
            await until(lambda: bool(rows(server)), "the query")
            await asyncio.sleep(0.1)
            async with AnsweringHost(address, "h1", key):
                assert (await asking)["question"] == "late"
        asking = asyncio.create_task(ask(server, "h1", "later"))  # before its feed process starts
        await until(lambda: bool(rows(server)), "the query")
        async with serving(server, address), AnsweringHost(address, "h1", key):
            assert (await asking)["question"] == "later"

    run(test())


def test_the_answer_survives_a_lost_connection(server: Server, tmp_path: Path) -> None:
    """The feed process ends while the host works on the answer: the host sends it to the next one."""
    key = Credentials(server.db).add("h1")
    address = Address(path=str(tmp_path / "feed.sock"))

    async def test() -> None:
        async with AnsweringHost(address, "h1", key, delay=0.5) as host:
            async with serving(server, address):
                asking = asyncio.create_task(ask(server, "h1", 1, seconds=20))
                await until(lambda: bool(host.asked), "the query to arrive")
            await until(lambda: not host.client.connected, "the end of the connection")
            await until(lambda: host.client.unacknowledged > 0, "the answer to be ready")
            async with serving(server, address):
                assert (await asking)["question"] == 1
        assert host.asked == [1]

    run(test())


def test_only_the_host_that_was_asked_may_answer_and_only_once(server: Server, address: Address) -> None:
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}

    async def replies(host: Raw) -> list[Any]:
        found: list[Any] = []
        while not any(isinstance(message, Ack) for message in found):
            found += await host.receive()
        return [message for message in found if not isinstance(message, Ack | Query)]

    async def test() -> None:
        async with serving(server, address), Raw(address, "h1", keys["h1"]) as h1, Raw(address, "h2", keys["h2"]) as h2:
            for host, name in ((h1, "h1"), (h2, "h2")):
                await host.send(Hello(host=name))
                await host.receive_until_synced()
            asking = asyncio.create_task(ask(server, "h1"))
            (query,) = [one for one in await received(h1, Query) if isinstance(one, Query)]
            await h2.send(Answer(serial=1, id=query.id, result=msgspec.Raw(b'"forged"')))
            assert await replies(h2) == []
            assert not asking.done()
            await h1.send(Answer(serial=1, id=query.id, result=msgspec.Raw(b'"' + b"x" * 2**20 + b'"')))
            (refused,) = [one for one in await replies(h1) if isinstance(one, ErrorMessage)]
            assert "more than" in refused.text
            await h1.send(
                Answer(serial=2, id=query.id, result=msgspec.Raw(b'"first"')),
                Answer(serial=3, id=query.id, result=msgspec.Raw(b'"second"')),
            )
            assert await asking == "first"
            assert await replies(h1) == []
            await h1.send(Answer(serial=4, id=query.id, result=msgspec.Raw(b'"late"')))  # its row is gone
            assert await replies(h1) == []
        assert rows(server) == []

    async def received(host: Raw, kind: type) -> list[Any]:
        found: list[Any] = []
        while not any(isinstance(one, kind) for one in found):
            found += await host.receive()
        return found

    run(test())


def test_a_host_cannot_ask_others(server: Server, address: Address) -> None:
    """With its own credential: it could have them converted, or see what they have."""
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}

    async def test() -> None:
        async with serving(server, address), AnsweringHost(address, "h1", keys["h1"]) as h1:
            async with Raw(address, "h2", keys["h2"]) as h2:
                await h2.send(Hello(host="h2"))
                await h2.receive_until_synced()
                question = msgspec.Raw(b'{"action":"convert","ticket":"t","host":"h1"}')
                await h2.send(Query(id="q", kind="takeover", question=question), Query(id="q", kind="echo"))
                found: list[Any] = []
                while sum(isinstance(one, ErrorMessage) for one in found) < 2:
                    found += await h2.receive()
                assert rows(server) == []
            assert (await ask(server, "h1", "asked")) == {"host": "h1", "question": "asked"}
            assert h1.asked == ["asked"]

    run(test())


def test_hosts_are_asked_together(server: Server, address: Address) -> None:
    """In one transaction; one that does not answer, or cannot, delays the others by no more than the limit."""
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}

    async def test() -> None:
        async with (
            serving(server, address),
            AnsweringHost(address, "h1", keys["h1"]),
            Raw(address, "h2", keys["h2"]) as h2,
        ):
            await h2.send(Hello(host="h2"))
            await h2.receive_until_synced()
            questions = dict.fromkeys(("h1", "h2", "h9"), b"1")
            answers = await asyncio.to_thread(queries(server).ask_all, "echo", questions, 1.0)
            assert json.loads(cast(bytes, answers["h1"])) == {"host": "h1", "question": 1}
            reasons = {host: one.reason for host, one in answers.items() if isinstance(one, NoAnswer)}
            assert reasons == {"h2": Reason.TIMEOUT, "h9": Reason.DOWN}
        assert rows(server) == []

    run(test())


def test_answers_that_nobody_asked_for_cost_no_work(
    server: Server, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are acknowledged, or the host would repeat them, but neither decoded nor written."""
    key = Credentials(server.db).add("h1")
    worked: list[str] = []
    take, check = OpenQueries.take_answer, session_module.refusal

    def taken(self: OpenQueries, host: str, answer: Answer) -> None:
        worked.append(f"written {answer.id}")
        take(self, host, answer)

    def checked(message: Any, *rest: Any) -> str:
        if isinstance(message, Answer):
            worked.append(f"decoded {message.id}")
        return check(message, *rest)

    monkeypatch.setattr(OpenQueries, "take_answer", taken)
    monkeypatch.setattr(session_module, "refusal", checked)

    async def test() -> None:
        async with serving(server, address), Raw(address, "h1", key) as h1:
            await h1.send(Hello(host="h1"))
            await h1.receive_until_synced()
            await h1.send(*(Answer(serial=n, id=f"none-{n}", result=msgspec.Raw(b"[1]")) for n in range(1, 6)))
            found: list[Any] = []
            while len(found) < 5:
                found += await h1.receive()
            assert found == [Ack(serial=n) for n in range(1, 6)]
            assert worked == []
            asking = asyncio.create_task(ask(server, "h1"))
            while not (asked := [one for one in await h1.receive() if isinstance(one, Query)]):
                pass
            (query,) = asked
            same = [Answer(serial=n, id=query.id, result=msgspec.Raw(str(n).encode())) for n in (6, 7, 8)]
            await h1.send(*same)
            assert await asking == 6
            assert worked == [f"decoded {query.id}", f"written {query.id}"]

    run(test())


def test_expired_queries_leave_room_for_new_ones(server: Server) -> None:
    now = [0.0]
    kept = OpenQueries(server.db, timer=lambda: now[0])

    def some(prefix: str) -> list[tuple[str, Query]]:
        return [
            ("h1", Query(id=f"{prefix}{n}", kind="echo", question=msgspec.Raw(b"1"), seconds=5))
            for n in range(2 * MAX_KEPT)
        ]

    kept.add(some("old"))
    assert len(kept.of("h1")) == MAX_KEPT
    now[0] = 6.0
    kept.add(some("new"))
    assert [query.id for query in kept.of("h1")] == [f"new{n}" for n in range(MAX_KEPT)]
    now[0] = 12.0
    kept.add([])
    assert kept.of("h1") == []


def test_open_queries_to_a_host_are_bounded(server: Server, address: Address) -> None:
    key = Credentials(server.db).add("h1")

    async def test() -> None:
        async with serving(server, address), Raw(address, "h1", key) as silent:
            await silent.send(Hello(host="h1"))
            await silent.receive_until_synced()
            waiting = [asyncio.create_task(ask(server, "h1", n, seconds=30)) for n in range(MAX_OPEN)]
            await until(lambda: len(rows(server)) == MAX_OPEN, "the queries")
            with pytest.raises(NoAnswer, match="unanswered queries") as caught:
                await ask(server, "h1")
            assert caught.value.reason is Reason.BUSY
            with server.db.transaction() as tx:  # ends the questions
                tx.execute(sa.delete(t.host_queries))
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(one, NoAnswer) for one in results)

    # More threads than the default pool may have on a small machine: each question blocks one.
    async def pooled() -> None:
        from concurrent.futures import ThreadPoolExecutor

        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MAX_OPEN + 8))
        await test()

    run(pooled())


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_rows_of_ended_processes_are_swept(server: Server) -> None:
    now = time.time()
    ends = {"old": now - LEFT_SECONDS - 5, "recent": now - 5, "open": now + 5}
    with server.db.transaction() as tx:
        row = {"host": "h1", "kind": "echo", "question": "1"}
        tx.insert(t.host_queries, [{"id": key, "expires_at": at, **row} for key, at in ends.items()])
    assert OpenQueries(server.db).sweep() == 1
    assert {row.id for row in rows(server)} == {"recent", "open"}
    assert OpenQueries(server.db).sweep() == 0


def test_a_question_costs_other_hosts_nothing(server: Server, address: Address) -> None:
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}

    async def test() -> None:
        async with (
            serving(server, address),
            AnsweringHost(address, "h1", keys["h1"]),
            Raw(address, "h2", keys["h2"]) as h2,
        ):
            await h2.send(Hello(host="h2"))
            await h2.receive_until_synced()
            for n in range(3):
                await ask(server, "h1", n)
            receiving = asyncio.create_task(h2.receive())
            await asyncio.sleep(0.2)
            assert not receiving.done()
            receiving.cancel()

    run(test())
