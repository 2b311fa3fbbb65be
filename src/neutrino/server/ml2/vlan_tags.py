"""Networks that carry the VLAN tags of instances: `vlan_transparent` and `qinq`.

As in Neutron, an attribute exists if the operator enables it by the option of the same name, and a network gets it only if
all mechanism drivers carry tags on networks of its type. Both are fixed when a network is created.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oslo_config import cfg

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Extension, Resource, creatable
from neutrino.server.ml2.driver_api import Segment

TRANSPARENT, QINQ = "vlan_transparent", "qinq"
NAMES = (TRANSPARENT, QINQ)


@dataclass(frozen=True)
class _Feature:
    attribute: Attribute
    option: str  # in [DEFAULT]
    supported_types: str  # the attribute of a mechanism driver with the network types that it carries tags on
    refusal: type[errors.ApiError]
    extension: Extension


_FEATURES = (
    _Feature(
        creatable(TRANSPARENT, t.Bool(), filter=True),
        "vlan_transparent",
        "vlan_transparent_types",
        errors.VlanTransparencyDriverError,
        Extension("vlan-transparent", "Vlantransparent", "Networks that carry the VLAN tags of instances."),
    ),
    _Feature(
        creatable(QINQ, t.Bool(), filter=True),
        "vlan_qinq",
        "qinq_types",
        errors.VlanQinqDriverError,
        Extension("qinq", "QinQ networks", "VLAN networks with tags of 802.1ad, which carry the tags of instances."),
    ),
)
ATTRIBUTES = tuple(feature.attribute for feature in _FEATURES)


class VlanTags:
    def __init__(self, conf: cfg.ConfigOpts, mechanism_drivers: Iterable[Any]) -> None:
        self._enabled = [feature for feature in _FEATURES if conf[feature.option]]
        self._drivers = tuple(mechanism_drivers)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.attribute.name for feature in self._enabled)

    @property
    def extensions(self) -> list[Extension]:
        return [feature.extension for feature in self._enabled]

    def resource(self, resource: Resource) -> Resource:
        """The definition with the enabled attributes."""
        added = tuple(feature.attribute for feature in self._enabled)
        return replace(resource, attributes=(*resource.attributes, *added)) if added else resource

    def of_new_network(self, values: Values, segments: Sequence[Segment]) -> dict[str, bool]:
        """The attributes of a new network; refused if a driver does not carry tags on one of its segments."""
        wanted = {name: bool(values.get(name)) for name in NAMES}
        if all(wanted.values()):
            raise errors.InvalidInput(f"Invalid input for {QINQ}: a network has either {TRANSPARENT} or {QINQ}.")
        for feature in _FEATURES:
            if wanted[feature.attribute.name] and not self._is_carried(feature, segments):
                raise feature.refusal()
        return wanted

    def _is_carried(self, feature: _Feature, segments: Sequence[Segment]) -> bool:
        types = {segment.network_type for segment in segments}
        return all(types <= getattr(driver, feature.supported_types, frozenset()) for driver in self._drivers)
