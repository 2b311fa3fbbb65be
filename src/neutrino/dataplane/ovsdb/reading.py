"""Rows of Open vSwitch's database as values. A row is read again only after it has changed.

A host has hundreds of ports, and the database speaks after each of them that is plugged: reading all of them each time
would cost more than wiring them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from neutrino.dataplane.ovsdb.api import Bridge, Interface, Port, Snapshot


class Reading:
    """Remembers what it has read; `changed` says of which row that is not true any more."""

    def __init__(self) -> None:
        self._ports: dict[object, Port] = {}  # by the row's id
        self._holders: dict[object, object] = {}  # the row of an interface, to that of its port

    def changed(self, row: Any) -> None:
        self._ports.pop(row.uuid, None)
        self._ports.pop(self._holders.pop(row.uuid, None), None)

    def read(self, bridges: Iterable[Any], managers: Iterable[Any] = ()) -> Snapshot:
        known, self._ports = self._ports, {}  # rows that are gone are in no bridge, and so not remembered
        return Snapshot(
            {row.name: self._bridge(row, known) for row in bridges}, frozenset(row.target for row in managers)
        )

    def _bridge(self, row: Any, known: dict[object, Port]) -> Bridge:
        ports = [self._port(port, known) for port in row.ports]
        return Bridge(
            name=row.name,
            datapath_type=row.datapath_type,
            fail_mode=_first(row.fail_mode) or "",
            protocols=tuple(sorted(row.protocols)),
            controllers=tuple(sorted(controller.target for controller in row.controller)),
            external_ids=dict(row.external_ids),
            ports={port.name: port for port in ports},
        )

    def _port(self, row: Any, known: dict[object, Port]) -> Port:
        port = known.get(row.uuid)
        if port is None:
            interfaces = row.interfaces
            self._holders.update((interface.uuid, row.uuid) for interface in interfaces)
            port = _port(row, interfaces)
        self._ports[row.uuid] = port
        return port


def _port(row: Any, interfaces: Iterable[Any]) -> Port:
    return Port(
        name=row.name,
        tag=_first(row.tag),
        other_config=dict(row.other_config),
        external_ids=dict(row.external_ids),
        interfaces=tuple(sorted((_interface(each) for each in interfaces), key=lambda each: each.name)),
    )


def _interface(row: Any) -> Interface:
    return Interface(
        name=row.name,
        type=row.type,
        ofport=_first(row.ofport),
        mac=_first(row.mac_in_use) or "",
        error=_first(row.error) or "",
        options=dict(row.options),
        external_ids=dict(row.external_ids),
    )


def _first(values: Any) -> Any:
    """The value of a column that holds one or none."""
    with contextlib.suppress(IndexError):
        return values[0]
    return None
