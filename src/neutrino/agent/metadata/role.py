"""The metadata role: the process has sockets in every namespace that should answer, and knows every port that may ask.

What is wanted is in `wanted.py`; what changed of it is looked at anew when there is somebody to tell. With each connection
to the process the role hears what it has, tells it all it should know, and then differences. Until the server has told
everything, nothing is taken away: the process may know more than our memory does.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from neutrino import __version__
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.metadata.channel import Channel, ChannelClosed, connect
from neutrino.agent.metadata.desired import ListeningPlan, Place, plan_listening
from neutrino.agent.metadata.messages import (
    MOST_PORTS,
    SAID,
    Close,
    Configure,
    Has,
    Instance,
    Listen,
    Listening,
    Ports,
    Said,
    SetSources,
    Settings,
    Take,
)
from neutrino.agent.metadata.sockets import REFUSALS, Opened
from neutrino.agent.metadata.wanted import NETWORK, Wanted
from neutrino.agent.role import Drift, RoleFeed
from neutrino.agent.supervisor import Service, Supervisor
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.feed.state import Change
from neutrino.model import agents

LOG = logging.getLogger(__name__)
CONNECT_SECONDS = 0.05  # between attempts
START_SECONDS = 10.0  # in which a process that was started has to speak
LOOK_SECONDS, FIRST_LOOK = 2.0, 0.05  # between looks at the namespaces; sooner where one is awaited


class Sockets(Protocol):
    def inode(self, namespace: str) -> int | None: ...

    def open(self, place: Place) -> Opened: ...


@dataclasses.dataclass(frozen=True)
class Options:
    host: str
    socket: str  # the process's control socket
    metadata_port: int  # in routers; 0: not there
    dhcp: DhcpSettings
    settings: Settings


class MetadataRole:
    name = "metadata"

    def __init__(
        self,
        feed: RoleFeed,
        options: Options,
        daemon: Daemon,
        supervisor: Supervisor,
        sockets: Sockets,
        description: agents.AgentState,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self._feed = feed
        self._options = options
        self._daemon = daemon
        self._supervisor = supervisor
        self._sockets = sockets
        self._description = description
        self._news = news
        self._synced = False
        self._dirty = asyncio.Event()
        self._wanted = Wanted(feed.state, options.host, options.metadata_port, options.dhcp)
        self._listening: dict[str, Listening] = {}  # as the process has it
        self._problems: dict[str, str] = {}
        self._process_problem = "the process has not started yet"

    # --- what the agent asks ----------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        if self._wanted.changed(change):
            self._dirty.set()

    def synced(self) -> None:
        if not self._synced:
            self._synced = True
            self._dirty.set()

    def applied(self) -> int | None:
        return None

    def describe(self) -> Iterable[agents.AgentState]:
        problems = {**self._problems, **self._wanted.refused}
        if self._process_problem:
            problems["process"] = self._process_problem
        configurations = {
            **self._description.configurations,
            "listening": len(self._listening),
            agents.PROBLEMS: dict(sorted(problems.items())[:10]),
        }
        yield dataclasses.replace(self._description, configurations=configurations)

    async def settle(self) -> None:
        return None  # what was sent is the process's by now

    async def find(self) -> Drift:
        self._wanted.index()
        self._think()
        try:
            channel = connect(self._options.socket, SAID)
        except OSError as error:
            plan = "metadata: the process does not run" if self._wanted.places else ""
            return Drift(self.name, plan, {"process": str(error)})
        try:
            async with asyncio.timeout(START_SECONDS):
                has, _ = await self._hear(channel)
        except (ChannelClosed, TimeoutError) as error:
            return Drift(self.name, "metadata: the process does not answer", {"process": str(error)})
        finally:
            channel.close()
        return Drift(self.name, self._plan(has, complete=self._feed.is_synced).text(), dict(self._wanted.refused))

    def _think(self) -> None:
        """Places whose state is another, by that state; those that cannot be served are told of."""
        refused = dict(self._wanted.refused)
        for key, text in self._wanted.think().items():
            LOG.error("%s", text)
            self._feed.error(NETWORK, key.removeprefix(NAMESPACE_PREFIX), text)
        if self._wanted.refused != refused:
            self._news()

    def _plan(self, has: dict[str, Listening], *, complete: bool) -> ListeningPlan:
        places = self._wanted.places
        inodes = {key: self._sockets.inode(key) for key in places}
        return plan_listening(places.values(), has, inodes, complete=complete)

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._wanted.index()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._supervisor.run())
            group.create_task(self._steer())

    async def _steer(self) -> None:
        """Whoever serves is spoken with, as long as it lives; that it is started again is the watch's business.

        One that lives but cannot be spoken with, as its socket was deleted or it hangs, is started anew by us.
        """
        await self._start()
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            try:
                channel = connect(self._options.socket, SAID)
            except OSError as error:
                self._process_is(f"it does not answer: {error}")
                if loop.time() - since > START_SECONDS and self._supervisor.running(self._daemon.name) is not None:
                    await self._restart("its socket is gone")
                    since = loop.time()
                await asyncio.sleep(CONNECT_SECONDS)
                continue
            try:
                await self._talk(channel)
            except ChannelClosed as error:
                LOG.warning("the metadata process is gone: %s", error)
                self._process_is("it is gone")
            except TimeoutError:
                await self._restart(f"it has said nothing for {START_SECONDS:g} s")
            finally:
                channel.close()
                self._listening.clear()
                since = loop.time()

    async def _restart(self, why: str) -> None:
        LOG.warning("the metadata process is started anew: %s", why)
        self._process_is(why)
        with contextlib.suppress(ProcessError):
            await self._supervisor.stop(self._daemon.name)
        await self._start()

    async def _start(self) -> None:
        delay = CONNECT_SECONDS
        while True:
            try:
                await self._supervisor.ensure(Service(self._daemon))
                return
            except ProcessError as error:
                self._process_is(str(error))
                LOG.error("%s, again in %.1f s", error, delay)
            await asyncio.sleep(delay)
            delay = min(2 * delay, 30.0)

    def _process_is(self, problem: str) -> None:
        if bool(problem) != bool(self._process_problem):
            self._news()
        self._process_problem = problem

    async def _talk(self, channel: Channel[Said]) -> None:
        async with asyncio.timeout(START_SECONDS):
            self._listening, release = await self._hear(channel)
        if release != __version__:
            await self._restart(f"it is of release {release}")
            return
        await channel.send(Take())
        await channel.send(Configure(self._options.settings))
        ended = asyncio.create_task(self._listen(channel))
        try:
            await self._tell(channel, ended)
        finally:
            ended.cancel()
            with contextlib.suppress(asyncio.CancelledError, ChannelClosed):
                await ended

    async def _hear(self, channel: Channel[Said]) -> tuple[dict[str, Listening], str]:
        has: dict[str, Listening] = {}
        while True:
            message, _ = await channel.receive()
            if not isinstance(message, Has):
                return has, message.release
            has.update(message.listening)

    async def _listen(self, channel: Channel[Said]) -> None:
        """It has said what it had to say: all that still comes is its end."""
        while True:
            await channel.receive()

    async def _tell(self, channel: Channel[Said], ended: asyncio.Task[None]) -> None:
        whole = self._synced
        await self._tell_all(channel, whole)
        delay = FIRST_LOOK
        while not ended.done():
            self._dirty.clear()
            if self._synced and not whole:
                whole = True
                await self._tell_all(channel, whole)
            await self._tell_ports(channel)
            self._think()
            waiting = await self._tell_places(channel)
            self._process_is("")
            delay = min(2 * delay, LOOK_SECONDS) if waiting else LOOK_SECONDS
            if await self._wait(ended, delay):
                delay = FIRST_LOOK
        ended.result()

    async def _wait(self, ended: asyncio.Task[None], seconds: float) -> bool:
        """Until there is something to do, or the process is gone; whether anything has changed."""
        dirty = asyncio.create_task(self._dirty.wait())
        try:
            await asyncio.wait([ended, dirty], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return dirty.done()
        finally:
            dirty.cancel()

    # --- telling ----------------------------------------------------------------------------------------------------

    async def _tell_all(self, channel: Channel[Said], whole: bool) -> None:
        """Every port that we know. `whole`: there are no others."""
        if whole:
            self._wanted.index()  # changes that were not brought to us yet are in the state already
            await channel.send(Ports(step="begin"))
        await self._send(channel, self._wanted.take_all_ports())
        if whole:
            await channel.send(Ports(step="end"))

    async def _tell_ports(self, channel: Channel[Said]) -> None:
        put, gone = self._wanted.take_changed_ports()
        # The process may know a port better than the cache; which ports there are it hears after the first `synced`.
        await self._send(channel, put, gone if self._synced else ())

    async def _send(self, channel: Channel[Said], put: Sequence[Instance], gone: Sequence[str] = ()) -> None:
        for start in range(0, max(len(put), len(gone)), MOST_PORTS):
            part = slice(start, start + MOST_PORTS)
            await channel.send(Ports(tuple(put[part]), tuple(gone[part])))

    async def _tell_places(self, channel: Channel[Said]) -> bool:
        """Sockets for where there are none; whether something is still awaited."""
        plan = self._plan(self._listening, complete=self._synced)
        for key in plan.close:
            await channel.send(Close(key))
            del self._listening[key]
        for place in plan.sources:
            await channel.send(SetSources(place.namespace, place.sources))
            known = self._listening[place.namespace]
            self._listening[place.namespace] = msgspec.structs.replace(known, sources=place.sources)
        for place in plan.open:
            await self._open(channel, place)
        for key in self._problems.keys() - self._wanted.places.keys():
            del self._problems[key]
        return bool(plan.missing or self._problems)

    async def _open(self, channel: Channel[Said], place: Place) -> None:
        key = place.namespace
        try:
            opened = await asyncio.to_thread(self._sockets.open, place)
        except REFUSALS as error:
            if self._problems.get(key) != str(error):
                LOG.warning("metadata cannot be served in %s: %s", key, error)
                self._problems[key] = str(error)
                self._news()
            return
        try:
            await channel.send(Listen(key, opened.listening), opened.descriptors())
        finally:
            opened.close()
        self._listening[key] = opened.listening
        self._problems.pop(key, None)
