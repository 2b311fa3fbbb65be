"""Queries of the server on a host: answers, errors, limits of time and number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from neutrino.agent.runtime.queries import MAX_ANSWER, MAX_WAITING, Queries
from neutrino.feed import messages as m
from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient


class Feed:
    def __init__(self) -> None:
        self.answers: dict[str, tuple[bytes, str]] = {}
        self.answered = asyncio.Event()

    def answer(self, query_id: str, ends: float, result: bytes = b"null", error: str = "") -> None:
        assert query_id not in self.answers
        self.answers[query_id] = (result, error)
        self.answered.set()


def query(key: str = "q1", kind: str = "echo", question: bytes = b"1", seconds: float = 5.0) -> m.Query:
    return m.Query(id=key, kind=kind, question=msgspec.Raw(question), seconds=seconds)


async def echo(question: bytes) -> bytes:
    return question


async def broken(question: bytes) -> bytes:
    raise RuntimeError("no\n  switch\x07")


async def endless(question: bytes) -> bytes:
    await asyncio.Event().wait()
    return b""


async def large(question: bytes) -> bytes:
    return b"1" * (MAX_ANSWER + 1)


HANDLERS: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
    "echo": echo,
    "broken": broken,
    "endless": endless,
    "large": large,
}


def run(test: Callable[[Feed, Queries], Awaitable[None]], most: int = 4) -> Feed:
    async def bounded() -> Feed:
        feed = Feed()
        queries = Queries(feed, HANDLERS, most)
        async with asyncio.timeout(60):
            await test(feed, queries)
            await queries.close()
        return feed

    return asyncio.run(bounded())


async def answers(feed: Feed, count: int) -> None:
    while len(feed.answers) < count:
        feed.answered.clear()
        await feed.answered.wait()


def test_each_query_gets_the_answer_of_its_handler_or_one_line_with_the_error() -> None:
    async def test(feed: Feed, queries: Queries) -> None:
        queries.take(query("a", question=b'{"x":1}'))
        queries.take(query("b", "broken"))
        queries.take(query("c", "unknown\nkind"))
        queries.take(query("d", "endless", seconds=0.05))
        queries.take(query("e", "large"))
        await answers(feed, 5)

    found = run(test).answers
    assert found["a"] == (b'{"x":1}', "")
    assert found["b"] == (b"null", "RuntimeError: no switch")
    assert found["c"][1] == "queries of kind unknown kind are unknown here"
    assert found["d"][1] == "the time limit was reached"
    assert str(MAX_ANSWER) in found["e"][1]


def test_a_query_that_is_sent_again_is_answered_once() -> None:
    async def test(feed: Feed, queries: Queries) -> None:
        queries.take(query("a"))
        queries.take(query("a"))
        await answers(feed, 1)
        queries.take(query("a"))  # by another server, after a reconnect
        queries.take(query("b"))
        await answers(feed, 2)

    assert run(test).answers.keys() == {"a", "b"}


def test_queries_above_the_limit_wait_and_above_the_next_are_refused() -> None:
    async def test(feed: Feed, queries: Queries) -> None:
        for number in range(MAX_WAITING):
            queries.take(query(f"a{number}", "endless", seconds=0.2))
        queries.take(query("b"))
        assert "unanswered queries" in feed.answers["b"][1]
        await answers(feed, MAX_WAITING + 1)
        await asyncio.sleep(0.01)  # the tasks end after their answers
        queries.take(query("c"))
        await answers(feed, MAX_WAITING + 2)
        assert feed.answers["c"] == (b"1", "")

    run(test, most=1)


def test_closing_cancels_what_is_being_answered() -> None:
    async def test(feed: Feed, queries: Queries) -> None:
        queries.take(query("a", "endless"))
        await asyncio.sleep(0)

    assert run(test).answers == {}


# --- the client ---------------------------------------------------------------------------------------------------------


def client() -> Any:
    return FeedClient(ClientOptions(Address(path="/nowhere"), "h1", "c"))


def _sent(feed: FeedClient) -> list[Any]:
    """The reports of the next frame."""
    frame = feed._reports.take()
    assert frame is not None
    return m.read_from_host(frame)


def test_answers_are_repeated_until_acknowledged_unless_their_time_is_over() -> None:
    async def test() -> None:
        feed = client()
        feed.answer("late", time.monotonic() - 1, b"1")
        feed.answer("open", time.monotonic() + 60, b"2")
        assert [report.id for report in _sent(feed)] == ["open"]
        feed._take(m.Welcome(cursor=m.Cursor("d", 1)))
        (again,) = _sent(feed)
        assert (again.id, bytes(again.result)) == ("open", b"2")
        feed._take(m.Ack(serial=again.serial))
        assert feed.unacknowledged == 0

    asyncio.run(test())


def test_a_client_without_a_handler_leaves_queries_to_the_agent() -> None:
    """All connections of a host are asked: an answer of this one would be taken for the agent's."""

    async def test() -> None:
        feed = client()
        feed._take(query("q"))
        assert feed.unacknowledged == 0
        taken: list[m.Query] = []
        feed.on_query(taken.append)
        feed._take(query("r"))
        assert [one.id for one in taken] == ["r"]

    asyncio.run(test())
