"""The gate that all roles wait at: it is opened when the guards of the start are passed (`decide.py`).

    feed ── objects of the server, kept apart ──┐
    switch ── flows, plugged ports ─────────────┴─▶ judge ──▶ accept the server's objects, start the roles
                                                      └─────▶ or: nothing is changed; log, problems of all agents

The roles are started at once, from the cache of the feed, as the server may not be reachable; but not beside foreign flows,
nor on a host with plugged ports of which there is no cache. What a server sends reaches them only when it is accepted: at
the agent's start, and whenever a server has another database.
While something is in the way, all is looked at again every few seconds, so the agent goes on by itself.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping

from neutrino.agent.guard.decide import (
    FOREIGN_FLOWS,
    OWN,
    CookieRange,
    Facts,
    Server,
    Verdict,
    foreign,
    judge,
    plugged_ports,
)
from neutrino.agent.runtime.measures import Measure
from neutrino.agent.runtime.role import START
from neutrino.dataplane.openflow.api import Flow, OpenFlow, OpenFlowError
from neutrino.dataplane.ovsdb.api import Ovsdb, OvsdbError
from neutrino.feed.client import FeedClient
from neutrino.feed.state import State
from neutrino.metrics import catalog

LOG = logging.getLogger(__name__)
PORT = "port"


@dataclasses.dataclass
class GuardOptions:
    """May be changed while the agent runs."""

    despite: frozenset[str] = frozenset()  # causes that do not keep the agent from its work, by the operator's option
    kept: tuple[CookieRange, ...] = ()  # cookies of flows that are left alone
    admitted: frozenset[str] = frozenset()  # causes that do not, as this host is being converted, or was

    @property
    def ignored(self) -> frozenset[str]:
        return self.despite | self.admitted


@dataclasses.dataclass(frozen=True)
class Bridges:
    """The bridges that the L2 role writes flows to. Blocking."""

    ovsdb: Callable[[], Ovsdb]
    openflow: OpenFlow
    options: GuardOptions
    integration: str
    others: tuple[str, ...] = ()
    physical: tuple[str, ...] = ()  # bridges of physical networks

    def foreign(self, bridge: str) -> list[Flow]:
        count = self.openflow.count_flows
        if count(bridge, 0, 0) == sum(count(bridge, *own) for own in OWN):  # usual, and far cheaper than reading them
            return []
        flows = self.openflow.read_flows(bridge, 0, 0)
        return foreign(flows, self.options.kept, physical=bridge in self.physical)

    def removable(self, bridge: str, *, permitted: bool = False) -> list[Flow]:
        """Foreign flows that are to be removed when ours are added; on bridges that are not ours there are none.

        `permitted`: whatever the options say, as they have come after the start.
        """
        is_permitted = permitted or FOREIGN_FLOWS in self.options.ignored
        return self.foreign(bridge) if is_permitted and bridge in self._names else []

    def present(self) -> list[str]:
        """Those of these bridges that exist."""
        return [name for name in self._names if name in self.ovsdb().read().bridges]

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.integration, *self.others, *self.physical)

    def read(self) -> Facts:
        """The guard of the switch alone."""
        try:
            snapshot = self.ovsdb().read()
            there = (name for name in self._names if name in snapshot.bridges)
            found = {bridge: flows for bridge in there if (flows := self.foreign(bridge))}
        except (OvsdbError, OpenFlowError) as error:
            return Facts(unreadable=str(error))
        except Exception as error:  # flows of others may be anything: an agent that ended would fail again
            LOG.exception("the flows of this host cannot be read")
            return Facts(unreadable=f"{type(error).__name__}: {error}")
        return Facts(found, plugged_ports(snapshot, self.integration))


def of_feed(facts: Facts, cached: State, sent: State | None) -> Facts:
    """With the objects that the agent has, and all those that a server has sent; None: it has not sent all yet."""
    server = None
    if sent is not None and sent.cursor is not None:
        server = Server(sent.cursor.database, frozenset(sent.objects[PORT]))
    database = cached.cursor.database if cached.cursor is not None else ""
    return dataclasses.replace(facts, database=database, ports=frozenset(cached.objects[PORT]), server=server)


@dataclasses.dataclass(eq=False)
class Gate:
    """Belongs to one event loop."""

    feed: FeedClient
    options: GuardOptions
    bridges: Bridges | None  # None: no role of this agent writes flows
    interval: Callable[[], float]  # seconds between looks while something is in the way
    report_soon: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._open = asyncio.Event()
        self._look = asyncio.Event()
        self._synced = False
        self._waits_for_server = False
        self._ignored: set[str] = set()  # causes that the option has allowed
        self.problems: Mapping[str, str] = {}  # why nothing is changed; empty: nothing is in the way
        self.feed.hold_until_accepted(self._look.set)

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def admit(self, cause: str) -> None:
        """Let the roles work although there is this cause: what is in the way is theirs to replace."""
        self.options.admitted |= {cause}
        self._look.set()

    def look(self) -> None:
        """Look again, as options have changed."""
        self._look.set()

    def synced(self) -> None:
        """The roles have been notified of `synced`."""
        if not self._synced:
            self._synced = True
            self._look.set()

    def measures(self) -> Iterator[Measure]:
        """As of a role; read in another thread."""
        yield catalog.PROBLEMS, (START,), len(self.problems)

    async def opened(self) -> None:
        await self._open.wait()

    async def run(self) -> None:
        while True:
            self._look.clear()
            verdict = await self._judge()
            self._set_problems(verdict.causes)
            if not verdict.causes:
                self._log_option(verdict)
                self.feed.accept()
                if self._synced or not verdict.needs_server:
                    self._open.set()
                elif not self._waits_for_server:
                    self._waits_for_server = True
                    LOG.info("nothing is changed on this host before the server has sent its objects")
            waits = bool(verdict.causes)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.interval() if waits else None):
                    await self._look.wait()

    async def _judge(self) -> Verdict:
        found = await asyncio.to_thread(self.bridges.read) if self.bridges is not None else Facts()
        offered = self.feed.offered
        complete = offered if offered is not None and offered.is_synced else None
        return judge(of_feed(found, self.feed.state, complete), self.options.ignored)

    def _log_option(self, verdict: Verdict) -> None:
        """What the option allows, and once that it allows what was not found."""
        for cause, text in verdict.ignored.items():
            if cause not in self._ignored:
                why = (
                    "[agent] start_despite names" if cause in self.options.despite else "this host is taken over, with"
                )
                LOG.warning("proceeding, as %s %s: %s", why, cause, text)
        self._ignored |= verdict.ignored.keys()
        unused = self.options.despite - self._ignored
        if self.feed.offered is not None and unused:
            LOG.warning(
                "[agent] start_despite = %s is not needed: remove it, else no later start is guarded", min(unused)
            )

    def _set_problems(self, causes: Mapping[str, str]) -> None:
        for cause, text in causes.items():
            if self.problems.get(cause) != text:
                LOG.error("this agent changes nothing on this host: %s", text)
        if self.problems and not causes:
            LOG.info("nothing keeps this agent from its work any more")
        if causes != self.problems:
            self.problems = dict(causes)
            self.report_soon()
