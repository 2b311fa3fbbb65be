"""The SR-IOV role: reconciles the virtual functions of this host's cards after every event.

Events are: an object of the feed changed; a device of the host changed, which the kernel tells for each setting of a
function too: libvirt gives a function the port's MAC, takes its device from the host, and gives it back. A
reconciliation covers all cards, which takes milliseconds; events that arrive meanwhile queue one more. The periodic
resync is for drift alone.

From an instance to ACTIVE: libvirt sets the port's MAC on the function; the reconciliation finds it there and sets the
rest; `port_up` with the port's revision goes to the server, which sets the port ACTIVE unless it has a newer revision.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from neutrino.agent.runtime.context import Intervals
from neutrino.agent.runtime.measures import Measure, of_loop
from neutrino.agent.runtime.queue import WorkQueue
from neutrino.agent.runtime.role import Drift, RoleFeed, described, repaired
from neutrino.agent.runtime.thread_lock import ThreadLock
from neutrino.agent.sriov.desired import HostState
from neutrino.agent.sriov.reconciler import Outcome, Reconciler
from neutrino.dataplane.sriov.api import LinkEvents, SriovError
from neutrino.feed.state import StateChange
from neutrino.metrics.catalog import DONE, DRIFT, FAILED, RECONCILE_SECONDS
from neutrino.model import agents
from neutrino.model.agents import SRIOV_CARD, SRIOV_PORT
from neutrino.model.roles import SRIOV

LOG = logging.getLogger(__name__)
RECONCILE = "reconcile"  # the only key in the work queue
KINDS = {"ports": "port", "networks": "network", "qos_policies": "qos_policy"}
EVENT_SECONDS = 0.1  # one change of libvirt's is several events
OTHER_MAC_SECONDS = 120.0  # for which a function may have another MAC than its port while an instance starts or stops
NOT_PLUGGED = "no instance has its function"


@dataclasses.dataclass(eq=False)
class SriovRole:
    feed: RoleFeed
    reconciler: Reconciler
    description: agents.AgentState
    _: dataclasses.KW_ONLY
    intervals: Intervals = dataclasses.field(default_factory=Intervals)
    report_soon: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    name: str = dataclasses.field(default=SRIOV, init=False)

    def __post_init__(self) -> None:
        self._queue: WorkQueue[str] = WorkQueue()
        self._busy = ThreadLock()  # held while cards are changed: the agent's exit waits for it
        self._synced = False  # whether `synced` has arrived since the agent's start
        self._position: int | None = None
        self._up: dict[str, int] = {}  # ports reported as up, with the revision
        self._down: dict[str, str] = {}  # ports reported as down, with the reason
        self._problems: dict[str, str] = {}  # as they are reported
        self._other_macs: dict[str, float] = {}  # ports whose functions have another MAC, since when
        self._functions = 0
        self._last_repair: dict[str, object] = {}
        self._due = False  # whether an event has queued a reconciliation that has not begun

    # --- the agent's interface ---------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        """Only its request is kept: `synced` follows, and a reconciliation covers everything."""
        self._queue.note_request(RECONCILE)

    def synced(self) -> None:
        self._synced = True  # for good: later the state loses an object only over a synced connection
        self._queue.put(RECONCILE)

    def applied(self) -> int | None:
        return self._position

    def describe(self) -> Iterable[agents.AgentState]:
        values = {
            "devices": self._functions,
            **({agents.LAST_REPAIR: self._last_repair} if self._last_repair else {}),
        }
        problems = {**self.feed.state.problems_of(*KINDS.values()), **self._problems}
        yield described(self.description, values, problems)

    def measures(self) -> Iterator[Measure]:
        yield from of_loop(self.name, len(self._queue), len(self._problems), self._position)

    async def finish(self) -> None:
        async with self._busy:
            pass

    async def find(self) -> Drift:
        try:
            lines, problems = await asyncio.to_thread(
                self.reconciler.find, self._host_state(), complete=self.feed.is_synced
            )
        except SriovError as error:
            return Drift(self.name, problems={self.name: str(error)})
        return Drift(self.name, "\n".join(lines), problems)

    # --- reconciliation ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._queue.put(RECONCILE)  # from the feed's cache: the server may be unreachable
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            group.create_task(self._follow_devices())
            group.create_task(self._resync())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._due = False
            began = time.monotonic()
            try:
                async with self._busy:
                    await self._reconcile()
            except Exception as error:  # an agent that ended would fail again at its next start
                RECONCILE_SECONDS.observe(time.monotonic() - began, self.name, FAILED)
                delay = self._queue.failed(key)
                is_expected = isinstance(error, SriovError | OSError)
                LOG.warning("cards are not reconciled, retry in %.1f s: %s", delay, error, exc_info=not is_expected)
                continue
            RECONCILE_SECONDS.observe(time.monotonic() - began, self.name, DONE)
            self._queue.done(key)

    async def _reconcile(self) -> None:
        # Read together: a position that is newer than the state would count as applied too early.
        state, position, complete = self._host_state(), self.feed.position, self._synced
        outcome = await self._busy.run(self.reconciler.reconcile, state, complete=complete)
        self._report(state, outcome, complete)
        self._position = position if complete else self._position

    def _host_state(self) -> HostState:
        objects = self.feed.state.objects
        return HostState(**{name: dict(objects[kind]) for name, kind in KINDS.items()})  # copies, for the thread

    async def _follow_devices(self) -> None:
        """Reconcile after each event of the kernel's."""
        events = await asyncio.to_thread(self.reconciler.sriov.watch)
        loop = asyncio.get_running_loop()

        def arrived() -> None:
            events.drain()
            if not self._due:
                self._due = True
                loop.call_later(EVENT_SECONDS, self._queue.put, RECONCILE)

        with contextlib.closing(events), _reading(loop, events, arrived):
            await asyncio.Event().wait()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self.intervals.repair)
            self.reconciler.try_again()
            self._queue.put(RECONCILE)

    # --- reports -----------------------------------------------------------------------------------------------------

    def _report(self, state: HostState, outcome: Outcome, complete: bool) -> None:
        """Report ports that went up, with the revision in force, and ports that are down, with the reason. Each once."""
        for port_id, revision in outcome.wired.items():
            if self._up.get(port_id) != revision:
                self.feed.port_up(port_id, revision)
                self._up[port_id] = revision
                self._down.pop(port_id, None)
        self._note_drift(outcome)
        self._set_problems(self._found_problems(outcome))
        if self._functions != outcome.functions:
            self._functions = outcome.functions
            self.report_soon()
        if not complete:  # the cache may have ports that have left this host
            return
        bound = {port.id for port in state.function_ports}
        for port_id in sorted(bound - outcome.wired.keys()):
            reason = outcome.silent.get(port_id) or outcome.problems.get(port_id) or NOT_PLUGGED
            if self._down.get(port_id) != reason:  # also at the start: it may have been unplugged before
                self.feed.port_down(port_id, reason)
                self._down[port_id] = reason
        self._up = {port_id: self._up[port_id] for port_id in outcome.wired}
        self._down = {port_id: text for port_id, text in self._down.items() if port_id in bound}

    def _note_drift(self, outcome: Outcome) -> None:
        if outcome.drift:
            LOG.warning("%d settings of functions were changed by others, and are repaired", outcome.drift)
            DRIFT.inc(self.name, by=outcome.drift)
            self._last_repair = repaired({"functions": f"{outcome.drift} settings changed"})
            self.report_soon()

    def _found_problems(self, outcome: Outcome) -> dict[str, str]:
        now = self.clock()
        self._other_macs = {key: self._other_macs.get(key, now) for key, mac in outcome.waiting.items() if mac}
        found = {f"{SRIOV_CARD}{device}": text for device, text in outcome.faults.items()}
        found |= {f"{SRIOV_PORT}{port_id}": text for port_id, text in outcome.problems.items()}
        for port_id, since in self._other_macs.items():
            if now - since >= OTHER_MAC_SECONDS:
                text = (
                    f"its function has the MAC {outcome.waiting[port_id]}, not the port's: its instance has not started"
                )
                found[f"{SRIOV_PORT}{port_id}"] = text
        return found

    def _set_problems(self, problems: Mapping[str, str]) -> None:
        for name, text in problems.items():
            if self._problems.get(name) != text:
                LOG.warning("%s: %s", name, text)
                if name.startswith(SRIOV_PORT):
                    self.feed.error("port", name.removeprefix(SRIOV_PORT), text)
        if problems != self._problems:
            self._problems = dict(problems)
            self.report_soon()


@contextlib.contextmanager
def _reading(loop: asyncio.AbstractEventLoop, events: LinkEvents, arrived: Callable[[], None]) -> Iterator[None]:
    loop.add_reader(events.fileno(), arrived)
    try:
        yield
    finally:
        loop.remove_reader(events.fileno())
