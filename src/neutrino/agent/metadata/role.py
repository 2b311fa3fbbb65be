"""The metadata role: keeps the proxy's listeners and instances as desired.

On each connection to the proxy the role receives the proxy's listeners, sends all instances, then only changes. Before the
first `synced` nothing is removed: the proxy's state may be newer than the cache.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from neutrino import __version__
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.metadata.channel import Channel, ChannelClosed, connect
from neutrino.agent.metadata.desired import NETWORK, DesiredMetadata, ListenerPlan, plan_listeners
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
from neutrino.agent.role import Drift, RoleFeed
from neutrino.agent.supervisor import Service, Supervisor
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.feed.state import StateChange
from neutrino.model import agents

LOG = logging.getLogger(__name__)
CONNECT_SECONDS = 0.05  # between attempts
START_SECONDS = 10.0  # for a started proxy to send `Hello`
CHECK_SECONDS, FIRST_CHECK = 2.0, 0.05  # between checks of the namespaces; shorter while one is missing


@dataclasses.dataclass(frozen=True)
class MetadataOptions:
    host: str
    socket: str  # the proxy's control socket
    metadata_port: int  # in router namespaces; 0: none is served there
    dhcp: DhcpSettings
    settings: ProxySettings


class MetadataRole:
    name = "metadata"

    def __init__(
        self,
        feed: RoleFeed,
        options: MetadataOptions,
        daemon: Daemon,
        supervisor: Supervisor,
        sockets: NamespaceSockets,
        description: agents.AgentState,
        report_soon: Callable[[], None] = lambda: None,
    ) -> None:
        self._feed = feed
        self._options = options
        self._daemon = daemon
        self._supervisor = supervisor
        self._sockets = sockets
        self._description = description
        self._report_soon = report_soon
        self._synced = False
        self._dirty = asyncio.Event()
        self._desired = DesiredMetadata(feed.state, options.host, options.metadata_port, options.dhcp)
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
        configurations = {
            **self._description.configurations,
            "listening": len(self._listeners),
            agents.PROBLEMS: dict(sorted(problems.items())[:10]),
        }
        yield dataclasses.replace(self._description, configurations=configurations)

    async def settle(self) -> None:
        return None  # what was sent is applied by the proxy

    async def find(self) -> Drift:
        self._desired.index()
        self._render()
        try:
            channel = connect(self._options.socket, PROXY_MESSAGES)
        except OSError as error:
            plan = "metadata: the process is not running" if self._desired.listeners else ""
            return Drift(self.name, plan, {"process": str(error)})
        try:
            async with asyncio.timeout(START_SECONDS):
                hello, _ = await channel.receive()
        except (ChannelClosed, TimeoutError) as error:
            return Drift(self.name, "metadata: the process does not answer", {"process": str(error)})
        finally:
            channel.close()
        plan = self._plan(hello.listeners, complete=self._feed.is_synced).text()
        return Drift(self.name, plan, dict(self._desired.problems))

    def _render(self) -> None:
        before = dict(self._desired.problems)
        for key, text in self._desired.render_stale().items():
            LOG.error("%s", text)
            self._feed.error(NETWORK, key.removeprefix(NAMESPACE_PREFIX), text)
        if self._desired.problems != before:
            self._report_soon()

    def _plan(self, actual: Mapping[str, Listener], *, complete: bool) -> ListenerPlan:
        desired = self._desired.listeners
        inodes = {namespace: self._sockets.inode(namespace) for namespace in desired}
        return plan_listeners(desired, actual, inodes, complete=complete)

    # --- the proxy process ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._desired.index()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._supervisor.run())
            group.create_task(self._control_proxy())

    async def _control_proxy(self) -> None:
        """Keep a connection to the proxy. The supervisor respawns a proxy that exits.

        One that runs but does not answer, because its socket was deleted or it hangs, is restarted here.
        """
        await self._start()
        while True:
            hello: Hello | None = None
            with contextlib.ExitStack() as connected:
                try:
                    async with asyncio.timeout(START_SECONDS):
                        channel = await self._connect()
                        connected.callback(channel.close)
                        hello, _ = await channel.receive()
                    if hello.release == __version__:
                        await self._update_proxy(channel, hello)
                    else:  # the messages may differ; a restart costs instances a moment at most
                        await self._restart(f"it is of release {hello.release}")
                except (ChannelClosed, TimeoutError) as error:
                    reason = str(error) or f"nothing was received for {START_SECONDS:g} s"
                    LOG.warning("the connection to the metadata proxy is lost: %s", reason)
                    self._set_proxy_problem("the connection is lost")
                    if hello is None and self._supervisor.running(self._daemon.name) is not None:
                        await self._restart(reason)
            self._listeners.clear()

    async def _connect(self) -> Channel[Hello]:
        while True:
            try:
                return connect(self._options.socket, PROXY_MESSAGES)
            except OSError as error:
                self._set_proxy_problem(f"it does not answer: {error}")
            await asyncio.sleep(CONNECT_SECONDS)

    async def _restart(self, reason: str) -> None:
        LOG.warning("the metadata proxy is restarted: %s", reason)
        self._set_proxy_problem(reason)
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
                self._set_proxy_problem(str(error))
                LOG.error("%s; next attempt in %.1f s", error, delay)
            await asyncio.sleep(delay)
            delay = min(2 * delay, 30.0)

    def _set_proxy_problem(self, problem: str) -> None:
        if bool(problem) != bool(self._proxy_problem):
            self._report_soon()
        self._proxy_problem = problem

    # --- one connection ---------------------------------------------------------------------------------------------

    async def _update_proxy(self, channel: Channel[Hello], hello: Hello) -> None:
        """Send the desired state, and changes of it, until the connection is closed."""
        self._listeners = dict(hello.listeners)
        await channel.send(TakeOver(self._options.settings))
        closed = asyncio.create_task(channel.receive())  # the proxy sends nothing more: this ends with the connection
        closed.add_done_callback(lambda _: self._dirty.set())
        try:
            await self._send_changes(channel, closed)
        finally:
            closed.cancel()
            with contextlib.suppress(asyncio.CancelledError, ChannelClosed):
                await closed

    async def _send_changes(self, channel: Channel[Hello], closed: asyncio.Task[Any]) -> None:
        sent_as: bool | None = None  # whether all ports were sent as a snapshot; None: not yet
        delay = FIRST_CHECK
        while not closed.done():
            self._dirty.clear()
            if sent_as != self._synced:
                sent_as = self._synced
                self._desired.index()  # the state may have changes that this role was not notified of yet
                await channel.send(UpdatePorts(tuple(self._desired.all_instances()), snapshot=sent_as))
            put, gone = self._desired.changed_instances()
            if put or gone:
                # Before the first sync a port that the cache lacks may exist: none is removed from the proxy.
                await channel.send(UpdatePorts(tuple(put), tuple(gone) if self._synced else ()))
            self._render()
            waiting = await self._update_listeners(channel)
            self._set_proxy_problem("")
            delay = min(2 * delay, CHECK_SECONDS) if waiting else CHECK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._dirty.wait()
                    delay = FIRST_CHECK
        closed.result()

    async def _update_listeners(self, channel: Channel[Hello]) -> bool:
        """Apply the plan of listeners; whether a namespace is still missing or failed."""
        plan = self._plan(self._listeners, complete=self._synced)
        for key in plan.close:
            await channel.send(SetListener(key, None))
            del self._listeners[key]
        for key, wanted in plan.sources.items():
            await channel.send(SetListener(key, wanted))
            self._listeners[key] = wanted
        for key, wanted in plan.open.items():
            await self._open(channel, key, wanted)
        for key in self._problems.keys() - self._desired.listeners.keys():
            del self._problems[key]
        return bool(plan.missing or self._problems)

    async def _open(self, channel: Channel[Hello], key: str, wanted: Listener) -> None:
        try:
            opened, sockets = await asyncio.to_thread(self._sockets.open, key, wanted)
        except REFUSALS as error:
            if self._problems.get(key) != str(error):
                LOG.warning("metadata cannot be served in %s: %s", key, error)
                self._problems[key] = str(error)
                self._report_soon()
            return
        try:
            await channel.send(SetListener(key, opened), [each.fileno() for each in sockets])
        finally:
            for each in sockets:
                each.close()  # the proxy has duplicates by now
        self._listeners[key] = opened
        self._problems.pop(key, None)
