"""The L2 role: a round of wiring whenever something has happened, and never because time has passed.

Three things wake it: the server told something, OVSDB told something (a device plugged, numbered, retagged, gone), or the
switch came back. Whatever it was, the round looks at everything as it is now; what came meanwhile is one more round. Time
is only for doubts: the number of our flows is looked at every few seconds, and all of them now and then.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping

from neutrino.agent.l2.desired import HostState, why_silent
from neutrino.agent.l2.plan import ConflictingFlows
from neutrino.agent.l2.reconciler import Outcome, Reconciler
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.queue import WorkQueue
from neutrino.agent.role import Drift, RoleFeed
from neutrino.agent.switch import FIRST_RETRY, LONGEST_RETRY, subscribe, wait_connected
from neutrino.dataplane.openflow.api import OpenFlowError
from neutrino.dataplane.openflow.watch import SwitchWatch
from neutrino.dataplane.ovsdb.api import Ovsdb, OvsdbError
from neutrino.feed.state import StateChange
from neutrino.model import agents, state
from neutrino.model.kinds import kinds_for
from neutrino.model.roles import L2

LOG = logging.getLogger(__name__)
WIRE = "wire"
NUMBERING_SECONDS = 0.5  # an event comes when the switch has numbered its ports; this is for one that was missed
FORCE_SECONDS = 1.0  # at most this often is the switch made to forget what it decided
REFUSED_SECONDS = 5.0  # until a round is done again in which flows were rejected or ports could not be filtered
NOT_PLUGGED = "it is not plugged"
KINDS = {kind.plural: kind.name for kind in kinds_for(L2) if kind.plural in HostState.__dataclass_fields__}


@dataclasses.dataclass
class Intervals:
    """Seconds; may be changed while the role runs."""

    check: float = 5.0
    repair: float = 60.0


class L2Role:
    """`connect` gives the drivers and the reconciler once Open vSwitch can be reached, or raises OvsdbError."""

    name = "l2"

    def __init__(
        self,
        feed: RoleFeed,
        connect: Callable[[], tuple[Ovsdb, Reconciler]],
        watch: SwitchWatch,
        bridge: str,
        describe: agents.AgentState,
        *,
        intervals: Intervals | None = None,
        dropping: bool = False,
        dataplane_changed: Callable[[], None] = lambda: None,
        port_holds: PortHolds | None = None,
    ) -> None:
        self._feed = feed
        self._connect = connect
        self._watch = watch
        self._bridge = bridge
        self._description = describe
        self._intervals = intervals or Intervals()
        self._dropping = dropping
        self._dataplane_changed = dataplane_changed
        self._port_holds = port_holds or PortHolds()
        self._port_holds.on_change = lambda: self._queue.put(WIRE)  # how it is now is what is kept
        self._kept: dict[str, tuple[state.Port, state.Network]] = {}  # of ports that are held, as they were last
        self._queue: WorkQueue[str] = WorkQueue(first_delay=FIRST_RETRY, longest_delay=LONGEST_RETRY)
        self._busy = asyncio.Lock()
        self._flows_changed = asyncio.Event()
        self._synced = False  # whether `synced` has come since the agent's start
        self._position: int | None = None
        self._up: dict[str, int] = {}  # ports that we said are up, with the revision
        self._problems: dict[str, str] = {}  # those that we said cannot be, with the reason
        self._started = False  # whether we have said once of every port how it is
        self._faults: Mapping[str, str] = {}
        self._dataplane = "down: not connected yet"
        self._last_repair: dict[str, object] = {}

    # --- what the agent asks ----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        """Rounds look at everything; `synced` follows."""

    def synced(self) -> None:
        self._synced = True
        self._queue.put(WIRE)

    def applied(self) -> int | None:
        return self._position

    def describe(self) -> Iterable[agents.AgentState]:
        configurations = {
            **self._description.configurations,
            agents.DEVICES: len(self._up),
            agents.DATAPLANE: self._dataplane,
            agents.PROBLEMS: _shortened(
                {**self._feed.state.problems_of(*KINDS.values()), **self._faults, **self._problems}
            ),
            **({agents.LAST_REPAIR: self._last_repair} if self._last_repair else {}),
        }
        yield dataclasses.replace(self._description, configurations=configurations)

    async def settle(self) -> None:
        async with self._busy:
            pass

    async def find(self) -> Drift:
        _, reconciler = await asyncio.to_thread(self._connect)
        try:
            plan = await asyncio.to_thread(reconciler.find, self._host_state(), complete=self._feed.is_synced)
        except (OpenFlowError, ConflictingFlows) as error:
            return Drift(self.name, problems={self._bridge: str(error)})
        return Drift(self.name, plan.text(), plan.problems)

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        ovsdb, reconciler = await wait_connected(self._connect, lambda reason: self._set_dataplane(f"down: {reason}"))
        subscribe(ovsdb, lambda events: self._queue.put(WIRE))
        if self._dropping:
            await asyncio.to_thread(reconciler.drop_flows)
        self._queue.put(WIRE)  # by what we remember: the server may be away
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work(reconciler))
            group.create_task(self._follow_switch(reconciler))
            group.create_task(self._look_for_drift(reconciler))
            group.create_task(self._see_to_force(reconciler))

    async def _work(self, reconciler: Reconciler) -> None:
        while True:
            key = await self._queue.get()
            try:
                async with self._busy:
                    outcome = await self._round(reconciler)
            except (OvsdbError, OpenFlowError, ConflictingFlows) as error:
                reconciler.forget()
                delay = self._queue.failed(key)
                self._set_dataplane(f"down: {error}")
                LOG.warning("the ports could not be wired, again in %.1f s: %s", delay, error)
                continue
            except Exception as error:  # an agent that ends would come back to the same
                reconciler.forget()
                delay, text = self._queue.failed(key), f"down: {type(error).__name__}: {error}"
                if self._dataplane != text:
                    LOG.exception("the ports could not be wired, again in %.1f s", delay)
                self._set_dataplane(text)
                continue
            self._queue.done(key)
            if outcome.changed:
                self._flows_changed.set()
            if not outcome.ready:
                self._queue.later(key, NUMBERING_SECONDS)
                self._set_dataplane("down: the switch has not taken up our bridges yet")
                continue
            self._set_dataplane("up")
            if outcome.refused:
                self._queue.later(key, REFUSED_SECONDS)

    async def _round(self, reconciler: Reconciler) -> Outcome:
        host_state, position, complete = self._with_held(self._host_state()), self._feed.position, self._synced
        loop = asyncio.get_running_loop()
        began = loop.time()
        outcome = await asyncio.to_thread(reconciler.reconcile, host_state, complete=complete)
        if outcome.changed:
            self._log(outcome, loop.time() - began)
        if outcome.ready:
            self._tell(host_state, outcome, complete)
            self._position = position if complete else self._position
        return outcome

    def _log(self, outcome: Outcome, seconds: float) -> None:
        """What the round was about, before it is told."""
        new = outcome.wired.keys() - self._up.keys()
        gone = self._up.keys() - outcome.wired.keys()
        renewed = [key for key, revision in outcome.wired.items() if self._up.get(key, revision) != revision]
        what = f"{len(new)} new, {len(renewed)} changed, {len(gone)} gone"
        LOG.info("%d ports wired (%s): %d changes in %.3f s", len(outcome.wired), what, outcome.changed, seconds)

    def _host_state(self) -> HostState:
        return HostState(**{field: dict(self._feed.state.objects[kind]) for field, kind in KINDS.items()})  # type: ignore[arg-type]

    def _with_held(self, told: HostState) -> HostState:
        """A port that is gone and held is wired as it was: who holds it has a last word to say."""
        for port_id in self._port_holds.held & told.ports.keys():
            port = told.ports[port_id]
            if port.network_id in told.networks:
                self._kept[port_id] = port, told.networks[port.network_id]
        self._kept = {key: self._kept[key] for key in self._kept.keys() & self._port_holds.held}
        gone = [self._kept[key] for key in self._kept.keys() - told.ports.keys()]
        if not gone:
            return told
        return dataclasses.replace(
            told,
            ports={**{port.id: port for port, _ in gone}, **told.ports},
            networks={**{network.id: network for _, network in gone}, **told.networks},
        )

    def _tell(self, host_state: HostState, outcome: Outcome, complete: bool) -> None:
        """What is up, with the revision that is in force; what is not, and why. Each once."""
        self._port_holds.set_wired(outcome.wired)
        for port_id, revision in outcome.wired.items():
            if self._up.get(port_id) != revision:
                self._feed.port_up(port_id, revision)
                self._up[port_id] = revision
        if not complete:
            return
        for port_id, port in host_state.ports.items():
            if port_id not in outcome.wired and port.active:
                meant = why_silent(port, host_state.networks) is not None
                self._tell_down(port_id, outcome.problems.get(port_id), meant=meant)
        self._up = {port_id: self._up[port_id] for port_id in outcome.wired}
        self._problems = {key: text for key, text in outcome.problems.items() if host_state.ports[key].active}
        if not self._started:
            self._started = True
            self._dataplane_changed()  # the first report said that we are behind
        self._tell_faults(outcome.faults)

    def _tell_down(self, port_id: str, problem: str | None, *, meant: bool) -> None:
        """A port that was never plugged since we started is no news; one that we were not there to see go is."""
        known = self._problems.get(port_id)
        if problem is None:
            if port_id in self._up or known is not None or not self._started:
                self._feed.port_down(port_id, NOT_PLUGGED)
        elif problem != known:
            self._feed.port_down(port_id, problem)
            if not meant:
                self._feed.error("port", port_id, problem)
                LOG.warning("port %s is not wired: %s", port_id, problem)

    def _tell_faults(self, faults: Mapping[str, str]) -> None:
        for name, reason in faults.items():
            if self._faults.get(name) != reason:
                LOG.error("%s: %s", name, reason)
                self._feed.error("l2", name, reason)
        self._faults = faults

    def _set_dataplane(self, text: str) -> None:
        if text != self._dataplane:
            (LOG.info if text == "up" else LOG.warning)("the dataplane is %s", text)
            self._dataplane = text
            self._dataplane_changed()

    async def _see_to_force(self, reconciler: Reconciler) -> None:
        """At once after a change; while there are many, now and then: it costs every conversation a look at the flows."""
        while True:
            await self._flows_changed.wait()
            self._flows_changed.clear()
            try:
                await asyncio.to_thread(reconciler.flush_megaflows)
            except OpenFlowError as error:
                LOG.warning("%s", error)
            await asyncio.sleep(FORCE_SECONDS)

    # --- doubts -----------------------------------------------------------------------------------------------------

    async def _follow_switch(self, reconciler: Reconciler) -> None:
        """The switch was restarted: it has none of our flows any more."""
        while True:
            await self._watch.present(self._bridge)
            await self._watch.gone(self._bridge)
            LOG.warning("the switch is gone; its flows are made again as soon as it is back")
            self._set_dataplane("down: the switch is gone")
            await self._watch.present(self._bridge)
            async with self._busy:
                reconciler.forget()
            self._queue.put(WIRE)

    async def _look_for_drift(self, reconciler: Reconciler) -> None:
        """Somebody deleted our flows, or the switch came back without them: put right, and told."""
        loop = asyncio.get_running_loop()
        repaired = loop.time()
        while True:
            await asyncio.sleep(self._intervals.check)
            try:
                whole = loop.time() - repaired >= self._intervals.repair
                async with self._busy:
                    bridges = await asyncio.to_thread(reconciler.counts_differ)
                    found = await asyncio.to_thread(reconciler.drift) if whole or bridges else {}
                    for bridge in found:
                        reconciler.forget(bridge)
            except OpenFlowError as error:
                LOG.warning("the flows cannot be read: %s", error)
                continue
            if whole:
                repaired = loop.time()
                async with self._busy:
                    if reconciler.retry_rejected():
                        self._queue.put(WIRE)
            if found:
                self._last_repair = {
                    bridge: f"{missing} flows missing or changed, {extra} too many"
                    for bridge, (missing, extra) in found.items()
                }
                LOG.warning("flows were not as we left them and are put right: %s", self._last_repair)
                self._queue.put(WIRE)
                self._dataplane_changed()


def _shortened(problems: Mapping[str, str], most: int = 10) -> dict[str, str]:
    """The first of them: a report is no log."""
    return dict(sorted(problems.items())[:most])
