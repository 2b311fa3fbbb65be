"""The metadata role: keeps the proxy's listeners and instances as desired.

On each connection to the proxy the role receives the proxy's listeners, sends all instances, then only changes. Before the
first `synced` nothing is removed: the proxy's state may be newer than the cache.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from neutrino import __version__
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.metadata.channel import Channel, ChannelClosed, connect
from neutrino.agent.metadata.desired import NETWORK, DesiredMetadata, ListenerPlan, MetadataNamespace, plan_listeners
from neutrino.agent.metadata.messages import (
    MAX_PORTS,
    PROXY_MESSAGES,
    Close,
    Configure,
    Instance,
    Listen,
    ListenerState,
    ListenerStates,
    ProxyMessage,
    ProxySettings,
    SetSources,
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
        self._listeners: dict[str, ListenerState] = {}  # of the proxy, by namespace
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
            plan = "metadata: the process is not running" if self._desired.namespaces else ""
            return Drift(self.name, plan, {"process": str(error)})
        try:
            async with asyncio.timeout(START_SECONDS):
                actual, _ = await self._receive_listeners(channel)
        except (ChannelClosed, TimeoutError) as error:
            return Drift(self.name, "metadata: the process does not answer", {"process": str(error)})
        finally:
            channel.close()
        plan = self._plan(actual, complete=self._feed.is_synced).text()
        return Drift(self.name, plan, dict(self._desired.problems))

    def _render(self) -> None:
        before = dict(self._desired.problems)
        for key, text in self._desired.render_stale().items():
            LOG.error("%s", text)
            self._feed.error(NETWORK, key.removeprefix(NAMESPACE_PREFIX), text)
        if self._desired.problems != before:
            self._report_soon()

    def _plan(self, actual: dict[str, ListenerState], *, complete: bool) -> ListenerPlan:
        spaces = self._desired.namespaces
        inodes = {key: self._sockets.inode(key) for key in spaces}
        return plan_listeners(spaces.values(), actual, inodes, complete=complete)

    # --- the proxy process ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._desired.index()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._supervisor.run())
            group.create_task(self._control_proxy())

    async def _control_proxy(self) -> None:
        """Connect to the proxy for as long as it runs. The supervisor respawns one that exits.

        A proxy that runs but does not answer, because its socket was deleted or it hangs, is restarted here.
        """
        await self._start()
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            try:
                channel = connect(self._options.socket, PROXY_MESSAGES)
            except OSError as error:
                self._set_proxy_problem(f"it does not answer: {error}")
                if loop.time() - since > START_SECONDS and self._supervisor.running(self._daemon.name) is not None:
                    await self._restart("its socket is gone")
                    since = loop.time()
                await asyncio.sleep(CONNECT_SECONDS)
                continue
            try:
                await self._update_proxy(channel)
            except ChannelClosed as error:
                LOG.warning("the connection to the metadata proxy is lost: %s", error)
                self._set_proxy_problem("the connection is lost")
            except TimeoutError:
                await self._restart(f"it has sent nothing for {START_SECONDS:g} s")
            finally:
                channel.close()
                self._listeners.clear()
                since = loop.time()

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

    async def _update_proxy(self, channel: Channel[ProxyMessage]) -> None:
        async with asyncio.timeout(START_SECONDS):
            self._listeners, release = await self._receive_listeners(channel)
        if release != __version__:  # the messages may differ; a restart costs instances a moment at most
            await self._restart(f"it is of release {release}")
            return
        await channel.send(TakeOver())
        await channel.send(Configure(self._options.settings))  # every time: they may have changed with the restart
        closed = asyncio.create_task(self._wait_closed(channel))
        try:
            await self._send_changes(channel, closed)
        finally:
            closed.cancel()
            with contextlib.suppress(asyncio.CancelledError, ChannelClosed):
                await closed

    async def _receive_listeners(self, channel: Channel[ProxyMessage]) -> tuple[dict[str, ListenerState], str]:
        """The proxy's listeners, and its release."""
        listeners: dict[str, ListenerState] = {}
        while True:
            message, _ = await channel.receive()
            if not isinstance(message, ListenerStates):
                return listeners, message.release
            listeners.update(message.listening)

    async def _wait_closed(self, channel: Channel[ProxyMessage]) -> None:
        """After `Hello` the proxy sends nothing more: receiving ends with the connection."""
        while True:
            await channel.receive()

    async def _send_changes(self, channel: Channel[ProxyMessage], closed: asyncio.Task[None]) -> None:
        sent_snapshot = self._synced
        await self._send_all_ports(channel, snapshot=sent_snapshot)
        delay = FIRST_CHECK
        while not closed.done():
            self._dirty.clear()
            if self._synced and not sent_snapshot:
                sent_snapshot = True
                await self._send_all_ports(channel, snapshot=True)
            put, gone = self._desired.changed_instances()
            # Before the first sync a port that the cache lacks may exist: none is removed from the proxy.
            await self._send_ports(channel, put, gone if self._synced else ())
            self._render()
            waiting = await self._update_listeners(channel)
            self._set_proxy_problem("")
            delay = min(2 * delay, CHECK_SECONDS) if waiting else CHECK_SECONDS
            if await self._wait_dirty(closed, delay):
                delay = FIRST_CHECK
        closed.result()

    async def _wait_dirty(self, closed: asyncio.Task[None], seconds: float) -> bool:
        """Wait for a change, the end of the connection or the timeout; whether there is a change."""
        dirty = asyncio.create_task(self._dirty.wait())
        try:
            await asyncio.wait([closed, dirty], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return dirty.done()
        finally:
            dirty.cancel()

    async def _send_all_ports(self, channel: Channel[ProxyMessage], *, snapshot: bool) -> None:
        """`snapshot`: the proxy forgets all other ports."""
        if snapshot:
            self._desired.index()  # the state may have changes that this role was not notified of yet
            await channel.send(UpdatePorts(step="begin"))
        await self._send_ports(channel, self._desired.all_instances())
        if snapshot:
            await channel.send(UpdatePorts(step="end"))

    async def _send_ports(
        self, channel: Channel[ProxyMessage], put: Sequence[Instance], gone: Sequence[str] = ()
    ) -> None:
        for start in range(0, max(len(put), len(gone)), MAX_PORTS):
            part = slice(start, start + MAX_PORTS)
            await channel.send(UpdatePorts(tuple(put[part]), tuple(gone[part])))

    async def _update_listeners(self, channel: Channel[ProxyMessage]) -> bool:
        """Apply the plan of listeners; whether a namespace is still missing or failed."""
        plan = self._plan(self._listeners, complete=self._synced)
        for key in plan.close:
            await channel.send(Close(key))
            del self._listeners[key]
        for space in plan.sources:
            await channel.send(SetSources(space.namespace, space.sources))
            known = self._listeners[space.namespace]
            self._listeners[space.namespace] = msgspec.structs.replace(known, sources=space.sources)
        for space in plan.open:
            await self._open(channel, space)
        for key in self._problems.keys() - self._desired.namespaces.keys():
            del self._problems[key]
        return bool(plan.missing or self._problems)

    async def _open(self, channel: Channel[ProxyMessage], space: MetadataNamespace) -> None:
        key = space.namespace
        try:
            opened = await asyncio.to_thread(self._sockets.open, space)
        except REFUSALS as error:
            if self._problems.get(key) != str(error):
                LOG.warning("metadata cannot be served in %s: %s", key, error)
                self._problems[key] = str(error)
                self._report_soon()
            return
        try:
            await channel.send(Listen(key, opened.state), opened.descriptors())
        finally:
            opened.close()  # the proxy has duplicates by now
        self._listeners[key] = opened.state
        self._problems.pop(key, None)
