"""`neutron.services.trunk.drivers.base`: drivers that are told of subports by callbacks (`callbacks.py`)."""

from collections.abc import Sequence
from typing import Any

from neutron_lib.callbacks import events, registry, resources


@registry.has_registry_receivers
class DriverBase:
    def __init__(
        self,
        name: str,
        interfaces: Sequence[str],
        segmentation_types: Sequence[str],
        agent_type: str | None = None,
        can_trunk_bound_port: bool = False,
    ) -> None:
        self.name, self.interfaces, self.segmentation_types = name, interfaces, segmentation_types
        self.agent_type, self.can_trunk_bound_port = agent_type, can_trunk_bound_port

    @property
    def is_loaded(self) -> bool:
        return False

    def is_interface_compatible(self, interface: str) -> bool:
        return interface in self.interfaces

    def is_agent_compatible(self, agent_type: str) -> bool:
        return agent_type == self.agent_type

    @registry.receives(resources.TRUNK_PLUGIN, [events.AFTER_INIT])  # type: ignore[untyped-decorator]
    def register(self, resource: str, event: str, trigger: Any, payload: Any = None) -> None:
        trigger.register_driver(self)
