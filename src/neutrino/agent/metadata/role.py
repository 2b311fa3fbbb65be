"""The metadata role: the process has sockets in every namespace that should answer, and knows every port that may ask.

What is wanted is known by key (a namespace) and by port; what changed is looked at anew when there is somebody to tell.
With each connection to the process the role hears what it has, tells it all it should know, and then differences. Until
the server has told everything, nothing is taken away: the process may know more than our memory does.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from neutrino import __version__
from neutrino.agent.dhcp.served import NAMESPACE_PREFIX, served
from neutrino.agent.dhcp.settings import Settings as DhcpSettings
from neutrino.agent.l3.names import router_namespace
from neutrino.agent.metadata.channel import Channel, ChannelClosed, connect
from neutrino.agent.metadata.desired import (
    INFRASTRUCTURE,
    ListeningPlan,
    Place,
    Refused,
    plan_listening,
    render_instance,
    render_network_place,
    render_router_place,
)
from neutrino.agent.metadata.messages import (
    MOST_PORTS,
    SAID,
    Close,
    Configure,
    Has,
    Instance,
    Listen,
    Listening,
    Networks,
    Ports,
    Said,
    Settings,
    Take,
)
from neutrino.agent.metadata.sockets import REFUSALS, Opened
from neutrino.agent.processes import ProcessWatch
from neutrino.agent.role import Found, Speaker
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.feed.state import Change
from neutrino.model import agents
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
ROUTER, NETWORK, PORT = "router", "dhcp_network", "dhcp_port"
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
        feed: Speaker,
        options: Options,
        daemon: Daemon,
        watch: ProcessWatch,
        sockets: Sockets,
        description: agents.AgentState,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self._feed = feed
        self._options = options
        self._daemon = daemon
        self._watch = watch
        self._sockets = sockets
        self._description = description
        self._news = news
        self._told = False
        self._dirty = asyncio.Event()
        self._places: dict[str, Place] = {}
        self._stale_places: set[str] = set()  # namespaces of which we have to think again
        self._stale_ports: set[str] = set()
        self._own_ports: defaultdict[str, dict[str, DhcpPort]] = defaultdict(dict)  # of routers and DHCP, by network
        self._listening: dict[str, Listening] = {}  # as the process has it
        self._refused: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._process_problem = "the process has not started yet"

    # --- what the agent asks ----------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        if change.kind == ROUTER:
            self._stale_places.add(router_namespace(change.id))
            self._metadata_networks_too(change)
        elif change.kind == NETWORK:
            self._stale_places.add(f"{NAMESPACE_PREFIX}{change.id}")
        elif change.kind == PORT:
            self._stale_ports.add(change.id)
            self._note_own(change)
        else:
            return
        self._dirty.set()

    def _note_own(self, change: Change) -> None:
        """Ports of routers and of DHCP say whether a network is isolated, and whether it is served here."""
        for port in (change.old, change.new):
            if isinstance(port, DhcpPort) and port.device_owner.startswith(INFRASTRUCTURE):
                self._own_ports[port.network_id].pop(port.id, None)
                if not self._own_ports[port.network_id]:
                    del self._own_ports[port.network_id]
                self._stale_places.add(f"{NAMESPACE_PREFIX}{port.network_id}")
        new = change.new
        if isinstance(new, DhcpPort) and new.device_owner.startswith(INFRASTRUCTURE):
            self._own_ports[new.network_id][new.id] = new

    def _metadata_networks_too(self, change: Change) -> None:
        """A metadata network is served in the name of its router's other networks."""
        if self._options.dhcp.enable_metadata_network:
            for router in (change.old, change.new):
                for interface in router.interfaces if isinstance(router, Router) else ():
                    self._stale_places.add(f"{NAMESPACE_PREFIX}{interface.network_id}")

    def synced(self) -> None:
        if not self._told:
            self._told = True
            self._dirty.set()

    def applied(self) -> int | None:
        return None

    def describe(self) -> Iterable[agents.AgentState]:
        problems = {**self._problems, **self._refused}
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

    async def find(self) -> Found:
        self._index()
        self._think()
        try:
            channel = connect(self._options.socket, SAID)
        except OSError as error:
            return Found(
                self.name, "metadata: the process does not run" if self._places else "", {"process": str(error)}
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                has, _ = await self._hear(channel)
        except (ChannelClosed, TimeoutError) as error:
            return Found(self.name, "metadata: the process does not answer", {"process": str(error)})
        finally:
            channel.close()
        return Found(self.name, self._plan(has).text(), dict(self._refused))

    # --- what is wanted ---------------------------------------------------------------------------------------------

    def _index(self) -> None:
        """All over again, from the state as it is."""
        state = self._feed.state.objects
        self._own_ports.clear()
        for port in state[PORT].values():
            if isinstance(port, DhcpPort) and port.device_owner.startswith(INFRASTRUCTURE):
                self._own_ports[port.network_id][port.id] = port
        self._stale_places |= {router_namespace(key) for key in state[ROUTER]}
        self._stale_places |= {f"{NAMESPACE_PREFIX}{key}" for key in state[NETWORK]}
        self._stale_places |= self._places.keys()

    def _think(self) -> None:
        """Places whose state is another, by that state."""
        stale, self._stale_places = self._stale_places, set()
        for key in stale:
            refused = self._refused.pop(key, None)
            try:
                place = self._place(key)
            except Refused as error:
                place = None
                self._refused[key] = str(error)
                if str(error) != refused:
                    LOG.error("%s", error)
                    self._feed.error(NETWORK, key.removeprefix(NAMESPACE_PREFIX), str(error))
                    self._news()
            if place is not None:
                self._places[key] = place
            else:
                self._places.pop(key, None)

    def _place(self, key: str) -> Place | None:
        objects = self._feed.state.objects
        if key.startswith(NAMESPACE_PREFIX):
            network_id = key.removeprefix(NAMESPACE_PREFIX)
            network = objects[NETWORK].get(network_id)
            if not isinstance(network, DhcpNetwork):
                return None
            ports, distributed = self._own_ports.get(network_id, {}).values(), self._options.dhcp.dhcp_distributed
            this = served(network, ports, self._options.host, distributed=distributed)
            routers = {k: each for k, each in objects[ROUTER].items() if isinstance(each, Router)}
            return render_network_place(this, self._options.dhcp, routers)
        router = objects[ROUTER].get(key.removeprefix(router_namespace("")))
        return render_router_place(router, self._options.metadata_port) if isinstance(router, Router) else None

    def _plan(self, has: dict[str, Listening]) -> ListeningPlan:
        inodes = {key: self._sockets.inode(key) for key in self._places}
        return plan_listening(self._places.values(), has, inodes)

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._index()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run())
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
                if loop.time() - since > START_SECONDS and self._watch.running(self._daemon.name) is not None:
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
            await self._watch.drop(self._daemon.name)
        await self._start()

    async def _start(self) -> None:
        delay = CONNECT_SECONDS
        while True:
            try:
                await self._watch.keep(self._daemon)
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
        whole = self._told
        await self._tell_all(channel, whole)
        delay = FIRST_LOOK
        while not ended.done():
            self._dirty.clear()
            if self._told and not whole:
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
            self._index()  # changes that were not brought to us yet are in the state already
        self._stale_ports.clear()
        instances = [instance for port in self._feed.state.objects[PORT].values() if (instance := _instance(port))]
        if whole:
            await channel.send(Ports(step="begin"))
        await self._send(channel, instances)
        if whole:
            await channel.send(Ports(step="end"))

    async def _tell_ports(self, channel: Channel[Said]) -> None:
        stale, self._stale_ports = self._stale_ports, set()
        put, gone = [], []
        for port_id in stale:
            instance = _instance(self._feed.state.get(PORT, port_id))
            if instance is not None:
                put.append(instance)
            else:
                gone.append(port_id)
        await self._send(channel, put, gone)

    async def _send(self, channel: Channel[Said], put: Sequence[Instance], gone: Sequence[str] = ()) -> None:
        for start in range(0, max(len(put), len(gone)), MOST_PORTS):
            part = slice(start, start + MOST_PORTS)
            await channel.send(Ports(tuple(put[part]), tuple(gone[part])))

    async def _tell_places(self, channel: Channel[Said]) -> bool:
        """Sockets for where there are none; whether something is still awaited."""
        plan = self._plan(self._listening)
        for key in plan.close if self._told else ():
            await channel.send(Close(key))
            del self._listening[key]
        for place in plan.networks:
            await channel.send(Networks(place.namespace, place.networks))
            known = self._listening[place.namespace]
            self._listening[place.namespace] = msgspec.structs.replace(known, networks=place.networks)
        for place in plan.open:
            await self._open(channel, place)
        for key in self._problems.keys() - self._places.keys():
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


def _instance(port: object) -> Instance | None:
    return render_instance(port) if isinstance(port, DhcpPort) else None
