"""The core plugin as drivers written for Neutron know it: `directory.get_plugin()`, and `_plugin` of their contexts.

It has the methods that drivers call; any other one is an error that names the driver. Callers are the server's own drivers,
so objects of all projects are visible.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from neutron_lib import exceptions

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import admin_context
from neutrino.server.ml2.neutron_drivers import reading
from neutrino.server.ml2.neutron_drivers.contexts import as_neutron
from neutrino.server.ml2.neutron_drivers.runtime import NotProvided, current

Fields = Sequence[str] | None


class TypeManager:
    def allocate_dynamic_segment(self, context: Any, network_id: str, segment: Mapping[str, Any]) -> Object:
        return reading.allocate_dynamic_segment(network_id, segment)

    def release_dynamic_segment(self, context: Any, segment_id: str) -> None:
        reading.release_dynamic_segment(segment_id)

    def is_partial_segment(self, segment: Mapping[str, Any]) -> bool:
        """Whether a segmentation id is still to be allocated."""
        return segment["network_type"] not in ("flat", "local") and segment.get("segmentation_id") is None

    def __getattr__(self, name: str) -> Any:
        raise NotProvided(f"type_manager.{name}")


class _Named:
    """A mechanism driver as stevedore lists it."""

    def __init__(self, name: str, driver: Any) -> None:
        self.name, self.obj = name, driver


class MechanismManager:
    @property
    def ordered_mech_drivers(self) -> list[_Named]:
        return [_Named(name, getattr(one, "wrapped", one)) for name, one in current().mechanisms.drivers.items()]

    def __getattr__(self, name: str) -> Any:
        raise NotProvided(f"mechanism_manager.{name}")


class CorePlugin:
    def __init__(self) -> None:
        self.type_manager, self.mechanism_manager = TypeManager(), MechanismManager()

    # --- reading ------------------------------------------------------------------------------------------------------

    def get_network(self, context: Any, id: str, fields: Fields = None) -> Object:
        return self._get("network", id, fields, exceptions.NetworkNotFound(net_id=id))

    def get_networks(self, context: Any, filters: Any = None, fields: Fields = None, **page: Any) -> list[Object]:
        return self._list("network", filters, fields)

    def get_subnet(self, context: Any, id: str, fields: Fields = None) -> Object:
        return self._get("subnet", id, fields, exceptions.SubnetNotFound(subnet_id=id))

    def get_subnets(self, context: Any, filters: Any = None, fields: Fields = None, **page: Any) -> list[Object]:
        return self._list("subnet", filters, fields)

    def get_subnets_by_network(self, context: Any, network_id: str) -> list[Object]:
        return self._list("subnet", {"network_id": [network_id]}, None)

    def get_port(self, context: Any, id: str, fields: Fields = None) -> Object:
        return self._get("port", id, fields, exceptions.PortNotFound(port_id=id))

    def get_ports(self, context: Any, filters: Any = None, fields: Fields = None, **page: Any) -> list[Object]:
        return self._list("port", filters, fields)

    def get_ports_count(self, context: Any, filters: Any = None) -> int:
        return len(self._list("port", filters, None))

    def get_agents(self, context: Any, filters: Any = None, fields: Fields = None) -> list[Object]:
        return [as_neutron(agent) for agent in reading.agents(filters)]

    def _get(self, kind: str, key: str, fields: Fields, missing: Exception) -> Object:
        found = reading.find(kind, key)
        if found is None:
            raise missing
        return _with(as_neutron(found), fields)

    def _list(self, kind: str, filters: Any, fields: Fields) -> list[Object]:
        return [_with(as_neutron(one), fields) for one in reading.find_all(kind, filters)]

    def _make_port_dict(self, port: Any, fields: Fields = None, **more: Any) -> Object:
        """A port of `neutron.objects.ports` as a dictionary."""
        return self.get_port(None, port["id"], fields)

    # --- writing ------------------------------------------------------------------------------------------------------

    def update_port(self, context: Any, id: str, port: Mapping[str, Any]) -> Object:
        try:
            return as_neutron(current().ports.update(admin_context(), id, dict(port["port"]), None))
        except errors.NotFound:
            raise exceptions.PortNotFound(port_id=id) from None

    def update_port_status(
        self, context: Any, port_id: str, status: str, host: str | None = None, network: Any = None
    ) -> str | None:
        """None if there is no such port."""
        return port_id if reading.set_status(port_id, status) else None

    def __getattr__(self, name: str) -> Any:
        raise NotProvided(f"the core plugin's {name}")


def _with(values: Object, fields: Fields) -> Object:
    return values if not fields else {name: values[name] for name in fields if name in values}
