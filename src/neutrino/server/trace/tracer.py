"""A trace from request to response: ends → snapshot → path → the hosts' answers → comparison → what the caller sees.

`Tracer` gets the database, the agent registry and `Ask`; without an `Ask` (None) the answer is the server's alone. The
composition root (`server/main.py`) binds the real `Ask`, which sends queries to hosts; `collect.follow` asks host by host.
The number of traces at once is bounded per process, and for members per project: each holds a thread while it waits for
hosts, and other requests need one too.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from neutrino.model.objects import Object, Values
from neutrino.model.trace import Cause, Point, PointKind, Verdict
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_HW, VIF_UNBOUND
from neutrino.server.trace import visible
from neutrino.server.trace.ask import Ask, AskOnce
from neutrino.server.trace.collect import Collected, chosen_gateways, directory, follow
from neutrino.server.trace.compare import Result, compare, takes_oversized
from neutrino.server.trace.endpoints import Endpoints, resolve
from neutrino.server.trace.feature_part import ReadTracePart
from neutrino.server.trace.path import Origin, compute, compute_return
from neutrino.server.trace.routing import NO_ROUTING, Routing
from neutrino.server.trace.snapshot import newest_change, read_snapshot
from neutrino.server.trace.values import Hop, Path, Snapshot

SECONDS: Final = 10.0  # for all hosts together
ATTEMPTS: Final = 3
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a trace: the server's path, the hosts' answers, and what follows from both."""

    path: Path
    collected: Collected
    result: Result
    newest: int = 0  # position of the newest change of the objects on the path


@dataclass(eq=False)
class Tracer:
    db: Database
    registry: Registry
    routing: Routing = NO_ROUTING
    parts: Sequence[ReadTracePart] = ()  # of features
    ask: Ask | None = None
    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    at_once: int = 1
    _running: list[str] = field(default_factory=list)  # projects of the traces that are computed; empty: administrators
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def owner(self, context: Context, values: Values) -> str:
        """The project whose trace it is."""
        with self.db.read() as connection:
            return resolve(connection, context, values, self.routing).project_id

    def trace(self, context: Context, values: Values) -> Object:
        with self._slot(context):
            return self._trace(context, values)

    @contextmanager
    def _slot(self, context: Context) -> Iterator[None]:
        """A member's project has one at most, so that it does not hold those of all others."""
        project = "" if context.is_admin else context.project_id or ""
        with self._lock:
            if len(self._running) >= self.at_once:
                raise errors.TooManyTraces(what=f"{self.at_once} traces")
            if project and project in self._running:
                raise errors.TooManyTraces(what="a trace of this project")
            self._running.append(project)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(project)

    def _trace(self, context: Context, values: Values) -> Object:
        deadline = self.clock() + self.seconds
        flows = bool(values["flows"]) and context.is_admin
        ends, snapshot, path, answer = self._compute(context, values)
        known = visible.for_caller(path, answer, ends.origin.port_id, context, snapshot)
        if known is not path or self.ask is None:
            there = self._direction(snapshot, ends.origin, known, None, deadline, flows)
            back = self._back(context, snapshot, path, answer, None, deadline, flows) if known is path else None
            return _response(context, values, ends, snapshot, there, back, flows)
        # One for both directions: the way back does not wait again for a host that has not answered.
        ask = AskOnce(self.ask)
        there, back = self._direction(snapshot, ends.origin, path, ask, deadline, flows), None
        there, answer = self._as_answered(context, ends, snapshot, there, answer)
        path = there.path
        if there.result.verdict is not Verdict.DROPPED:
            back = self._back(context, snapshot, path, answer, ask, deadline, flows)
        hidden = self._hidden(context, snapshot, there)
        if back is not None and back.result.verdict is not Verdict.DELIVERED:
            hidden = hidden or visible.ends_at_others(path, context, snapshot)
        if hidden:
            path = visible.not_delivered(path, context, snapshot)
            there, back = self._direction(snapshot, ends.origin, path, None, deadline, flows), None
        return _response(context, values, ends, snapshot, there, back, flows)

    def _as_answered(
        self, context: Context, ends: Endpoints, snapshot: Snapshot, there: Direction, answer: Path | None
    ) -> tuple[Direction, Path | None]:
        """The path once more, by what hosts alone know: which of several gateways their kernel chooses, and whether their
        devices take a packet that is larger than the MTU."""
        gateways, project = chosen_gateways(snapshot, there.collected), _project(context, ends)
        oversized = takes_oversized(there.path, there.collected, snapshot)
        if not gateways and not oversized:
            return there, answer
        path = compute(snapshot, ends.origin, ends.packet, project_id=project, chosen=gateways, oversized=oversized)
        is_dropped = path.verdict is Verdict.DROPPED
        back = None if is_dropped else compute_return(snapshot, path, project, oversized=oversized)
        if visible.for_caller(path, back, ends.origin.port_id, context, snapshot) is not path:
            return there, answer
        compared = compare(path, there.collected, snapshot, there.newest)
        return Direction(path, there.collected, compared, there.newest), back

    def _back(
        self,
        context: Context,
        snapshot: Snapshot,
        path: Path,
        answer: Path | None,
        ask: Ask | None,
        deadline: float,
        flows: bool,
    ) -> Direction | None:
        """The way back; None: nothing of ours answers."""
        if answer is None:
            return None
        origin = Origin(port_id=path.end_port_id, network_id=path.end_network_id)
        known = visible.without_others(answer, context, snapshot)
        back = self._direction(snapshot, origin, known, ask if known is answer else None, deadline, flows)
        if not self._hidden(context, snapshot, back):
            return back
        return self._direction(
            snapshot, origin, visible.not_delivered(answer, context, snapshot), None, deadline, flows
        )

    @staticmethod
    def _hidden(context: Context, snapshot: Snapshot, one: Direction) -> bool:
        return visible.fails_at_others(one.path, one.result, one.collected, context, snapshot)

    def _compute(self, context: Context, values: Values) -> tuple[Endpoints, Snapshot, Path, Path | None]:
        """The path and that of the answer, from a snapshot that is consistent: it is read in several statements, between
        which objects change."""
        for _ in range(ATTEMPTS):
            with self.db.read() as connection:
                ends = resolve(connection, context, values, self.routing)
                snapshot = read_snapshot(connection, self.registry, ends.seeds, self.routing, self.parts)
            project = _project(context, ends)
            try:
                path = compute(snapshot, ends.origin, ends.packet, project_id=project)
                is_dropped = path.verdict is Verdict.DROPPED
                return ends, snapshot, path, None if is_dropped else compute_return(snapshot, path, project)
            except LookupError:  # an object refers to one that was deleted, or created, meanwhile
                LOG.warning("trace: objects have changed while they were read", exc_info=True)
        raise errors.HTTPServiceUnavailable("The objects of the trace are being changed: try again.")

    def _direction(
        self, snapshot: Snapshot, origin: Origin, path: Path, ask: Ask | None, deadline: float, flows: bool
    ) -> Direction:
        collected, newest = Collected(), 0
        if ask is not None:
            # Before the hosts are asked: a change after the question is no lag.
            with self.db.read() as connection:
                newest = newest_change(connection, {step.resource_id for step in path.steps if step.resource_id})
            start = _first(snapshot, origin, path)
            places = directory(snapshot, ends_outside=bool(path.end_network_id))
            collected = follow(start, places, ask, self.clock, deadline, flows=flows)
            for hop in path.hops:
                if hop.resumes and collected.enters_tunnel:
                    further = follow(hop, places, ask, self.clock, deadline, flows=flows)
                    collected = collected.then(further)
        return Direction(path, collected, compare(path, collected, snapshot, newest), newest)


def _project(context: Context, ends: Endpoints) -> str | None:
    """The project whose objects the path may follow outside; None: all."""
    return None if context.is_admin else ends.project_id


def _first(snapshot: Snapshot, origin: Origin, path: Path) -> Hop | None:
    """The host that is asked first. Also that of a port which must not send: its dataplane may let it."""
    if path.hops:
        return path.hops[0]
    if path.verdict is Verdict.DELIVERED:  # it does not leave its sender
        return None
    port = snapshot.ports.get(origin.port_id)
    if port is None or not port.port.host or port.port.vif_type in (VIF_UNBOUND, VIF_FAILED, VIF_HW):
        return None
    return Hop(host=port.port.host, packet=path.packet, entry=Point(kind=PointKind.PORT, port_id=port.id))


def _response(
    context: Context,
    values: Values,
    ends: Endpoints,
    snapshot: Snapshot,
    there: Direction,
    back: Direction | None,
    flows: bool,
) -> Object:
    shown, cause = _shown(context, snapshot, there, flows)
    back_shown, back_cause = _shown(context, snapshot, back, flows) if back is not None else ([], Cause.NONE)
    both = [there, back] if back is not None else [there]
    admin = context.is_admin
    differences = visible.notes(n for each in both for n in each.result.differences) if admin else []
    agreed = [each.result.agreement for each in both if each.result.agreement is not None]
    if not all(visible.all_own(each.path, context, snapshot) for each in both):
        agreed = []  # it would tell what others have
    return {
        **values,
        "source_address": ends.packet.source,
        "destination_address": ends.packet.destination,
        "ip_version": 6 if ":" in ends.packet.source else 4,
        "verdict": there.result.verdict.value,
        "cause": cause.value,
        "summary": visible.summary(
            there.result.verdict, cause, shown, differences, outside=bool(there.path.end_network_id)
        ),
        "steps": shown,
        "return_verdict": back.result.verdict.value if back is not None else None,
        "return_cause": back_cause.value,
        "return_steps": back_shown,
        "agreement": all(agreed) if agreed else None,
        "differences": differences,
        "drift": visible.notes(n for each in both for n in each.result.drift) if admin else [],
        "lag": visible.notes(n for each in both for n in each.result.lag) if admin else [],
        "hosts": _hosts(snapshot, both) if admin else {},
    }


def _shown(context: Context, snapshot: Snapshot, one: Direction, flows: bool) -> tuple[list[Object], Cause]:
    steps = visible.steps_of(one.path, one.result, one.collected, flows=flows)
    cause = visible.seen_cause(steps, one.result, context, snapshot)
    return visible.shown_steps(steps, context, snapshot), cause


def _hosts(snapshot: Snapshot, both: list[Direction]) -> Object:
    """The hosts on the path, with what they answered."""
    found: Object = {}
    for each in both:
        for hop in each.path.hops:
            known = snapshot.hosts.get(hop.host)
            found.setdefault(hop.host, {"alive": known is not None and known.alive, "answered": None})
        for asked in each.collected.asked:
            entry = found.setdefault(asked.host, {"alive": True, "answered": None})
            entry["answered"] = asked.answer is not None
            if asked.answer is not None:
                entry["position"] = asked.answer.position
                entry["problems"] = dict(asked.answer.problems)
            else:
                entry["error"] = asked.reason
    return found
