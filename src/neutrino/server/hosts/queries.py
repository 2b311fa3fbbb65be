"""Queries to hosts: an API worker asks, the feed process that serves the host sends and writes the answer.

The row of a query is open until its host has answered. The asking process deletes the row, with its answer or when the time
is over; `sweep` deletes the rows of processes that ended before. The table is all that the processes share, so it does not
matter which of them serves the host, and on which machine.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.feed.messages import Answer, Query
from neutrino.server.db import tables as t
from neutrino.server.db.objects import new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.hosts.registry import Registry

KIND: Final = "host_query"  # in the change log
MAX_OPEN: Final = 16  # queries to one host
MAX_KEPT: Final = 4 * MAX_OPEN  # in memory of a feed process: several API workers may pass the check at once
MAX_SECONDS: Final = 30.0  # of one query
LEFT_SECONDS: Final = 300.0  # after its end a row may belong to a server whose clock is behind
FIRST_WAIT: Final = 0.01  # seconds between two looks for the answer; grows
LONGEST_WAIT: Final = 0.2
GROWTH: Final = 1.4
_ANSWERS = sa.select(t.host_queries.c.id, t.host_queries.c.answer, t.host_queries.c.error).where(
    t.host_queries.c.id.in_(sa.bindparam("queries", expanding=True))
)
_OPEN = sa.select(
    t.host_queries.c.id,
    t.host_queries.c.host,
    t.host_queries.c.kind,
    t.host_queries.c.question,
    t.host_queries.c.expires_at,
).where(t.host_queries.c.answer.is_(None), t.host_queries.c.error.is_(None))
_OPEN_ON_HOST = (
    sa.select(sa.func.count())
    .select_from(t.host_queries)
    .where(
        t.host_queries.c.host == sa.bindparam("on_host"),
        t.host_queries.c.answer.is_(None),
        t.host_queries.c.error.is_(None),
        t.host_queries.c.expires_at > sa.bindparam("at"),
    )
)


class Reason(StrEnum):
    """Why a query has no answer."""

    DOWN = "down"  # no agent of the host reports
    BUSY = "busy"  # too many queries to the host are open
    TIMEOUT = "timeout"
    ERROR = "error"  # the host answered that it cannot


class NoAnswer(Exception):
    def __init__(self, host: str, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.host = host
        self.reason = reason


@dataclass(frozen=True)
class HostQueries:
    db: Database
    registry: Registry
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def ask(self, host: str, kind: str, question: bytes, seconds: float = 5.0) -> bytes:
        """The answer of a host, as JSON; blocks for at most `seconds`."""
        answer = self.ask_all(kind, {host: question}, seconds)[host]
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    def ask_all(self, kind: str, questions: Mapping[str, bytes], seconds: float = 5.0) -> dict[str, bytes | NoAnswer]:
        """The answers of several hosts, asked at once; blocks until the last one has answered, for at most `seconds`."""
        seconds = min(seconds, MAX_SECONDS)
        ends = time.monotonic() + seconds
        answers: dict[str, bytes | NoAnswer] = {}
        for host in questions:
            try:
                self._check(host)
            except NoAnswer as error:
                answers[host] = error
        queries = self._insert(kind, {host: text for host, text in questions.items() if host not in answers}, seconds)
        try:
            return answers | self._wait(queries, ends, seconds)
        finally:
            self._delete(queries.values())

    def _check(self, host: str) -> None:
        with self.db.read() as connection:
            agents = self.registry.agents_on(connection, host)
            asked = connection.execute(_OPEN_ON_HOST, {"on_host": host, "at": self.clock()}).scalar_one()
        if not any(agent["alive"] for agent in agents):
            last = max((agent["heartbeat_timestamp"] for agent in agents), default="")
            since = f"the last report was at {last}" if last else "none has ever reported"
            raise NoAnswer(host, Reason.DOWN, f"no agent of host {host} is alive: {since}")
        if asked >= MAX_OPEN:
            raise NoAnswer(host, Reason.BUSY, f"host {host} has {asked} unanswered queries: try again later")

    @retried
    def _insert(self, kind: str, questions: Mapping[str, bytes], seconds: float) -> dict[str, str]:
        """The queries by their hosts."""
        keys = {host: new_id() for host in questions}
        if keys:
            expires = {"kind": kind, "expires_at": self.clock() + seconds}
            with self.db.transaction(of_cloud=False) as tx:
                tx.insert(
                    t.host_queries,
                    [
                        {"id": keys[host], "host": host, "question": text.decode(), **expires}
                        for host, text in questions.items()
                    ],
                )
                for key in keys.values():
                    tx.record(KIND, key)
        return keys

    def _wait(self, queries: Mapping[str, str], ends: float, seconds: float) -> dict[str, bytes | NoAnswer]:
        answers: dict[str, bytes | NoAnswer] = {}
        wait = FIRST_WAIT
        while waiting := {key: host for host, key in queries.items() if host not in answers}:
            with self.db.read() as connection:
                found = {row.id: row for row in connection.execute(_ANSWERS, {"queries": sorted(waiting)})}
            left = ends - time.monotonic()
            for key, host in waiting.items():
                row = found.get(key)
                if row is not None and row.error:
                    answers[host] = NoAnswer(host, Reason.ERROR, f"host {host} cannot answer: {row.error}")
                elif row is not None and row.answer is not None:
                    answers[host] = str(row.answer).encode()
                elif left <= 0 or row is None:
                    text = (
                        f"host {host} has not answered within {seconds:g} s: its agent is disconnected, busy or older"
                    )
                    answers[host] = NoAnswer(host, Reason.TIMEOUT, text)
            if len(answers) < len(queries):
                self.sleep(min(wait, left))
                wait = min(wait * GROWTH, LONGEST_WAIT)
        return answers

    @retried
    def _delete(self, ids: Collection[str]) -> None:
        if ids:
            with self.db.transaction(of_cloud=False) as tx:
                tx.write(sa.delete(t.host_queries).where(t.host_queries.c.id.in_(ids)))


@dataclass
class OpenQueries:
    """The open queries as a feed process sees them: sent when they are asked, and when their host connects.

    In memory, so that a thousand hosts that reconnect cost no query. `read` and `take_answer` block.
    """

    db: Database
    clock: Callable[[], float] = time.time
    timer: Callable[[], float] = time.monotonic
    _by_host: dict[str, dict[str, tuple[float, Query]]] = field(default_factory=dict)

    def read(self, connection: Connection, ids: Collection[str] | None = None) -> list[tuple[str, Query]]:
        """The open ones of these, or all, each with its host."""
        statement = _OPEN if ids is None else _OPEN.where(t.host_queries.c.id.in_(ids))
        return [(row.host, self._query(row)) for row in connection.execute(statement)]

    def _query(self, row: NamedRow) -> Query:
        # At least a second: the clock of the asking server may differ, and its row is open as long as it exists.
        seconds = min(max(row.expires_at - self.clock(), 1.0), MAX_SECONDS)
        return Query(id=row.id, kind=row.kind, question=msgspec.Raw(row.question.encode()), seconds=seconds)

    def add(self, queries: Iterable[tuple[str, Query]]) -> None:
        now = self.timer()
        # First the expired ones: an answer to a query that is not kept would be dropped.
        for host in [host for host in self._by_host if not self.of(host)]:
            del self._by_host[host]
        for host, query in queries:
            several = self._by_host.setdefault(host, {})
            if len(several) < MAX_KEPT:
                several[query.id] = (now + query.seconds, query)

    def of(self, host: str) -> list[Query]:
        """Those of a host, with the time that is left."""
        several, now = self._by_host.get(host), self.timer()
        if not several:
            return []
        self._drop_expired(several, now)
        return [msgspec.structs.replace(query, seconds=ends - now) for ends, query in several.values()]

    @staticmethod
    def _drop_expired(several: dict[str, tuple[float, Query]], now: float) -> None:
        for key in [key for key, (ends, _) in several.items() if ends <= now]:
            del several[key]

    def answered(self, host: str, query_id: str) -> None:
        self._by_host.get(host, {}).pop(query_id, None)

    @retried
    def take_answer(self, host: str, answer: Answer) -> None:
        """Write an answer into its row: only of the host that was asked, and only the first one."""
        values = {"error": answer.error} if answer.error else {"answer": bytes(answer.result).decode()}
        mine = sa.and_(
            t.host_queries.c.id == answer.id,
            t.host_queries.c.host == host,
            t.host_queries.c.answer.is_(None),
            t.host_queries.c.error.is_(None),
        )
        with self.db.transaction(of_cloud=False) as tx:
            tx.write(sa.update(t.host_queries).where(mine).values(values))

    @retried
    def sweep(self) -> int:
        """Delete rows that their process has left; returns how many."""
        old = t.host_queries.c.expires_at < self.clock() - LEFT_SECONDS
        with self.db.read() as connection:
            ids = list(connection.execute(sa.select(t.host_queries.c.id).where(old).limit(1000)).scalars())
        if ids:
            with self.db.transaction(of_cloud=False) as tx:
                tx.write(sa.delete(t.host_queries).where(t.host_queries.c.id.in_(ids)))
        return len(ids)
