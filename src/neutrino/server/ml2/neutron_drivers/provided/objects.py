"""`neutron.objects`: networks, subnets, segments, ports and levels of their bindings, trunks, to be read."""

from collections.abc import Mapping
from typing import Any

from neutrino.server.ml2.neutron_drivers import reading
from neutrino.server.ml2.neutron_drivers.runtime import NotProvided, matching


class _Object:
    """An object of the database, with its attributes as attributes and as items."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @classmethod
    def _read(cls, filters: dict[str, Any]) -> list[dict[str, Any]]:
        raise NotImplementedError

    @classmethod
    def get_objects(
        cls, context: Any, _pager: Any = None, validate_filters: bool = True, fields: Any = None, **filters: Any
    ) -> list[Any]:
        return [cls(values) for values in cls._read(filters)]

    @classmethod
    def get_object(cls, context: Any, fields: Any = None, **filters: Any) -> Any:
        return next(iter(cls.get_objects(context, **filters)), None)

    @classmethod
    def objects_exist(cls, context: Any, validate_filters: bool = True, **filters: Any) -> bool:
        return bool(cls._read(filters))

    @classmethod
    def count(cls, context: Any, validate_filters: bool = True, **filters: Any) -> int:
        return len(cls._read(filters))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise NotProvided(f"{type(self).__name__}.{name}")
        return self._values[name]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def to_dict(self) -> dict[str, Any]:
        return dict(self._values)


class SubPort(_Object):
    @classmethod
    def _read(cls, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return reading.subports(filters)


class Trunk(_Object):
    @classmethod
    def _read(cls, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**one, "sub_ports": SubPort.get_objects(None, trunk_id=one["id"])} for one in reading.trunks(filters)]


class _Viewed(_Object):
    kind = ""

    @classmethod
    def _read(cls, filters: dict[str, Any]) -> list[dict[str, Any]]:
        key = filters.get("id")
        if isinstance(key, str):
            found = reading.find(cls.kind, key)
            return matching([found] if found is not None else [], filters)
        return reading.find_all(cls.kind, filters)


class Network(_Viewed):
    kind = "network"


class Subnet(_Viewed):
    kind = "subnet"


class Port(_Viewed):
    kind = "port"


class NetworkSegment(_Object):
    @classmethod
    def _read(cls, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return reading.segments(**filters)


class PortBindingLevel(_Object):
    @classmethod
    def _read(cls, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return reading.binding_levels(filters)
