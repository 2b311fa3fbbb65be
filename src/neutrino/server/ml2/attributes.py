"""Attributes that features add to networks and ports: their definitions, how they are read, decided and checked.

All installed features add theirs, enabled or not: what is stored of an object is shown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sqlalchemy.engine import Connection

from neutrino.configuration.options import Configuration
from neutrino.model.objects import Object
from neutrino.server.api.definition import Attribute, Resource
from neutrino.server.context import Context
from neutrino.server.db.reads import Read
from neutrino.server.db.sql import Expression

BATCH = 500
Drivers = Mapping[str, object]  # mechanism drivers by name
# Refuses an update; called with the object before and after it.
CheckUpdate = Callable[[Connection, Context, Drivers, Object, Object], None]


@dataclass(frozen=True, kw_only=True)
class NetworkAttributes:
    definitions: Sequence[Attribute]
    # What the values of a project's new networks depend on: read together with what the core needs.
    reading: Callable[[str], Read[Any]]
    # Decides their values in a new network, from the request and what was read; may refuse the request.
    of_new_network: Callable[[Connection, Context, Object, Any], Object]
    check_update: CheckUpdate


@dataclass(frozen=True, kw_only=True)
class PortAttributes:
    definitions: Sequence[Attribute]
    # Expressions of the statement that reads ports. Mechanism drivers get their values with a port that they bind.
    columns: Mapping[str, Expression]
    # Their values in a new port, from the request and the network.
    of_new_port: Callable[[Object, Object], Object]
    # Refuses new ports, or an update before the port is bound.
    check_new: Callable[[Connection, Context, Drivers, Sequence[Object]], None] = lambda *about: None
    check_update: CheckUpdate = lambda *about: None
    # Attributes that are computed after the read, each with what is read for it.
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Whether they are computed with this configuration; else they have what `columns` says.
    computed: Callable[[Configuration], bool] = lambda conf: True
    # Sets the computed attributes of ports as they were read, and removes what clients do not see.
    complete: Callable[[Connection, Sequence[Object]], None] = lambda connection, ports: None


def configured(added: Iterable[PortAttributes], conf: Configuration) -> list[PortAttributes]:
    """Those of ports, without the computation that the configuration has no use for."""
    return [
        one if one.computed(conf) else replace(one, needs={}, complete=lambda connection, ports: None) for one in added
    ]


def extended(resource: Resource, added: Sequence[NetworkAttributes | PortAttributes]) -> Resource:
    """The resource with the added attributes."""
    definitions = [attribute for one in added for attribute in one.definitions]
    return replace(resource, attributes=(*resource.attributes, *definitions))


def fields_to_read(added: Iterable[PortAttributes], fields: Sequence[str] | None) -> tuple[str, ...] | None:
    """The attributes to read of ports: with what those are computed from that are wanted."""
    if fields is None:
        return None
    needed = (need for one in added for name, needs in one.needs.items() if name in fields for need in needs)
    return tuple(dict.fromkeys([*fields, *needed]))


def completed(added: Sequence[PortAttributes], connection: Connection, ports: Iterable[Object]) -> Iterator[Object]:
    """The ports with the computed attributes."""
    remaining = iter(ports)
    while batch := list(islice(remaining, BATCH)):
        for one in added:
            one.complete(connection, batch)
        yield from batch
