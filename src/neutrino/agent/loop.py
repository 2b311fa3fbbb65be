"""The agent's life: the feed and the roles side by side, from start to SIGTERM. What they built stays when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from neutrino.agent.report import Reporter
from neutrino.agent.role import Drift, Role
from neutrino.feed.client import FeedClient

LOG = logging.getLogger(__name__)


async def run(
    client: FeedClient, roles: Sequence[Role], reporter: Reporter, stop: asyncio.Event, quitting: float
) -> None:
    """Until told to stop; what is being applied then is finished, within `quitting` seconds."""
    client.on_synced(_for_each(roles))
    tasks = [
        asyncio.create_task(client.run(), name="feed"),
        asyncio.create_task(_dispatch(client, roles), name="changes"),
        asyncio.create_task(reporter.run(), name="reports"),
        *(asyncio.create_task(role.run(), name=role.name) for role in roles),
    ]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # a task that ends has failed
            raise RuntimeError(f"{task.get_name()} has ended")
        LOG.info("ending; the dataplane stays as it is")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(quitting):
                for role in roles:
                    await role.settle()
    finally:
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)


def _for_each(roles: Sequence[Role]) -> Callable[[], None]:
    def synced() -> None:
        for role in roles:
            role.synced()

    return synced


async def _dispatch(client: FeedClient, roles: Sequence[Role]) -> None:
    async for change in client.changes():
        for role in roles:
            role.changed(change)


async def look(client: FeedClient, roles: Sequence[Role], seconds: float, cache: Path) -> tuple[list[Drift], bool]:
    """What differs, changing nothing; and whether the server was there to say what should be, or it is from memory."""
    feed = asyncio.create_task(client.run())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await client.wait_synced()
        if not client.is_synced and cache.exists():
            client.state.load(cache.read_bytes())
        return [await role.find() for role in roles], client.is_synced
    finally:
        feed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feed
