"""The contexts of neutron_lib.plugins.ml2.api, over what our core gives its drivers.

Objects are copies: a driver that changes them changes nothing here.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

from neutron_lib import context as neutron_context
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api

from neutrino.model.objects import Object, Values
from neutrino.server.ml2.driver_api import BoundLevel, DriverContext, DynamicSegments, PortToBind, Segment
from neutrino.server.ml2.neutron_drivers import reading
from neutrino.server.ml2.neutron_drivers.runtime import NotProvided
from neutrino.server.ml2.segments import NAMES, provider_attributes


def segment_dict(segment: Segment, network_id: str) -> Object:
    """A segment as Neutron's drivers know it."""
    return {
        "id": segment.id,
        "network_type": segment.network_type,
        "physical_network": segment.physical_network,
        "segmentation_id": segment.segmentation_id,
        "network_id": network_id,
    }


def as_neutron(values: Values) -> Object:
    """An object as Neutron's drivers know it."""
    copy = deepcopy(dict(values))
    if "project_id" in copy:
        copy.setdefault("tenant_id", copy["project_id"])
    return copy


def network_as_neutron(values: Values, segments: Sequence[Segment]) -> Object:
    """A network with its provider attributes, which a new one has only as segments."""
    made = as_neutron(values)
    if "provider:network_type" not in made and segments:
        shown = [provider_attributes(segment) for segment in segments]
        # Of several segments, drivers find no single type: null instead of an absent key, which some do not expect.
        made |= shown[0] if len(shown) == 1 else {**dict.fromkeys(NAMES), "segments": shown}
    return made


def unbound(port: Values) -> Object:
    """The port before it was bound on its host: Neutron writes ports in this state, and binds them after the commit."""
    return {
        **port,
        portbindings.VIF_TYPE: portbindings.VIF_TYPE_UNBOUND,
        portbindings.VIF_DETAILS: {},
        "status": "DOWN",
    }


class _Context:
    @cached_property
    def plugin_context(self) -> Any:
        """Made when a driver asks: neutron-lib evaluates policy rules for it, which takes milliseconds."""
        return neutron_context.get_admin_context()

    @property
    def _plugin_context(self) -> Any:
        return self.plugin_context

    @property
    def _plugin(self) -> Any:
        return directory.get_plugin()

    def __getattr__(self, name: str) -> Any:
        raise NotProvided(f"{type(self).__name__}.{name}")


class NetworkContext(_Context, api.NetworkContext):  # type: ignore[misc]
    def __init__(self, current: Values, original: Values | None, segments: Sequence[Segment]) -> None:
        self._current = network_as_neutron(current, segments)
        self._original = None if original is None else as_neutron(original)
        self._given = [segment_dict(segment, current["id"]) for segment in segments]
        self._segments: list[Object] | None = None

    @property
    def current(self) -> Object:
        return self._current

    @property
    def original(self) -> Object | None:
        return self._original

    @property
    def network_segments(self) -> list[Object]:
        """Its segments in their order, then the dynamic ones, which are read if a driver asks."""
        if self._segments is None:
            known = {segment["id"] for segment in self._given}
            read = reading.segments(network_id=self._current["id"])
            self._segments = [*self._given, *(segment for segment in read if segment["id"] not in known)]
        return self._segments


class SubnetContext(_Context, api.SubnetContext):  # type: ignore[misc]
    def __init__(self, context: DriverContext) -> None:
        is_external = {"router:external": context.network.get("router:external", False)}
        self._current = is_external | as_neutron(context.current)
        self._original = None if context.original is None else is_external | as_neutron(context.original)
        self._network = NetworkContext(context.network, None, context.segments)

    @property
    def current(self) -> Object:
        return self._current

    @property
    def original(self) -> Object | None:
        return self._original

    @property
    def network(self) -> NetworkContext:
        return self._network


class PortContext(_Context, api.PortContext):  # type: ignore[misc]
    """A port in a precommit, postcommit or bind_port."""

    def __init__(
        self,
        current: Values,
        original: Values | None,
        network: NetworkContext,
        levels: Sequence[BoundLevel],
        original_levels: Sequence[BoundLevel],
        dynamic_segments: DynamicSegments | None,
        *,
        to_bind: PortToBind | None = None,
    ) -> None:
        self._current = as_neutron(current)
        self._original = None if original is None else as_neutron(original)
        self._network = network
        self._levels, self._original_levels = levels, original_levels
        self._dynamic_segments = dynamic_segments
        self._to_bind = to_bind
        self.new_segment: str | None = None
        self.next_segments: list[Mapping[str, Any]] | None = None
        self.new_vif: tuple[str, Mapping[str, Any]] | None = None
        self.new_status: str | None = None

    # --- the port -----------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Object:
        return self._current

    @property
    def original(self) -> Object | None:
        return self._original

    @property
    def network(self) -> NetworkContext:
        return self._network

    @property
    def status(self) -> Any:
        return self._current["status"]

    @property
    def host(self) -> Any:
        return self._current[portbindings.HOST_ID]

    @property
    def vif_type(self) -> Any:
        return self._current[portbindings.VIF_TYPE]

    @property
    def vif_details(self) -> Any:
        return self._current[portbindings.VIF_DETAILS]

    def _of_original(self, name: str) -> Any:
        return None if self._original is None else self._original[name]

    @property
    def original_status(self) -> Any:
        return self._of_original("status")

    @property
    def original_host(self) -> Any:
        return self._of_original(portbindings.HOST_ID)

    @property
    def original_vif_type(self) -> Any:
        return self._of_original(portbindings.VIF_TYPE)

    @property
    def original_vif_details(self) -> Any:
        return self._of_original(portbindings.VIF_DETAILS)

    # --- its binding --------------------------------------------------------------------------------------------------

    def _segment(self, levels: Sequence[BoundLevel], position: int) -> Object | None:
        return segment_dict(levels[position].segment, self._current["network_id"]) if levels else None

    def _shown(self, levels: Sequence[BoundLevel]) -> list[Object] | None:
        """As in Neutron: None without a binding."""
        network_id = self._current["network_id"]
        shown = [
            {api.BOUND_DRIVER: level.driver, api.BOUND_SEGMENT: segment_dict(level.segment, network_id)}
            for level in levels
        ]
        return shown or None

    @property
    def binding_levels(self) -> list[Object] | None:
        return self._shown(self._levels)

    @property
    def original_binding_levels(self) -> list[Object] | None:
        return self._shown(self._original_levels)

    @property
    def top_bound_segment(self) -> Object | None:
        return self._segment(self._levels, 0)

    @property
    def original_top_bound_segment(self) -> Object | None:
        return self._segment(self._original_levels, 0)

    @property
    def bottom_bound_segment(self) -> Object | None:
        return self._segment(self._levels, -1)

    @property
    def original_bottom_bound_segment(self) -> Object | None:
        return self._segment(self._original_levels, -1)

    # --- bind_port ----------------------------------------------------------------------------------------------------

    @property
    def segments_to_bind(self) -> list[Object] | None:
        if self._to_bind is None:
            return None
        return [segment_dict(segment, self._current["network_id"]) for segment in self._to_bind.segments]

    def host_agents(self, agent_type: str) -> list[Object]:
        found = self._to_bind.agents if self._to_bind is not None else reading.agents_on(self.host)
        return [as_neutron(agent) for agent in found if agent["agent_type"] == agent_type]

    def set_binding(
        self, segment_id: str, vif_type: str, vif_details: Mapping[str, Any], status: str | None = None
    ) -> None:
        self.new_segment, self.new_vif, self.new_status = segment_id, (vif_type, vif_details), status

    def continue_binding(self, segment_id: str, next_segments_to_bind: Sequence[Mapping[str, Any]]) -> None:
        self.new_segment, self.next_segments = segment_id, list(next_segments_to_bind)

    # --- dynamic segments ---------------------------------------------------------------------------------------------

    def allocate_dynamic_segment(self, segment: Mapping[str, Any]) -> Object:
        return reading.allocate_dynamic_segment(self._current["network_id"], segment)

    def release_dynamic_segment(self, segment_id: str) -> None:
        reading.release_dynamic_segment(segment_id)


def network_context(context: DriverContext) -> NetworkContext:
    return NetworkContext(context.current, context.original, context.segments)


def port_contexts(context: DriverContext) -> list[tuple[str, PortContext]]:
    """The calls that Neutron makes for what is one change here, each with its operation.

    Neutron writes a port unbound, and its binding after the commit as an update; here both are one write. So a port that
    is created or updated with a new binding is told as two changes, in that order.
    """
    network = NetworkContext(context.network, None, context.segments)
    current, original, dynamic = context.current, context.original, context.dynamic_segments
    if not is_bound_anew(context):
        made = PortContext(current, original, network, context.levels, context.original_levels, dynamic)
        return [(context.operation, made)]
    before = unbound(current)
    return [
        (context.operation, PortContext(before, original, network, (), context.original_levels, dynamic)),
        ("update", PortContext(current, before, network, context.levels, (), dynamic)),
    ]


def is_bound_anew(context: DriverContext) -> bool:
    """Whether the change includes an attempt to bind the port."""
    if context.operation == "delete" or not context.current.get(portbindings.HOST_ID):
        return False
    if context.original is None:
        return True
    binding = (
        portbindings.HOST_ID,
        portbindings.VNIC_TYPE,
        portbindings.PROFILE,
        portbindings.VIF_TYPE,
        portbindings.VIF_DETAILS,
    )
    is_same = all(context.current.get(name) == context.original.get(name) for name in binding)
    return not is_same or context.levels != context.original_levels
