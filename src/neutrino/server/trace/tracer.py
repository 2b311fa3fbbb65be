"""A trace from request to response: ends → snapshot → path → the hosts' answers → comparison → what the caller sees.

`Tracer` gets the database, the agent registry and `Ask`; without an `Ask` (None) the answer is the server's alone. The
composition root (`server/main.py`) binds the real `Ask`, which sends queries to hosts; `collect.follow` asks host by host.
The number of traces at once is bounded per process: each holds a thread while it waits for hosts.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from neutrino.model.trace import Cause, Point, PointKind, Verdict
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.trace import visible
from neutrino.server.trace.ask import Ask, AskOnce
from neutrino.server.trace.collect import Collected, directory, follow
from neutrino.server.trace.compare import Result, compare
from neutrino.server.trace.endpoints import Endpoints, resolve
from neutrino.server.trace.path import Origin, compute, compute_return
from neutrino.server.trace.snapshot import newest_change, read_snapshot
from neutrino.server.trace.values import Hop, Path, Snapshot

AT_ONCE: Final = 4
SECONDS: Final = 10.0  # for all hosts together
Values = Mapping[str, Any]
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a trace: the server's path, the hosts' answers, and what follows from both."""

    path: Path
    collected: Collected
    result: Result


@dataclass(eq=False)
class Tracer:
    db: Database
    registry: Registry
    ask: Ask | None = None
    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    _slots: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))

    def owner(self, context: Context, values: Values) -> str:
        """The project whose trace it is."""
        with self.db.read() as connection:
            return resolve(connection, context, values).project_id

    def trace(self, context: Context, values: Values) -> Object:
        if not self._slots.acquire(blocking=False):
            raise errors.TooManyTraces(limit=AT_ONCE)
        try:
            return self._trace(context, values)
        finally:
            self._slots.release()

    def _trace(self, context: Context, values: Values) -> Object:
        with self.db.read() as connection:
            ends = resolve(connection, context, values)
            snapshot = read_snapshot(connection, self.registry, ends.seeds)
        deadline = self.clock() + self.seconds
        flows = bool(values["flows"]) and context.is_admin
        project = None if context.is_admin else ends.project_id
        path = compute(snapshot, ends.origin, ends.packet, project_id=project)
        # One for both directions: the way back does not wait again for a host that has not answered.
        ask = AskOnce(self.ask) if self.ask is not None else None
        there = self._direction(snapshot, ends.origin, path, ask, deadline, flows)
        back: Direction | None = None
        if there.result.verdict is not Verdict.DROPPED and there.path.verdict is not Verdict.DROPPED:
            answer = compute_return(snapshot, there.path, project)
            if answer is not None:
                origin = Origin(port_id=there.path.end_port_id, network_id=there.path.end_network_id)
                back = self._direction(snapshot, origin, answer, ask, deadline, flows)
        return _response(context, values, ends, snapshot, there, back, flows)

    def _direction(
        self, snapshot: Snapshot, origin: Origin, path: Path, ask: Ask | None, deadline: float, flows: bool
    ) -> Direction:
        collected, newest = Collected(), 0
        if ask is not None:
            start = _first(snapshot, origin, path)
            places = directory(snapshot, ends_outside=bool(path.end_network_id))
            collected = follow(start, places, ask, self.clock, deadline, flows=flows)
            ids = {step.resource_id for step in path.steps if step.resource_id}
            with self.db.read() as connection:
                newest = newest_change(connection, ids)
        return Direction(path, collected, compare(path, collected, snapshot, newest))


def _first(snapshot: Snapshot, origin: Origin, path: Path) -> Hop | None:
    """The host that is asked first. Also that of a port which must not send: its dataplane may let it."""
    if path.hops:
        return path.hops[0]
    port = snapshot.ports.get(origin.port_id)
    if port is None or not port.port.host or port.port.vif_type in (VIF_UNBOUND, VIF_FAILED):
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
    agreed = [each.result.agreement for each in both if each.result.agreement is not None]
    return {
        **values,
        "source_address": ends.packet.source,
        "destination_address": ends.packet.destination,
        "ip_version": 6 if ":" in ends.packet.source else 4,
        "verdict": there.result.verdict.value,
        "cause": cause.value,
        "summary": visible.summary(there.result.verdict, cause, shown, outside=bool(there.path.end_network_id)),
        "steps": shown,
        "return_verdict": back.result.verdict.value if back is not None else None,
        "return_cause": back_cause.value,
        "return_steps": back_shown,
        "agreement": all(agreed) if agreed else None,
        "differences": visible.notes(n for each in both for n in each.result.differences) if admin else [],
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
