"""The DHCP role: a network is looked at whenever something of it changes, and never because time has passed.

Four things bring a network into the queue: the server told of it or of one of its ports, its switch port changed, its
dnsmasq ended, or, for doubts, the repair interval went by. Whoever takes it out looks at the newest state, so a thousand
ports that come at once cost as many rounds as there is time for.

Until the server has told everything, only networks that nothing serves are started, from what we remember: what runs may
know more than our memory does, and is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from neutrino.agent.dhcp.dnsmasq import DnsmasqError
from neutrino.agent.dhcp.reconcile import Outcome, Reconciler, marked_network
from neutrino.agent.dhcp.served import Served, served
from neutrino.agent.queue import WorkQueue, work
from neutrino.agent.role import Drift, RoleFeed
from neutrino.agent.switch import FIRST_RETRY, LONGEST_RETRY, Events, subscribe, wait_connected
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.ovsdb.api import Ovsdb, OvsdbError
from neutrino.feed.state import StateChange
from neutrino.model import agents
from neutrino.model.dhcp import OWNER, DhcpNetwork, DhcpPort

LOG = logging.getLogger(__name__)
NETWORK, PORT = "dhcp_network", "dhcp_port"
LAST = 100  # the priority of what is looked at for doubts
SHORT_LIFE = 5.0  # seconds; a dnsmasq that ends sooner is not started again at once
REFUSALS = (OvsdbError, NetlinkError, DnsmasqError, OSError)
RESPAWN, EXIT = "respawn", "exit"
MOST_LEFT_OUT = 3  # lines that a problem names one by one


def _text(left_out: Sequence[str]) -> str:
    more = len(left_out) - MOST_LEFT_OUT
    return "; ".join(left_out[:MOST_LEFT_OUT]) + (f"; and {more} more" if more > 0 else "")


class ChildEnded(Exception):
    """A dnsmasq ended, and the operator wants the agent to end with it."""


class DhcpRole:
    """`connect` gives the drivers once Open vSwitch can be reached, or raises OvsdbError."""

    name = "dhcp"

    def __init__(
        self,
        feed: RoleFeed,
        connect: Callable[[], tuple[Ovsdb, Reconciler]],
        describe: agents.AgentState,
        *,
        workers: int = 4,
        repair: Callable[[], float] = lambda: 60.0,
        child_action: str = RESPAWN,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self._feed = feed
        self._connect = connect
        self._description = describe
        self._workers = workers
        self._repair = repair
        self._child_action = child_action
        self._news = news
        self._queue: WorkQueue[str] = WorkQueue(first_delay=FIRST_RETRY, longest_delay=LONGEST_RETRY)
        self._ports: defaultdict[str, dict[str, DhcpPort]] = defaultdict(dict)  # by network
        self._reconciler: Reconciler | None = None
        self._synced = False
        self._heard = asyncio.Event()  # all that is up to a new position
        self._position: int | None = None
        # Ports that we said can get their lease, with the revision, and whose DHCP port we served from then.
        self._ready: dict[str, tuple[int, str]] = {}
        self._problems: dict[str, str] = {}
        self._watched: dict[str, tuple[int, int, float]] = {}  # network, to pid, its descriptor, since when
        self._ended = asyncio.Event()  # one, by itself

    # --- what the agent asks ----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if change.kind == NETWORK:
            self._queue.put(change.id)
        elif change.kind == PORT:
            for port in (change.old, change.new):
                if isinstance(port, DhcpPort):
                    self._ports[port.network_id].pop(port.id, None)
                    if port.network_id in self._feed.state.objects[NETWORK]:  # else it is behind a router served here
                        self._queue.put(port.network_id)
            if isinstance(change.new, DhcpPort):
                self._ports[change.new.network_id][change.new.id] = change.new

    def synced(self) -> None:
        if not self._synced:
            self._synced = True
            for network_id in self._feed.state.objects[NETWORK]:
                self._queue.put(network_id)
        self._heard.set()

    def applied(self) -> int | None:
        return self._position

    def describe(self) -> Iterable[agents.AgentState]:
        networks = [n for n in self._feed.state.objects[NETWORK].values() if isinstance(n, DhcpNetwork)]
        configurations = {
            **self._description.configurations,
            agents.NETWORKS: len(networks),
            "subnets": sum(len(network.subnets) for network in networks),
            "ports": len(self._feed.state.objects[PORT]),
            agents.PROBLEMS: dict(
                sorted({**self._feed.state.problems_of(NETWORK, PORT), **self._problems}.items())[:10]
            ),
        }
        yield dataclasses.replace(self._description, configurations=configurations)

    async def settle(self) -> None:
        await self._queue.idle()

    async def find(self) -> Drift:
        _, reconciler = await asyncio.to_thread(self._connect)
        self._index()
        return await asyncio.to_thread(self._find, reconciler)

    def _find(self, reconciler: Reconciler) -> Drift:
        lines, problems = [], {}
        wanted = dict(self._feed.state.objects[NETWORK])
        for network_id in sorted(wanted):
            try:
                looked = reconciler.look(self._served(network_id))
                lines.append(looked.text())
                if looked.left_out:
                    problems[network_id] = _text(looked.left_out)
            except Exception as error:
                problems[network_id] = str(error)
        if self._feed.is_synced:
            lines += [f"network {key} is not served here any more" for key in sorted(reconciler.known() - set(wanted))]
        return Drift(self.name, "\n".join(filter(None, lines)), problems)

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        ovsdb, reconciler = await wait_connected(self._connect)
        self._reconciler = reconciler
        subscribe(ovsdb, self._replugged)
        self._index()
        for network_id in self._feed.state.objects[NETWORK]:
            self._queue.put(network_id)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(work(self._queue, self._do, workers=self._workers))
                group.create_task(self._catch_up(reconciler))
                group.create_task(self._look_again())
                group.create_task(self._watch_children())
        finally:
            for network_id in tuple(self._watched):
                self._unwatch(network_id)

    def _replugged(self, events: Events) -> None:
        for network_id in {marked_network(event.interface.external_ids) for event in events} - {""}:
            self._queue.put(network_id)

    def _index(self) -> None:
        """From the cache there may be ports of which we have not been told yet."""
        for port in self._feed.state.objects[PORT].values():
            if isinstance(port, DhcpPort):
                self._ports[port.network_id][port.id] = port

    def _served(self, network_id: str) -> Served:
        network = self._feed.state.get(NETWORK, network_id) or DhcpNetwork(id=network_id)
        distributed = self._description.configurations.get(agents.DHCP_DISTRIBUTED) is True
        ports = self._ports.get(network_id, {}).values()
        return served(network, ports, self._description.host, distributed=distributed)

    async def _do(self, key: str) -> None:
        try:
            problem = await self._one(key)
        except REFUSALS as error:
            delay = self._queue.failed(key)
            self._failed(key, str(error), delay)
        except Exception as error:  # of this network alone: the others, and the agent, go on
            delay, text = self._queue.failed(key), f"{type(error).__name__}: {error}"
            if self._problems.get(key) != text:
                LOG.exception("network %s cannot be served", key)
            self._failed(key, text, delay)
        else:
            self._report(key, problem)
            self._queue.done(key)

    async def _one(self, network_id: str) -> str:
        """What of the network cannot be served although the rest is."""
        assert self._reconciler is not None
        this = self._served(network_id)
        if not self._synced and (
            not this.is_served or await asyncio.to_thread(self._reconciler.is_running, network_id)
        ):
            return ""
        if not this.is_served:
            self._unwatch(network_id)
        outcome = await asyncio.to_thread(self._reconciler.serve, this, complete=self._synced)
        if not this.is_served:
            for port_id in self._ports.get(network_id, {}) if self._feed.state.get(NETWORK, network_id) is None else ():
                self._ready.pop(port_id, None)
            return ""
        self._watch(network_id, outcome)
        self._tell_ready(this)
        return _text(outcome.left_out)

    def _failed(self, network_id: str, text: str, delay: float) -> None:
        LOG.warning("network %s is not served, again in %.1f s: %s", network_id, delay, text)
        self._report(network_id, text)

    def _report(self, network_id: str, problem: str) -> None:
        """What is wrong with it now; empty if nothing is."""
        if self._problems.get(network_id, "") == problem:
            return
        if problem:
            LOG.warning("network %s: %s", network_id, problem)
            self._problems[network_id] = problem
            self._feed.error(NETWORK, network_id, problem)
        else:
            del self._problems[network_id]
        self._news()

    def _tell_ready(self, this: Served) -> None:
        """Ports whose lease can be given now, each revision once; by a host with a copy of the DHCP port, its own ports.

        Said again when the network has come to us: before that, what we said was not what the port waited for.
        """
        served_from = this.own.device_id if this.own is not None else ""
        for port in this.ports:
            if this.is_copy and port.host != self._description.host:
                continue
            now = port.revision, served_from
            on_dhcp = any(f.subnet_id in this.subnets and this.subnets[f.subnet_id].enable_dhcp for f in port.fixed_ips)
            if port.device_owner != OWNER and on_dhcp and self._ready.get(port.id) != now:
                self._feed.port_ready(port.id, port.revision)
                self._ready[port.id] = now

    async def _catch_up(self, reconciler: Reconciler) -> None:
        """What was told is carried out once nothing is left to do; and what is not ours any more goes, at first."""
        await self._heard.wait()
        while True:
            try:
                known = await asyncio.to_thread(reconciler.known)
                break
            except REFUSALS as error:
                LOG.warning("what is on this host cannot be read, again in %.0f s: %s", LONGEST_RETRY, error)
            await asyncio.sleep(LONGEST_RETRY)
        for network_id in known - self._feed.state.objects[NETWORK].keys():
            self._queue.put(network_id)
        while True:
            await self._heard.wait()
            self._heard.clear()
            position = self._feed.position
            await self._queue.empty()
            self._position = position

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(self._repair())
            for network_id in self._feed.state.objects[NETWORK]:
                self._queue.put(network_id, LAST - 1)

    # --- processes --------------------------------------------------------------------------------------------------

    def _watch(self, network_id: str, outcome: Outcome) -> None:
        """Hear of the process's end at once; DnsmasqError if it has ended meanwhile."""
        known = self._watched.get(network_id)
        if known is not None and known[0] == outcome.pid:
            return
        self._unwatch(network_id)
        try:
            if outcome.pid is None:
                raise ProcessLookupError
            descriptor = os.pidfd_open(outcome.pid)
        except ProcessLookupError:
            if self._child_action == EXIT:
                self._ended.set()
            raise DnsmasqError("dnsmasq has ended by itself") from None
        loop = asyncio.get_running_loop()
        self._watched[network_id] = outcome.pid, descriptor, loop.time()
        loop.add_reader(descriptor, self._child_ended, network_id)

    def _unwatch(self, network_id: str) -> float:
        """Seconds that it was watched."""
        known = self._watched.pop(network_id, None)
        if known is None:
            return 0.0
        loop = asyncio.get_running_loop()
        loop.remove_reader(known[1])
        with contextlib.suppress(OSError):
            os.close(known[1])
        return loop.time() - known[2]

    def _child_ended(self, network_id: str) -> None:
        lived = self._unwatch(network_id)
        if self._queue.is_working(network_id):
            return  # it may be we who ended it; if not, that is seen when we are done and want to watch it
        LOG.error("dnsmasq of network %s has ended", network_id)
        if self._child_action == EXIT:
            self._ended.set()
        elif lived < SHORT_LIFE:
            self._queue.later(network_id, 1.0)
        else:
            self._queue.put(network_id)

    async def _watch_children(self) -> None:
        await self._ended.wait()
        raise ChildEnded("a dnsmasq has ended, and [AGENT] check_child_processes_action is exit")
