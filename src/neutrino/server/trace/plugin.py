"""The API of traces: `POST /v2.0/traces`. A trace is answered, not stored."""

from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.trace import TRACE
from neutrino.server.context import Context
from neutrino.server.services import ResourcePlugin
from neutrino.server.trace.tracer import Tracer, Values

EXTENSIONS = (Extension("trace", "Packet traces", "Why a packet arrives or not, in terms of API objects."),)


@dataclass(eq=False)
class Traces:
    tracer: Tracer

    def target(self, context: Context, values: Values) -> dict[str, Any]:
        """The project whose trace it is: a member traces from its own ports, or from outside to its own."""
        return {"project_id": self.tracer.owner(context, values)}

    def create(self, context: Context, values: Values) -> dict[str, Any]:
        return self.tracer.trace(context, values)


def build(tracer: Tracer) -> ResourcePlugin:
    return ResourcePlugin(EXTENSIONS, ((TRACE, Traces(tracer)),))
