"""A mechanism driver written for Neutron as one of ours (`driver_api`).

Its class is imported before processes are forked. Each process creates and initialises its own driver: drivers start
threads and open connections in `initialize`.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from neutron_lib.plugins.ml2 import api
from oslo_config import cfg

from neutrino.model.objects import Values
from neutrino.server.ml2.driver_api import Bound, Continue, DriverContext, PortToBind, Segment
from neutrino.server.ml2.neutron_drivers import callbacks, reading, runtime
from neutrino.server.ml2.neutron_drivers.calls import Hanging, failure, run, run_bounded
from neutrino.server.ml2.neutron_drivers.contexts import (
    NetworkContext,
    PortContext,
    SubnetContext,
    network_context,
    port_contexts,
    unbound,
)
from neutrino.server.ml2.ports.provisioning import ACTIVE

LOG = logging.getLogger(__name__)
KINDS = ("network", "subnet", "port")
OPERATIONS = ("create", "update", "delete")
PHASES = ("precommit", "postcommit")
PRECOMMIT_SECONDS = 30.0
MAX_REASON = 300  # characters
CALLBACKS = "neutron_lib.callbacks"  # instead of a driver's name, in calls of all that subscribe


class Adapted:
    """Has the methods of `driver_api` for which the driver overrides Neutron's, so that the core calls no others."""

    is_of_neutron = True
    reads_levels = True

    def __init__(self, conf: cfg.ConfigOpts, name: str, driver_class: type[Any]) -> None:
        self.name = name
        self._class = driver_class
        self._seconds = float(conf.ml2.driver_timeout)
        self._made: Any = None
        self._is_ready = self._hangs = False
        self._reason = ""  # why it is not ready
        self._lock = threading.Lock()
        self._server: runtime.Runtime | None = None
        self._publishes = False
        if self._overrides("bind_port"):
            self.bind_port: Callable[[PortToBind], Bound | Continue | None] = self._bind_port
        self._listen()

    def _overrides(self, method: str) -> bool:
        own = getattr(self._class, method, None)
        return own is not None and own is not getattr(api.MechanismDriver, method, None)

    def _listen(self) -> None:
        for kind in KINDS:
            for phase in PHASES:
                wanted = {one for one in OPERATIONS if self._overrides(f"{one}_{kind}_{phase}")}
                if kind == "port" and "update" in wanted:
                    wanted.add("create")  # a port that is created on a host: `port_contexts`
                for operation in OPERATIONS if self._publishes else wanted:
                    setattr(self, f"{operation}_{kind}_{phase}", partial(self._changed, phase))

    def publish_callbacks(self) -> None:
        """Also publish the events of all changes. Done by one driver of a server."""
        self._publishes = True
        self._listen()

    # --- the driver of this process -----------------------------------------------------------------------------------

    def attach(self, server: runtime.Runtime) -> None:
        self._server = server

    def begin(self) -> bool:
        """In a process that starts; whether it is worth another attempt later. One that is needed is tried again too."""
        earlier = self._reason
        try:
            self.wrapped  # noqa: B018
        except Exception:
            if self._reason != earlier:
                text = "mechanism driver %s is not initialised: its changes will be refused until it is"
                LOG.exception(text, self.name)
        return not self._is_ready and not self._hangs

    def not_ready(self) -> str:
        """Why the driver of this process is not initialised; empty if it is, or was not tried yet."""
        return "" if self._is_ready else self._reason

    @property
    def wrapped(self) -> Any:
        """The driver itself, initialised."""
        with self._lock:
            if not self._is_ready:
                call = self._call("initialize", "the process")
                if self._hangs:  # it is ready if it returns one day; a second call beside it would do harm
                    raise failure(call) from Hanging(f"{call} has not returned")
                try:
                    run_bounded(call, self._seconds, self._initialize)
                except Exception as error:
                    self._hangs = isinstance(error, Hanging)
                    cause = error.__cause__ or error
                    self._reason = " ".join(f"{type(cause).__name__}: {cause}".split())[:MAX_REASON]
                    if self._hangs:
                        raise failure(call) from error
                    raise
            return self._made

    def _initialize(self) -> None:
        if self._made is None:  # once, also if it is initialised again: it subscribes to events when it is created
            self._made = self._class()
        self._made.initialize()
        self._is_ready = True

    def _call(self, method: str, object_id: str, **more: Any) -> runtime.Call:
        assert self._server is not None, "attached when the core is built"
        return runtime.Call(self._server, self.name, method, object_id, **more)

    # --- changes ------------------------------------------------------------------------------------------------------

    def _changed(self, phase: str, context: DriverContext) -> None:
        key = context.current["id"]
        made: list[tuple[str, Any]]
        if context.kind == "network":
            made = [(context.operation, network_context(context))]
        elif context.kind == "subnet":
            made = [(context.operation, SubnetContext(context))]
        else:
            made = [*port_contexts(self._completed(context))]
        if self._publishes and phase == "precommit":
            self._publish(phase, context)
        for operation, one in made:
            method = f"{operation}_{context.kind}_{phase}"
            if self._overrides(method):
                self._run(method, key, context, getattr(self.wrapped, method), one)
        if self._publishes and phase == "postcommit":
            self._publish(phase, context)

    def _publish(self, phase: str, context: DriverContext) -> None:
        if not callbacks.is_awaited(phase, context):
            return
        call = self._call(f"{phase} of {context.operation}_{context.kind}", context.current["id"], tx=context.tx)
        self._in_time(replace(call, driver=CALLBACKS), callbacks.publish, phase, context)

    def trunk_changed(self, kind: str, happened: str, trunk: Values, subports: Sequence[Values]) -> None:
        """A listener of the core (`Operations.announce`)."""
        if kind in callbacks.OF_TRUNKS:
            call = self._call(f"{happened}_{kind}", trunk["id"])
            self._in_time(replace(call, driver=CALLBACKS), callbacks.publish_trunk, kind, happened, trunk, subports)

    def _completed(self, context: DriverContext) -> DriverContext:
        """With what is computed for a bound port, for calls that may configure equipment with it."""
        if context.tx is not None or context.operation == "delete" or not context.levels:
            return context
        call = self._call("port", context.current["id"])
        return replace(context, current=run(call, reading.completed_port, context.current))

    def _run(self, method: str, key: str, context: DriverContext, work: Callable[..., Any], *args: Any) -> None:
        self._in_time(self._call(method, key, tx=context.tx), work, *args)

    def _in_time(self, call: runtime.Call, work: Callable[..., Any], *args: Any) -> None:
        # A transaction holds locks, so a precommit has less time.
        run_bounded(call, self._seconds if call.tx is None else min(self._seconds, PRECOMMIT_SECONDS), work, *args)

    # --- binding ------------------------------------------------------------------------------------------------------

    def _bind_port(self, port: PortToBind) -> Bound | Continue | None:
        key = port.port["id"]
        call = self._call("bind_port", key, binding=key)
        context = PortContext(
            *(unbound(port.port), None, NetworkContext(port.network, None, ())),
            *(port.levels, (), port.dynamic_segments),
            to_bind=port,
        )
        run_bounded(call, self._seconds, self.wrapped.bind_port, context)
        if context.new_segment is None:
            return None
        segment = next((one for one in port.segments if one.id == context.new_segment), None)
        if segment is None:
            LOG.error("%s: %s is none of the segments to bind", call, context.new_segment)
            return None
        if context.next_segments is not None:
            return Continue(segment, [_segment(one) for one in context.next_segments])
        if context.new_vif is None:
            return None
        vif_type, details = context.new_vif
        drivers = {str(i): name for i, name in enumerate([*(level.driver for level in port.levels), self.name])}
        return Bound(
            segment,
            vif_type,
            {"connectivity": self.wrapped.connectivity, **details, "bound_drivers": drivers},
            agent_wires=False,
            components=tuple(call.components),
            is_active=context.new_status == ACTIVE,
        )


def _segment(values: Any) -> Segment:
    return Segment(
        values["network_type"], values.get("physical_network"), values.get("segmentation_id"), values.get("id", "")
    )
