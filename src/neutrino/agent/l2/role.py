"""The L2 role: reconciles the switch after every event, and never because time has passed.

Events are: an object of the feed changed, OVSDB changed (a device was plugged, numbered, retagged or unplugged), or the
switch was restarted. A reconciliation covers the whole current state; events that arrive meanwhile queue one more. Timers
only look for drift: the number of our flows every few seconds, all of them once in a while.

From a tap to ACTIVE: OVSDB notifies of the interface, and a moment later of its ofport; the next reconciliation wires
the port; `port_up` with its revision goes to the server, which sets the port ACTIVE unless it has a newer revision.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from neutrino import request_ids
from neutrino.agent.l2.desired import HostState, why_silent
from neutrino.agent.l2.extension_api import cookie_of, port_owner
from neutrino.agent.l2.links import Link
from neutrino.agent.l2.links import described as described_links
from neutrino.agent.l2.migrations import Migrations
from neutrino.agent.l2.packet_logger import PacketLogger
from neutrino.agent.l2.rates import RateReporter
from neutrino.agent.l2.reconciler import Outcome, Reconciler, ReconcilerView
from neutrino.agent.l2.statistics import PacketCounts, statistics
from neutrino.agent.l2.switch_events import SwitchEvents
from neutrino.agent.runtime.context import Intervals, PortHolds
from neutrino.agent.runtime.measures import Measure, of_loop
from neutrino.agent.runtime.queue import WorkQueue
from neutrino.agent.runtime.role import Drift, ObjectStatus, RoleFeed, StatusReports, described, repaired
from neutrino.agent.runtime.switch import (
    FIRST_RETRY,
    LONGEST_RETRY,
    Events,
    SwitchStarts,
    subscribe,
    wait_connected,
)
from neutrino.agent.runtime.thread_lock import ThreadLock
from neutrino.dataplane.inspection.api import InspectionError
from neutrino.dataplane.openflow.api import Flow, OpenFlowError
from neutrino.dataplane.openflow.watch import OvsWatch
from neutrino.dataplane.ovsdb.api import Ovsdb, OvsdbError, Snapshot
from neutrino.dataplane.protocols.packet_in import PacketIn
from neutrino.feed.state import StateChange
from neutrino.metrics import catalog
from neutrino.model import agents, state
from neutrino.model.agents import FOREIGN, NEUTRON_AGENT
from neutrino.model.kinds import kinds_for
from neutrino.model.roles import L2
from neutrino.model.sriov import VIF_TYPES

LOG = logging.getLogger(__name__)
PORT = "port"
RECONCILE = "reconcile"  # the only key in the work queue
NUMBERING_SECONDS = 0.5  # an event follows when the switch has numbered its ports; this is for a missed one
FLUSH_SECONDS = 1.0  # between flushes of the megaflow cache
REFUSED_SECONDS = 5.0  # until the next reconciliation after flows were rejected or ports could not be filtered
LONGEST_PAUSE = 0.1  # between reconciliations, each of which is followed by a pause as long as itself
NOT_PLUGGED = "it is not plugged"
KINDS = {kind.plural: kind.name for kind in kinds_for(L2) if kind.plural in HostState.__dataclass_fields__}


@dataclasses.dataclass(eq=False)
class L2Role:
    name = L2

    feed: RoleFeed
    reconciler: Reconciler
    watch: OvsWatch
    bridge: str
    description: agents.AgentState
    intervals: Intervals = dataclasses.field(default_factory=Intervals)
    dropping: bool = False
    dataplane_changed: Callable[[], None] = lambda: None
    port_holds: PortHolds = dataclasses.field(default_factory=PortHolds)
    kinds: frozenset[str] = frozenset()  # object kinds that extensions read
    packet_logger: PacketLogger | None = None
    read_foreign: Callable[[], Mapping[str, Sequence[Flow]]] = dict  # flows of others that are left alone, by bridge
    read_links: Callable[[], tuple[Link, ...]] = lambda: ()
    rates: RateReporter | None = None
    # What rules of this host drop of tunnels of these kinds between two addresses.
    tunnel_rules: Callable[[Iterable[str], str, str], Iterable[str]] = lambda kinds, local, peer: ()

    def __post_init__(self) -> None:
        self._queue: WorkQueue[str] = WorkQueue(first_delay=FIRST_RETRY, longest_delay=LONGEST_RETRY)
        self.port_holds.on_change = lambda: self._queue.put(RECONCILE)
        self._statuses = StatusReports(self.feed, L2)
        self._extension_kinds = self.kinds - {*KINDS.values()}
        self._held: dict[str, tuple[state.Port, state.Network]] = {}  # last state of the ports that a role holds
        # Held while the switch is changed: the agent's exit waits for it, and drift is not read in the middle of a change.
        self._busy = ThreadLock()
        self._flows_changed = asyncio.Event()
        # An instance has arrived by live migration: its packets are lost until its flows are in force, so no pause is kept.
        self._arriving = asyncio.Event()
        self._flush_now = asyncio.Event()
        self._starts = SwitchStarts()
        self._synced = False  # whether `synced` has arrived since the agent's start
        self._position: int | None = None
        self._up: dict[str, int] = {}  # ports reported as up, with the revision
        self._prepared: frozenset[str] = frozenset()  # ports reported as plugged, with an inactive binding
        self._ancillary: frozenset[str] = frozenset()  # those of them on bridges that are not ours
        self._problems: dict[str, str] = {}  # ports reported as down, with the reason
        self._reported = False  # whether every port has been reported once
        # By port the request that changed it last, until that is logged: it may be plugged, and so wired, long after it.
        self._requests: dict[str, str] = {}
        self._faults: Mapping[str, str] = {}
        self._dataplane = "down: not connected yet"
        self._last_repair: dict[str, object] = {}
        self._links: tuple[Link, ...] = ()
        self._foreign: dict[str, str] = {}  # by what is shown of them: flows of others
        self._dhcp_requests = {version: PacketCounts(time.monotonic) for version in ("4", "6")}
        self._ovsdb: Ovsdb | None = None
        self._migrations = Migrations()
        if self.packet_logger is not None:
            self.packet_logger.arrived = self._arrived

    # --- the agent's interface ---------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        """Only its request is kept: `synced` follows, and a reconciliation covers everything."""
        self._queue.note_request(RECONCILE)
        if change.kind == PORT and change.request_id:
            self._requests[change.id] = change.request_id

    def synced(self) -> None:
        self._synced = True  # for good: later the state loses an object only over a synced connection
        self._queue.put(RECONCILE)

    def applied(self) -> int | None:
        return self._position

    def describe(self) -> Iterable[agents.AgentState]:
        kinds = (*KINDS.values(), *self._extension_kinds)
        problems = {**self.feed.state.problems_of(*kinds), **self._faults, **self._problems, **self._foreign}
        values = {
            "devices": len(self._up.keys() - self._ancillary),
            "ancillary_devices": len(self._ancillary),
            agents.OVS_CAPABILITIES: self._capabilities(),
            agents.DATAPLANE: self._dataplane,
            **({agents.LINKS: described_links(self._links)} if self._links else {}),
            **({agents.LAST_REPAIR: self._last_repair} if self._last_repair else {}),
        }
        yield described(self.description, values, problems)

    def measures(self) -> Iterator[Measure]:
        ports = list(self.feed.state.objects[PORT].values())
        bound = sum(isinstance(port, state.Port) and port.vif_type not in VIF_TYPES for port in ports)
        wired, failed = len(self._up), len(self._problems)
        yield from of_loop(self.name, len(self._queue), failed + len(self._faults), self._position)
        yield catalog.DATAPLANE_UP, (), float(self._dataplane == "up")
        for label, number in (("wired", wired), ("failed", failed), ("waiting", max(0, bound - wired - failed))):
            yield catalog.WIRED_PORTS, (label,), number
        for bridge, number in self.reconciler.tables.counts().items():
            yield catalog.FLOWS, (bridge,), number
        for link in self._links:
            yield catalog.LINK_UP, (link.device, link.use), float(link.is_up)
        if self.rates is not None:
            yield from self.rates.measures()
        for version, flows in self.reconciler.tables.dhcp_requests().items():
            self._dhcp_requests[version].read(flows)
        for version, counts in self._dhcp_requests.items():
            yield catalog.DHCP_REQUESTS, (version,), counts.total

    def _capabilities(self) -> dict[str, list[str]]:
        """What the switch supports: the server binds vhost-user ports by it. Empty until the switch was reached."""
        snapshot = self._ovsdb.read() if self._ovsdb is not None else Snapshot()
        return {"datapath_types": list(snapshot.datapath_types), "iface_types": list(snapshot.interface_types)}

    async def finish(self) -> None:
        async with self._busy:
            pass

    async def find(self) -> Drift:
        try:
            found = await asyncio.to_thread(self.reconciler.find, self._host_state(), complete=self.feed.is_synced)
            foreign = await asyncio.to_thread(self.read_foreign)
            lines = [f"{FOREIGN}flow on {name}: {flow.text()}" for name in foreign for flow in foreign[name]]
            lines += [f"{FOREIGN}rule: {text}" for text in await asyncio.to_thread(self._dropped_tunnels)]
            return dataclasses.replace(found, plan="\n".join(filter(None, (found.plan, *lines))))
        except OpenFlowError as error:
            return Drift(self.name, problems={self.bridge: str(error)})

    async def view(self) -> ReconcilerView:
        """The desired state and the owners of flows, between two reconciliations."""
        complete = self._synced or self.feed.is_synced
        async with self._busy:
            return await self._busy.run(self.reconciler.view, self._host_state(), complete=complete)

    # --- reconciliation ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        connect = self.reconciler.ovsdb
        ovsdb = await wait_connected(connect, lambda reason: self._set_dataplane(f"down: {reason}"))
        self._ovsdb = ovsdb
        self._switch_events = SwitchEvents(self.bridge, ovsdb.read())
        subscribe(ovsdb, self._switch_changed)
        if self.dropping:
            await asyncio.to_thread(self.reconciler.drop_flows)
        self._queue.put(RECONCILE)  # from the feed's cache: the server may be unreachable
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            group.create_task(self._follow_switch())
            group.create_task(self._repair_drift())
            group.create_task(self._flush_megaflows())
            group.create_task(self._follow_links())
            if self.rates is not None:
                group.create_task(self.rates.run())
            if self.packet_logger is not None:
                group.create_task(
                    self.packet_logger.run(self.bridge, lambda: self.reconciler.applied, self._starts.more_than)
                )

    def _switch_changed(self, events: Events) -> None:
        ports, tags = self.feed.state.objects[PORT], self.reconciler.tags
        # All of them, as each is remembered.
        needed = [self._switch_events.need_reconciliation(event, ports, tags) for event in events]
        if any(needed):
            self._queue.put(RECONCILE)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            is_urgent = self._arriving.is_set()
            self._arriving.clear()
            try:
                async with self._busy:
                    began = time.monotonic()
                    outcome = await self._reconcile()
            except Exception as error:  # an agent that ended would fail again at its next start
                catalog.RECONCILE_SECONDS.observe(time.monotonic() - began, self.name, catalog.FAILED)
                self.reconciler.forget()  # what was applied before the failure is unknown
                self._failed(error, self._queue.failed(key))
                continue
            catalog.RECONCILE_SECONDS.observe(time.monotonic() - began, self.name, catalog.DONE)
            self._queue.done(key)
            if outcome.changed:
                self._flows_changed.set()
                if is_urgent:
                    self._flush_now.set()
            if not outcome.ready:
                self._queue.later(key, NUMBERING_SECONDS)
                self._set_dataplane("down: the switch has not taken up our bridges yet")
                continue
            self._set_dataplane("up")
            if self.packet_logger is not None:
                self.packet_logger.applied(self.reconciler.applied)
            if outcome.refused:
                self._queue.later(key, REFUSED_SECONDS)  # no event follows when the reason is gone
            # At most half of the time: many changes then share a round, whose programs cost more than one port's flows,
            # and other processes of the machine, such as a server, get their turn.
            await _pause(min(time.monotonic() - began, LONGEST_PAUSE), self._arriving)

    def _failed(self, error: Exception, delay: float) -> None:
        expected = isinstance(error, OvsdbError | OpenFlowError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        if expected:
            LOG.warning("reconciliation failed, retry in %.1f s: %s", delay, reason)
        elif self._dataplane != f"down: {reason}":  # a bug: its traceback once
            LOG.error("reconciliation failed, retry in %.1f s", delay, exc_info=error)
        self._set_dataplane(f"down: {reason}")

    async def _reconcile(self) -> Outcome:
        # Read together: a position that is newer than the state would count as applied too early.
        host_state, position, complete = self._with_held(self._host_state()), self.feed.position, self._synced
        loop = asyncio.get_running_loop()
        began = loop.time()
        outcome = await self._busy.run(self.reconciler.reconcile, host_state, complete=complete)
        if outcome.ready:
            self._log(outcome, loop.time() - began)
            self._report(host_state, outcome, complete)
            self._position = position if complete else self._position
        return outcome

    def _log(self, outcome: Outcome, seconds: float) -> None:
        """Port statistics of this round; at DEBUG if it changed nothing."""
        outside = outcome.ancillary | self._ancillary
        own = statistics(self._up, outcome.wired, (self._up.keys() | outcome.wired.keys()) - outside)
        ancillary = statistics(self._up, outcome.wired, outside)
        changed = outcome.changed or own.is_changed or ancillary.is_changed
        level = logging.INFO if changed else logging.DEBUG
        changes = f"{outcome.changed} changes" if outcome.changed else "no change"
        LOG.log(level, "%s; on ancillary bridges %s; %s in %.3f s", own, ancillary, changes, seconds)

    def _host_state(self) -> HostState:
        objects = self.feed.state.objects
        built_in = {field: dict(objects[kind]) for field, kind in KINDS.items()}  # copies, for the reconciler's thread
        more = {kind: dict(objects.get(kind, {})) for kind in self._extension_kinds}
        # The role sriov has those whose instances have functions of a card.
        built_in["ports"] = {key: port for key, port in built_in["ports"].items() if port.vif_type not in VIF_TYPES}
        waiting = self._migrations.waiting(built_in["ports"])
        return HostState(**built_in, waiting=waiting, extension_objects=more)

    def _arrived(self, copied: PacketIn) -> None:
        """A port that waits for its instance has sent a packet."""
        applied = self.reconciler.applied
        for port in applied.ports if applied is not None else ():
            is_sender = port.standby and cookie_of(port_owner(port)) == copied.cookie
            if is_sender and self._migrations.arrived(port.id, self.feed.state.objects[PORT]):
                LOG.info("the instance of port %s has arrived by live migration", port.id)
                self._arriving.set()
                self._queue.put(RECONCILE)

    def _with_held(self, sent: HostState) -> HostState:
        """Add the deleted ports that a role holds, as they were: their unwiring is deferred until it releases them."""
        for port_id in self.port_holds.held & sent.ports.keys():
            port = sent.ports[port_id]
            if port.network_id in sent.networks:
                self._held[port_id] = port, sent.networks[port.network_id]
        self._held = {key: self._held[key] for key in self._held.keys() & self.port_holds.held}
        deleted = [self._held[key] for key in self._held.keys() - sent.ports.keys()]
        if not deleted:
            return sent
        return dataclasses.replace(
            sent,
            ports={**{port.id: port for port, _ in deleted}, **sent.ports},
            networks={**{network.id: network for _, network in deleted}, **sent.networks},
        )

    # --- reports -----------------------------------------------------------------------------------------------------

    def _report(self, host_state: HostState, outcome: Outcome, complete: bool) -> None:
        """Report ports that went up, with the revision in force, and ports that are down, with the reason. Each once."""
        self._ancillary = outcome.ancillary
        self.port_holds.set_wired(outcome.wired)
        for port_id, revision in outcome.wired.items():
            if self._up.get(port_id) != revision:
                self.feed.port_up(port_id, revision)
                self._log_port("port %s is wired as of revision %d", port_id, revision, is_new=port_id not in self._up)
                self._up[port_id] = revision
        for port_id in outcome.prepared - self._prepared:
            self.feed.port_up(port_id, host_state.ports[port_id].revision, inactive=True)
            self._log_port("port %s is plugged; its binding to this host is not active yet", port_id)
        self._prepared = outcome.prepared
        if not complete:  # the cache may have ports that have left this host
            return
        for port_id, port in host_state.ports.items():
            if port_id not in outcome.wired and port.active:  # an inactive binding: the port is up on another host
                intended = why_silent(port, host_state.networks) is not None
                self._report_down(port_id, outcome.problems.get(port_id), intended=intended)
        for port_id in self._up.keys() - outcome.wired.keys() - host_state.ports.keys():
            self._log_port("port %s has left this host: it is not wired any more", port_id)
        self._up = {port_id: self._up[port_id] for port_id in outcome.wired}
        self._requests = {key: text for key, text in self._requests.items() if key in host_state.ports}
        self._problems = {key: text for key, text in outcome.problems.items() if host_state.ports[key].active}
        self._statuses.applied(self.name, self._statuses_of(host_state, outcome))
        if not self._reported:
            self._reported = True
            self.dataplane_changed()  # the first report had an old position
        for name, reason in outcome.faults.items():
            if self._faults.get(name) != reason:
                LOG.error("%s: %s", name, reason)
                self.feed.error("l2", name, reason)
        if NEUTRON_AGENT in self._faults.keys() ^ outcome.faults.keys():
            self.dataplane_changed()  # reported at once
        self._faults = outcome.faults

    def _log_port(self, text: str, port_id: str, *more: object, is_new: bool = True) -> None:
        """Log what was done for a port, with the request that caused it.

        At DEBUG at the agent's start, and for a new revision that no request has made, such as of the port's status.
        """
        request_id = self._requests.pop(port_id, "")
        token = request_ids.CURRENT.set(request_id or request_ids.get())
        LOG.log(logging.INFO if self._reported and (is_new or request_id) else logging.DEBUG, text, port_id, *more)
        request_ids.CURRENT.reset(token)

    def _statuses_of(self, host_state: HostState, outcome: Outcome) -> frozenset[ObjectStatus]:
        found: set[ObjectStatus] = set()
        ports, networks = host_state.ports, host_state.networks
        silent = {key for key in self._problems if why_silent(ports[key], networks) is not None}
        failed = {**outcome.faults, **{key: self._problems[key] for key in self._problems.keys() - silent}}
        for extension in self.reconciler.extensions:
            try:
                found.update(extension.statuses(host_state, outcome.wired.keys(), failed))
            except Exception:  # third-party code: it must not stop the reports of ports
                LOG.exception("extension %s failed in `statuses`", extension.name)
        return frozenset(found)

    def _report_down(self, port_id: str, problem: str | None, *, intended: bool) -> None:
        """A port not plugged yet needs no report, except after the agent's start: it may have been unplugged before."""
        known = self._problems.get(port_id)
        if problem is None:
            if port_id in self._up or known is not None or not self._reported:
                self.feed.port_down(port_id, NOT_PLUGGED)
        elif problem != known:
            self.feed.port_down(port_id, problem)
            if not intended:
                self.feed.error("port", port_id, problem)
                LOG.warning("port %s is not wired: %s", port_id, problem)

    def _set_dataplane(self, text: str) -> None:
        if text != self._dataplane:
            (LOG.info if text == "up" else LOG.warning)("the dataplane is %s", text)
            self._dataplane = text
            self.dataplane_changed()

    # --- the switch --------------------------------------------------------------------------------------------------

    async def _flush_megaflows(self) -> None:
        """Flush megaflows at once after a change, then rate-limited, but for instances that arrive by live migration.

        Every packet after a flush is looked up in the flows again.

        Once more when nothing changes any longer: a packet that was looked up during a change is cached after its flush.
        """
        while True:
            await self._flows_changed.wait()
            changed = True
            while changed:
                changed = self._flows_changed.is_set()
                self._flows_changed.clear()
                self._flush_now.clear()
                try:
                    await asyncio.to_thread(self.reconciler.openflow.flush_megaflows)
                except OpenFlowError as error:
                    LOG.warning("%s", error)
                await _pause(FLUSH_SECONDS, self._flush_now)

    async def _follow_switch(self) -> None:
        """Reconcile when ovs-vswitchd is back: a restarted switch has no flows."""
        await self.watch.present(self.bridge)
        self._starts.count()
        while True:
            await self.watch.gone(self.bridge)
            LOG.warning("ovs-vswitchd has ended; its flows are applied again as soon as it is back")
            self._set_dataplane("down: the switch is gone")
            await self.watch.present(self.bridge)
            self._starts.count()
            async with self._busy:  # a reconciliation under way would remember flows of the old switch
                self.reconciler.forget()
            self._queue.put(RECONCILE)

    def _dropped_tunnels(self) -> list[str]:
        """What rules of this host drop of the tunnels to one peer: rules for one are nearly always rules for all."""
        options, hosts = self.reconciler.options, [*self.feed.state.objects[KINDS["hosts"]].values()]
        peers = sorted(host.tunneling_ip for host in hosts if host.id != self.description.host and host.tunneling_ip)
        if not peers or not options.local_ip:
            return []
        try:
            return [*self.tunnel_rules(options.tunnel_types, options.local_ip, peers[0])]
        except InspectionError as error:
            LOG.warning("rules of this host are not known: %s", error)
            return []

    def _set_foreign(self, found: Mapping[str, Sequence[Flow]], rules: Sequence[str] = ()) -> None:
        shown = {
            f"{FOREIGN}flows on {bridge}": f"{len(flows)} that are not this agent's, such as {flows[0].text()}"
            for bridge, flows in found.items()
        }
        shown |= {f"{FOREIGN}rules of this host": "; ".join(rules)} if rules else {}
        if shown != self._foreign:
            for name, text in shown.items():
                LOG.warning("%s: %s", name, text)
            self._foreign = shown
            self.dataplane_changed()

    async def _follow_links(self) -> None:
        """Report a link that goes down or comes back."""
        while True:
            links = await asyncio.to_thread(self.read_links)
            if links != self._links:
                was_down = {link.device for link in self._links if not link.is_up}
                for link in links:
                    if not link.is_up:
                        LOG.warning("link %s (%s): %s", link.device, link.use, link.state)
                    elif link.device in was_down:
                        LOG.info("link %s (%s) is up", link.device, link.use)
                self._links = links
                self.dataplane_changed()
            await asyncio.sleep(self.intervals.check)

    async def _repair_drift(self) -> None:
        """Drift of flows, meters, filters and iptables rules, changed or deleted from outside: repaired and reported."""
        loop = asyncio.get_running_loop()
        compared = loop.time()
        while True:
            await asyncio.sleep(self.intervals.check)
            try:
                whole = loop.time() - compared >= self.intervals.repair
                async with self._busy:
                    found = await self._busy.run(self.reconciler.drift, whole=whole)
                    has_left = await self._busy.run(self.reconciler.has_neutron_agent_left)
                    for name in found:  # the next reconciliation reads its actual state again
                        self.reconciler.forget(name)
            except OpenFlowError as error:
                LOG.warning("the flows cannot be read: %s", error)
                continue
            if has_left:
                self._queue.put(RECONCILE)  # it is no problem any more
            if whole:
                compared = loop.time()
                flows, rules = await asyncio.to_thread(lambda: (self.read_foreign(), self._dropped_tunnels()))
                self._set_foreign(flows, rules)
                async with self._busy:
                    if self.reconciler.tables.retry_rejected():
                        self._queue.put(RECONCILE)
            if found:
                differences = {
                    name: f"{missing} missing or changed, {extra} too many" for name, (missing, extra) in found.items()
                }
                self._last_repair = repaired(differences)
                LOG.warning("drift was found and is repaired: %s", differences)
                catalog.DRIFT.inc(self.name, by=sum(missing + extra for missing, extra in found.values()))
                self._queue.put(RECONCILE)
                self.dataplane_changed()


async def _pause(seconds: float, ended: asyncio.Event) -> None:
    """Sleep, but not longer than until the event."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)
