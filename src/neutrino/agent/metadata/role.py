"""The metadata role: keeps the proxy's listeners and instances as desired.

On each connection to the proxy the role receives the proxy's listeners, sends all instances, then only changes. Before the
first `synced` nothing is removed: the proxy's state may be newer than the cache.

A haproxy of Neutron's agent in a namespace is ended when our proxy listens there. That is checked once for each connection
to the proxy, so that an agent that was killed in between is followed by one that completes it, and for new listeners.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from neutrino import __version__
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.metadata import counts
from neutrino.agent.metadata.channel import Channel, ChannelClosed, connect
from neutrino.agent.metadata.desired import NETWORK, DesiredMetadata, ListenerPlan, plan_listeners
from neutrino.agent.metadata.haproxy import NeutronProxies
from neutrino.agent.metadata.messages import (
    PROXY_MESSAGES,
    Hello,
    Listener,
    ProxySettings,
    SetListener,
    TakeOver,
    UpdatePorts,
)
from neutrino.agent.metadata.sockets import REFUSALS, NamespaceSockets
from neutrino.agent.runtime.measures import Measure, of_daemons, of_loop
from neutrino.agent.runtime.role import Drift, RoleFeed, described
from neutrino.agent.runtime.supervisor import Service, Supervisor
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.feed.state import StateChange
from neutrino.metrics.catalog import METADATA_REQUESTS
from neutrino.model import agents

LOG = logging.getLogger(__name__)
CONNECT_SECONDS = 0.05  # between attempts
START_SECONDS = 10.0  # for a started proxy to send `Hello`; twice as long after each restart, for slow machines
MAX_START_SECONDS = 600.0
CHECK_SECONDS, FIRST_CHECK = 2.0, 0.05  # between checks of the namespaces; shorter while one is missing


@dataclasses.dataclass(frozen=True)
class MetadataOptions:
    socket: str  # the proxy's control socket
    metadata_port: int  # in router namespaces; 0: none is served there
    dhcp: DhcpSettings
    settings: ProxySettings


@dataclasses.dataclass
class MetadataRole:
    feed: RoleFeed
    options: MetadataOptions
    daemon: Daemon
    supervisor: Supervisor
    sockets: NamespaceSockets
    neutron: NeutronProxies
    description: agents.AgentState
    report_soon: Callable[[], None] = lambda: None
    name: str = dataclasses.field(default="metadata", init=False)

    def __post_init__(self) -> None:
        self._synced = False
        self._dirty = asyncio.Event()
        self._desired = DesiredMetadata(self.feed.state, self.options.metadata_port, self.options.dhcp)
        self._listeners: dict[str, Listener] = {}  # of the proxy, by namespace
        self._problems: dict[str, str] = {}
        self._proxy_problem = "the process has not started yet"

    # --- calls of the agent -----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if self._desired.changed(change):
            self._dirty.set()

    def synced(self) -> None:
        if not self._synced:
            self._synced = True
            self._dirty.set()

    def applied(self) -> int | None:
        return None

    def describe(self) -> Iterable[agents.AgentState]:
        problems = {**self._problems, **self._desired.problems}
        if self._proxy_problem:
            problems["process"] = self._proxy_problem
        values = {"listening": len(self._listeners), **self.supervisor.described()}
        yield described(self.description, values, problems)

    def measures(self) -> Iterator[Measure]:
        problems = len(self._problems) + len(self._desired.problems) + bool(self._proxy_problem)
        yield from of_loop(self.name, int(self._dirty.is_set()), problems)
        yield from of_daemons(self.supervisor)
        for status, number in counts.read(self.options.socket).items():
            yield METADATA_REQUESTS, (status,), number

    async def finish(self) -> None:
        return None  # what was sent is applied by the proxy

    async def find(self) -> Drift:
        self._desired.index()
        self._render()
        try:
            channel = await asyncio.to_thread(self._connect, START_SECONDS)
        except OSError as error:
            plan = "metadata: the process is not running" if self._desired.listeners else ""
            return Drift(self.name, plan, {"process": str(error)})
        try:
            hello, _ = await asyncio.to_thread(channel.receive)
        except ChannelClosed as error:
            return Drift(self.name, "metadata: the process does not answer", {"process": str(error)})
        finally:
            channel.socket.close()
        plan = self._plan(hello.listeners, complete=self.feed.is_synced).text()
        others = await asyncio.to_thread(self.neutron.find, self._desired.listeners)
        lines = [*plan.splitlines(), *(f"metadata: end haproxy of Neutron's agent in {name}" for name in others)]
        return Drift(self.name, "\n".join(lines), dict(self._desired.problems))

    def _render(self) -> None:
        before = dict(self._desired.problems)
        for key, text in self._desired.render_stale().items():
            LOG.error("%s", text)
            self.feed.error(NETWORK, key.removeprefix(NAMESPACE_PREFIX), text)
        if self._desired.problems != before:
            self.report_soon()

    def _plan(self, actual: Mapping[str, Listener], *, complete: bool) -> ListenerPlan:
        desired = self._desired.listeners
        inodes = {namespace: self.sockets.inode(namespace) for namespace in desired}
        return plan_listeners(desired, actual, inodes, complete=complete)

    # --- the proxy process ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._desired.index()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.supervisor.run())
            group.create_task(self._control_proxy())

    async def _control_proxy(self) -> None:
        """Keep a connection to the proxy. The supervisor respawns a proxy that exits.

        One that runs but does not answer, because its socket was deleted or it hangs, is restarted here.
        """
        await self._start()
        loop = asyncio.get_running_loop()
        since, patience = loop.time(), START_SECONDS
        while True:
            try:
                channel = await asyncio.to_thread(self._connect, patience)
                patience = START_SECONDS
            except OSError as error:
                self._set_proxy_problem(f"it does not answer: {error}")
                if loop.time() - since > patience and self.supervisor.running(self.daemon.name) is not None:
                    await self._restart("its socket is gone")
                    since, patience = loop.time(), min(2 * patience, MAX_START_SECONDS)
                await asyncio.sleep(CONNECT_SECONDS)
                continue
            try:
                await self._update_proxy(channel)
            except ChannelClosed as error:
                LOG.warning("the connection to the metadata proxy is lost: %s", error)
                self._set_proxy_problem("the connection is lost")
            finally:
                loop.remove_reader(channel.socket)
                channel.socket.close()
                self._listeners.clear()  # the next `Hello` says what the proxy has
                since = loop.time()

    def _connect(self, seconds: float) -> Channel[Hello]:
        return connect(self.options.socket, PROXY_MESSAGES, seconds)

    async def _restart(self, reason: str) -> None:
        LOG.warning("the metadata proxy is restarted: %s", reason)
        self._set_proxy_problem(reason)
        with contextlib.suppress(ProcessError):
            await self.supervisor.stop(self.daemon.name)
        await self._start()

    async def _start(self) -> None:
        delay = CONNECT_SECONDS
        while True:
            try:
                await self.supervisor.ensure(Service(self.daemon))
                return
            except ProcessError as error:
                self._set_proxy_problem(str(error))
                LOG.error("%s; next attempt in %.1f s", error, delay)
            await asyncio.sleep(delay)
            delay = min(2 * delay, 30.0)

    def _set_proxy_problem(self, problem: str) -> None:
        if bool(problem) != bool(self._proxy_problem):
            self.report_soon()
        self._proxy_problem = problem

    # --- one connection ---------------------------------------------------------------------------------------------

    async def _update_proxy(self, channel: Channel[Hello]) -> None:
        """Send the desired state, and changes of it, until the connection is closed."""
        try:
            hello, _ = await asyncio.to_thread(channel.receive)
        except ChannelClosed as error:
            await self._restart(f"it does not answer: {error}")
            return
        if hello.release != __version__:  # the messages may differ; a restart costs instances a moment at most
            await self._restart(f"it is of release {hello.release}")
            return
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def on_readable() -> None:  # the proxy sends nothing more: the socket is readable when it is closed
            loop.remove_reader(channel.socket)
            closed.set()
            self._dirty.set()

        loop.add_reader(channel.socket, on_readable)
        self._listeners = dict(hello.listeners)
        messages: list[msgspec.Struct] = [TakeOver(self.options.settings)]
        sent_as: bool | None = None  # whether all ports were sent as a snapshot; None: not yet
        replaced = False  # whether all namespaces were searched for haproxy
        delay = FIRST_CHECK
        while not closed.is_set():
            self._dirty.clear()  # before the state is read: a later change sets it again
            if sent_as != self._synced:
                sent_as = self._synced
                self._desired.index()  # the state may have changes that this role was not notified of yet
                messages.append(UpdatePorts(tuple(self._desired.all_instances()), snapshot=sent_as))
            put, gone = self._desired.changed_instances()
            if put or gone:
                # Before the first sync a port that the cache lacks may exist: none is removed from the proxy.
                messages.append(UpdatePorts(tuple(put), tuple(gone) if self._synced else ()))
            self._render()
            plan = self._plan(self._listeners, complete=self._synced)
            self._listeners, problems = await asyncio.to_thread(self._apply, channel, messages, plan, self._listeners)
            messages = []
            if self._synced and (plan.open or not replaced):
                # Also where ours cannot be opened: haproxy may have the address. It is tried again soon.
                await asyncio.to_thread(
                    self.neutron.end, plan.open.keys() if replaced else {*plan.open, *self._listeners}
                )
                replaced = True
            self._set_problems(problems)
            self._set_proxy_problem("")
            delay = min(2 * delay, CHECK_SECONDS) if plan.missing or problems else CHECK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._dirty.wait()
                    delay = FIRST_CHECK
        raise ChannelClosed("closed by the proxy")

    def _apply(
        self,
        channel: Channel[Hello],
        messages: Iterable[msgspec.Struct],
        plan: ListenerPlan,
        before: Mapping[str, Listener],
    ) -> tuple[dict[str, Listener], dict[str, str]]:
        """Blocking. The listeners that the proxy has then, and namespaces in which none can be opened, with the reason."""
        for message in messages:  # ports first: an instance that connects to a new listener is known
            channel.send(message)
        for key in plan.close:
            channel.send(SetListener(key, None))
        for key, wanted in plan.sources.items():
            channel.send(SetListener(key, wanted))
        opened: dict[str, Listener] = {}
        problems: dict[str, str] = {}
        for key, wanted in plan.open.items():
            try:
                opened[key], sockets = self.sockets.open(key, wanted)
            except REFUSALS as error:
                problems[key] = str(error)
                continue
            try:
                channel.send(SetListener(key, opened[key]), [socket.fileno() for socket in sockets])
            finally:
                for socket in sockets:
                    socket.close()  # the proxy has duplicates by now
        kept = {key: each for key, each in before.items() if key not in plan.close}
        return {**kept, **plan.sources, **opened}, problems

    def _set_problems(self, problems: dict[str, str]) -> None:
        for key, text in problems.items():
            if self._problems.get(key) != text:
                LOG.warning("metadata cannot be served in %s: %s", key, text)
                self.report_soon()
        self._problems = problems
