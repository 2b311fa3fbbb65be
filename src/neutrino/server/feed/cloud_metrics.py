"""Metrics of a feed process: its own, and the cloud's ports and agents, counted in the database when Prometheus asks."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import sqlalchemy as sa
from oslo_config import cfg

from neutrino import __version__
from neutrino.metrics import catalog, feed_socket, listener
from neutrino.metrics.process import start
from neutrino.metrics.server import ServerMetrics
from neutrino.server import config
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.sql import NamedRow, Selection
from neutrino.server.hosts.registry import timestamp

COUNT_SECONDS: Final = 15.0  # counts are not repeated within this time, however often they are asked for
Values = dict[tuple[str, ...], float]
_PORTS = sa.select(t.ports.c.status, sa.func.count()).group_by(t.ports.c.status)
_LATE = t.agents.c.heartbeat_timestamp < sa.bindparam("cutoff", type_=sa.String)
_STATE = sa.case((sa.not_(t.agents.c.admin_state_up), "disabled"), (_LATE, "late"), else_="alive")
_AGENTS = sa.select(t.agents.c.agent_type, _STATE.label("state"), sa.func.count()).group_by(
    t.agents.c.agent_type, sa.text("state")
)


@contextlib.contextmanager
def serving(conf: cfg.ConfigOpts, db: Database, *, alone: bool) -> Iterator[None]:
    """Serve the metrics of this process to the server of this machine and, if it runs `alone`, to Prometheus."""
    if not conf.metrics.bind:
        yield
        return
    registry, directory = start("feed", __version__), config.metrics_directory(conf)
    catalog.CONNECTIONS.watch(db.connections)
    catalog.PORTS.watch(Cached(lambda: _ports(db)))
    catalog.AGENTS.watch(Cached(lambda: _agents(db, conf.agent_down_time)))
    with contextlib.ExitStack() as stack:
        if alone:  # with what workers of another WSGI server share
            stack.enter_context(listener.serving(conf, ServerMetrics(registry, directory, feed=False)))
        stack.enter_context(feed_socket.serving(directory, registry))
        yield


class Cached:
    """A function whose result is kept for a while. Threads that ask at once cause one call."""

    def __init__(self, function: Callable[[], Values], seconds: float = COUNT_SECONDS) -> None:
        self._function, self._seconds = function, seconds
        self._lock = threading.Lock()
        self._kept: tuple[float, Values] | None = None

    def __call__(self) -> Values:
        with self._lock:
            now = time.monotonic()
            if self._kept is None or now - self._kept[0] > self._seconds:
                self._kept = now, self._function()
            return self._kept[1]


def _ports(db: Database) -> Values:
    counted = dict.fromkeys((("ACTIVE",), ("DOWN",), ("BUILD",), ("ERROR",)), 0.0)
    return counted | {(status,): number for status, number in _rows(db, _PORTS)}


def _agents(db: Database, down_time: float) -> Values:
    rows = _rows(db, _AGENTS, cutoff=timestamp(time.time() - down_time))
    counted = {(kind, state): 0.0 for kind, *_ in rows for state in ("alive", "late", "disabled")}
    return counted | {(kind, state): number for kind, state, number in rows}


def _rows(db: Database, statement: Selection, **parameters: object) -> list[NamedRow]:
    with db.read() as connection:
        return list(connection.execute(statement, parameters).all())
