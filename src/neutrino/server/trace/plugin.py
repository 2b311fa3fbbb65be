"""The API of traces: `POST /v2.0/traces`. A trace is answered, not stored.

What makes traces is loaded with the first one: it takes more than a megabyte, and most servers never make any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neutrino.diagnosis.problems import Problem
from neutrino.model.objects import Object, Values
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.trace import TRACE
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.services import ResourcePlugin

if TYPE_CHECKING:
    from neutrino.server.trace.feature_part import ReadTracePart
    from neutrino.server.trace.routing import Routing
    from neutrino.server.trace.tracer import Tracer


EXTENSIONS = (Extension("trace", "Packet traces", "Why a packet arrives or not, in terms of API objects."),)


@dataclass(eq=False)
class Traces:
    """Builds the tracer for the first trace, and adds the fixes of the causes to its answers."""

    build: Callable[[], Tracer]
    catalogue: Mapping[str, Problem]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._tracer: Tracer | None = None

    @property
    def tracer(self) -> Tracer:
        with self._lock:  # one for all threads: it limits how many traces are made at once
            if self._tracer is None:
                self._tracer = self.build()
            return self._tracer

    def target(self, context: Context, values: Values) -> Object:
        """The project whose trace it is: a member traces from its own ports, or from outside to its own."""
        return {"project_id": self.tracer.owner(context, values)}

    def create(self, context: Context, values: Values) -> Object:
        answer = self.tracer.trace(context, values)
        causes = dict.fromkeys((answer["cause"], answer["return_cause"]))
        return answer | {"fixes": {cause: self.catalogue[cause].fix for cause in causes if cause in self.catalogue}}


def build(
    db: Database,
    registry: Registry,
    routing: Routing,
    parts: Sequence[ReadTracePart],
    catalogue: Mapping[str, Problem],
    *,
    at_once: int,
) -> ResourcePlugin:
    def tracer() -> Tracer:
        from neutrino.server.hosts.queries import HostQueries
        from neutrino.server.trace.host_ask import HostAsk
        from neutrino.server.trace.tracer import Tracer

        return Tracer(db, registry, routing, parts, HostAsk(HostQueries(db, registry)), at_once=at_once)

    return ResourcePlugin(EXTENSIONS, ((TRACE, Traces(tracer, catalogue)),))
