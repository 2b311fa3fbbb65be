"""Finds drivers of Neutron's entry points. Needs no neutron-lib."""

import importlib.util
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from neutrino import entry_points
from neutrino.configuration.neutron_values import NEUTRON_GROUPS, is_of_third_party
from neutrino.errors import RefusedToStart

if TYPE_CHECKING:
    from neutrino.server.db.session import Database
    from neutrino.server.hosts.registry import Registry
    from neutrino.server.ml2.networks import Networks
    from neutrino.server.ml2.operations import Operations
    from neutrino.server.ml2.segments import Segments

EXTRA = "neutron-drivers"  # of pip install neutrino[…]

NOT_ADAPTED = {
    "type_drivers": "keeps its allocations in Neutron's database",
}


def find(kind: str, name: str) -> metadata.EntryPoint | None:
    """The entry point of a driver written for Neutron. Those of Neutron itself are not: its database is not here."""
    points = entry_points.of_group(NEUTRON_GROUPS[kind])
    return next((point for point in points if point.name == name and is_of_third_party(point)), None)


def load(conf: cfg.ConfigOpts, kind: str, name: str) -> Any:
    """Our driver around one written for Neutron; its class is imported, and no more is done before processes are forked."""
    point = find(kind, name)
    if point is None:
        raise ValueError(f"no package offers {name!r} as neutrino.ml2.{kind} or {NEUTRON_GROUPS[kind]}")
    label = f"[ml2] {kind}: {name!r} ({point.value}) is written for Neutron"
    if kind in NOT_ADAPTED:
        raise RefusedToStart(f"{label}, and {NOT_ADAPTED[kind]}, which is not here (docs/design/neutron-drivers.md)")
    if importlib.util.find_spec("neutron_lib") is None:
        raise RefusedToStart(f"{label} and needs neutron-lib: pip install 'neutrino[{EXTRA}]'")
    from neutrino.server.ml2.neutron_drivers.load import adapted, adapted_extension

    return (adapted_extension if kind == "extension_drivers" else adapted)(conf, point)


def attached(
    conf: cfg.ConfigOpts,
    db: "Database",
    registry: "Registry",
    operations: "Operations",
    segments: "Segments",
    networks: "Networks",
    *parts: Any,
) -> Callable[[], object]:
    """Give drivers written for Neutron the server; returns what a process of it calls when it starts."""
    drivers = (*operations.mechanisms.drivers.values(), *networks.extensions.drivers)
    if not any(getattr(driver, "is_of_neutron", False) for driver in drivers):
        return lambda: None
    from neutrino.server.ml2.neutron_drivers.load import begin
    from neutrino.server.ml2.neutron_drivers.runtime import Runtime

    return begin(Runtime(conf, db, registry, operations, segments, networks, *parts))
