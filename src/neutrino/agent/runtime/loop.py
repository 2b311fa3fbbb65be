"""Runs the feed client, the roles and the reports concurrently until SIGTERM. The dataplane stays when they end."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from neutrino import caches, request_ids
from neutrino.agent.guard.gate import Gate
from neutrino.agent.runtime.role import Drift, Role, held
from neutrino.feed.client import FeedClient
from neutrino.model.takeover import Compared

LOG = logging.getLogger(__name__)


FIRST_CHECK = 1.0  # seconds after a report
CACHE_SECONDS = 300.0


class Reporter:
    """Reports the agents' states to the server at the start, every `interval` seconds (0: never again), and on demand.

    The server shows how far a host is behind as of its last report. So if more has been applied soon after a report,
    another one follows, at growing intervals while changes continue.
    """

    def __init__(
        self,
        feed: FeedClient,
        interval: Callable[[], float],
        first_check: float = FIRST_CHECK,
    ) -> None:
        self._feed = feed
        self._interval = interval
        self._first_check = first_check
        self.held: Callable[[], Mapping[str, str]] = dict  # why the agent changes nothing
        self.compared: Callable[[], Compared | None] = lambda: None  # with Neutron's flows meanwhile
        self._wanted = asyncio.Event()
        self._started = False

    def soon(self) -> None:
        self._wanted.set()

    async def run(self, roles: Sequence[Role]) -> None:
        check = self._first_check
        while True:
            applied = self._report(roles)
            self._wanted.clear()  # what was wanted before the report is in it
            interval = self._interval() or None
            pause = check if interval is None else min(check, interval)
            if not await self._is_wanted(pause) and _applied(roles) != applied:
                check = 2 * pause
                continue
            check = self._first_check
            if not self._wanted.is_set() and pause != interval:
                await self._is_wanted(None if interval is None else interval - pause)

    async def _is_wanted(self, seconds: float | None) -> bool:
        """Wait until a report is wanted; False: none is wanted within `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._wanted.wait()
        return False

    def _report(self, roles: Sequence[Role]) -> int:
        """Returns the position that is reported as applied."""
        causes = self.held()
        compared = self.compared()
        states = [held(state, causes, compared) if causes else state for role in roles for state in role.describe()]
        if not self._started:
            states = [dataclasses.replace(state, start_flag=True) for state in states]  # sets `started_at`
            self._started = True
        applied = _applied(roles)
        self._feed.report(states, applied)
        return applied


def _applied(roles: Sequence[Role]) -> int:
    """The slowest role counts: up to that position, every role has applied what the feed has sent."""
    return min((position for role in roles if (position := role.applied()) is not None), default=0)


async def run(
    client: FeedClient,
    roles: Sequence[Role],
    reporter: Reporter,
    stop: asyncio.Event,
    quitting: float,
    gate: Gate | None = None,
) -> None:
    """Until `stop` is set; what is being applied then is completed, within `quitting` seconds.

    Roles run from when the gate is opened on; without a gate at once.
    """

    def synced() -> None:
        for role in roles:
            role.synced()
        if gate is not None:
            gate.synced()

    client.on_synced(synced)
    tasks = [
        asyncio.create_task(client.run(), name="feed"),
        asyncio.create_task(_dispatch(client, roles), name="changes"),
        asyncio.create_task(reporter.run(roles), name="reports"),
        asyncio.create_task(_clear_caches(), name="caches"),
        *([asyncio.create_task(gate.run(), name="guards")] if gate is not None else []),
        *(asyncio.create_task(_run_role(role, gate), name=role.name) for role in roles),
    ]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # none of them returns: one that is done has failed
            raise RuntimeError(f"task {task.get_name()} has ended")
        LOG.info("the agent exits; the dataplane stays as it is")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(quitting):
                for role in roles:  # a router that is half applied would be repaired only by the next agent
                    await role.finish()
    finally:
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)  # the first failure is being raised already


async def _run_role(role: Role, gate: Gate | None) -> None:
    if gate is not None:
        await gate.opened()
    await role.run()


async def _dispatch(client: FeedClient, roles: Sequence[Role]) -> None:
    async for change in client.changes():
        request_ids.CURRENT.set(change.request_id)  # work queues keep it with the keys
        for role in roles:
            role.changed(change)  # only queues keys, so no role delays another
        request_ids.CURRENT.set("")


async def _clear_caches() -> None:
    while True:
        await asyncio.sleep(CACHE_SECONDS)
        caches.clear()


async def find_drift(
    client: FeedClient, roles: Sequence[Role], seconds: float, cache: Path
) -> tuple[list[Drift], bool]:
    """The drift of all roles; and whether the server gave the desired state, or it is from the cache."""
    feed = asyncio.create_task(client.run())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await client.wait_synced()
        if not client.is_synced and cache.exists():
            client.state.load(cache.read_bytes())  # read only: the file is the running agent's
        return [await role.find() for role in roles], client.is_synced
    finally:
        feed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feed
