"""Queries of the server: questions about the actual state of this host, answered concurrently and within a time limit.

A handler changes nothing on the host, but for that of takeovers, which the host's configuration has to allow. Its errors
become the answer, so that the caller of the API gets the reason instead of a timeout. The number of queries that are
answered at once is bounded: the roles have priority.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from neutrino.feed.messages import Query

LOG = logging.getLogger(__name__)
MAX_RUNNING: Final = 4
MAX_WAITING: Final = 16
MAX_SECONDS: Final = 30.0
MAX_ANSWER: Final = 1024 * 1024  # bytes; the server refuses larger ones
MAX_ERROR: Final = 500  # characters
ANSWERING: Final = 0.9  # of the time: the rest is for the way of the answer
Handler = Callable[[bytes], Awaitable[bytes]]  # question → answer, both JSON


Q = TypeVar("Q")


def typed(question: type[Q], answer: Callable[[Q], Awaitable[msgspec.Struct]]) -> Handler:
    """A handler from a function of values: an invalid question becomes an error that names the field."""
    decode = msgspec.json.Decoder(question).decode

    async def handle(data: bytes) -> bytes:
        return msgspec.json.encode(await answer(decode(data)))

    return handle


class AnswerFeed(Protocol):
    """The feed client as queries use it."""

    def answer(self, query_id: str, ends: float, result: bytes = b"null", error: str = "") -> None: ...


class Queries:
    def __init__(self, feed: AnswerFeed, handlers: Mapping[str, Handler], most: int = MAX_RUNNING) -> None:
        self._feed = feed
        self._handlers = handlers
        self._slots = asyncio.Semaphore(most)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._taken: dict[str, float] = {}  # queries, until they end: a server that reconnects sends open ones again

    def take(self, query: Query) -> None:
        """Begin to answer; returns at once."""
        now = time.monotonic()
        self._taken = {key: ends for key, ends in self._taken.items() if ends > now}
        if query.id in self._taken:
            return
        ends = now + min(query.seconds, MAX_SECONDS)
        handler = self._handlers.get(query.kind)
        if handler is None:
            self._feed.answer(query.id, ends, error=f"queries of kind {_one_line(query.kind)} are unknown here")
        elif len(self._tasks) >= MAX_WAITING:
            self._feed.answer(query.id, ends, error=f"the host has {len(self._tasks)} unanswered queries already")
        else:
            self._taken[query.id] = ends
            task = asyncio.create_task(self._answer(query, handler, ends), name=f"query {query.id}")
            self._tasks[query.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(query.id, None))

    async def _answer(self, query: Query, handler: Handler, ends: float) -> None:
        try:
            async with asyncio.timeout((ends - time.monotonic()) * ANSWERING), self._slots:
                result = await handler(bytes(query.question))
            if len(result) > MAX_ANSWER:
                raise ValueError(f"the answer has {len(result)} bytes, at most {MAX_ANSWER} are allowed")
        except TimeoutError:
            LOG.warning("a %s query could not be answered within %.1f s", query.kind, query.seconds)
            self._feed.answer(query.id, ends, error="the time limit was reached")
        except Exception as error:  # of any handler: the caller needs the reason, and the agent continues
            LOG.warning("a %s query could not be answered", query.kind, exc_info=True)
            self._feed.answer(query.id, ends, error=_one_line(f"{type(error).__name__}: {error}"))
        else:
            self._feed.answer(query.id, ends, result)

    async def close(self) -> None:
        """Cancel what is being answered."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _one_line(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:MAX_ERROR]
