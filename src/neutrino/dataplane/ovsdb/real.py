"""Open vSwitch's database, through its own replica kept by the `ovs` library in a thread of its own.

The database sends what changes as it changes; there is nothing to poll. The replica holds only the columns that we read,
so that the counters of interfaces, which change all the time, wake nobody. A lost connection is made again by the library;
what changed meanwhile arrives as one difference.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from neutrino.dataplane.ovsdb import json_parser

# The `ovs` library loads eventlet where it finds one, which puts its own threads in the place of Python's.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
json_parser.install()

from ovsdbapp import exceptions  # noqa: E402
from ovsdbapp.backend.ovs_idl import connection, idlutils  # noqa: E402
from ovsdbapp.schema.open_vswitch import impl_idl  # noqa: E402

from neutrino.dataplane.ovsdb.api import (  # noqa: E402
    NO_TAG,
    Change,
    DeleteBridge,
    DeletePort,
    Listener,
    OvsdbError,
    SetBridge,
    SetManager,
    SetPort,
    Snapshot,
    compare,
)
from neutrino.dataplane.ovsdb.reading import Reading  # noqa: E402

_COLUMNS = {
    "Open_vSwitch": ["bridges", "manager_options", "cur_cfg", "next_cfg"],
    "Manager": ["target"],
    "Bridge": ["name", "datapath_type", "fail_mode", "protocols", "controller", "external_ids", "ports"],
    "Controller": ["target"],
    "Port": ["name", "tag", "other_config", "external_ids", "interfaces"],
    "Interface": ["name", "type", "ofport", "ofport_request", "mac_in_use", "error", "options", "external_ids"],
}


class _Replica(connection.OvsdbIdl):  # type: ignore[misc]
    """Says when it has changed, once for all that one message from the database brought."""

    on_change: Callable[[], None] | None = None

    def __init__(self, *arguments: Any) -> None:
        self.reading = Reading()
        super().__init__(*arguments)

    def read(self) -> Snapshot:
        bridges, managers = (list(self.tables[name].rows.values()) for name in ("Bridge", "Manager"))
        return self.reading.read(bridges, managers)

    def carried_out(self) -> int:
        """How far the switch is with what it was told."""
        return max((row.cur_cfg for row in list(self.tables["Open_vSwitch"].rows.values())), default=0)

    def run(self) -> bool:
        changed = bool(super().run())
        if changed and self.on_change is not None:
            self.on_change()
        return changed

    def notify(self, event: Any, row: Any, updates: Any = None) -> None:
        """Noted, and no more: a port may be there before its interface."""
        self.reading.changed(row)


class _Transaction(impl_idl.OvsVsctlTransaction):  # type: ignore[misc]
    """One that ends when the database has it. The switch may be down for long; what it does with it, events tell."""

    number = 0  # the switch has carried it out when it says that it is this far, or further

    def post_commit(self, txn: Any) -> None:
        self.number = txn.get_increment_new_value()


class _Commands(impl_idl.OvsdbIdl):  # type: ignore[misc]
    """The library's commands on a connection of their own: it would keep one for the whole process."""

    ovsdb_connection = None

    def create_transaction(self, check_error: bool = False, log_errors: bool = True, **_: Any) -> _Transaction:
        return _Transaction(self, self.ovsdb_connection, check_error=check_error, log_errors=log_errors)


class RealOvsdb:
    """`address` is that of the database server, such as unix:/var/run/openvswitch/db.sock."""

    def __init__(self, address: str, *, timeout: float = 30) -> None:
        self._listeners: list[Listener] = []
        self._progress = threading.Condition()
        try:
            helper = idlutils.get_schema_helper(address, "Open_vSwitch")
            for table, columns in _COLUMNS.items():
                helper.register_columns(table, columns)
            self._replica = _Replica(address, helper)
            self._connection = connection.Connection(self._replica, timeout)
            self._api = _Commands(self._connection)
        except Exception as error:
            raise OvsdbError(f"{address}: {error}") from error
        with self._connection.lock:
            self._last = self._replica.read()
            self._replica.on_change = self._changed

    def read(self) -> Snapshot:
        return self._last

    def subscribe(self, listener: Listener) -> None:
        with self._connection.lock:
            self._listeners.append(listener)

    def close(self) -> None:
        self._listeners.clear()
        self._connection.stop(timeout=5)

    def apply(self, changes: Iterable[Change], *, settle: float = 0.0) -> None:
        try:
            with self._api.transaction(check_error=True, log_errors=False) as transaction:
                for change in changes:
                    self._add(transaction, change)
        except (exceptions.OvsdbAppException, RuntimeError, idlutils.RowNotFound) as error:
            raise OvsdbError(str(error)) from error
        if settle:
            with self._progress:
                self._progress.wait_for(lambda: self._replica.carried_out() >= transaction.number, settle)

    # --- reading ---

    def _changed(self) -> None:
        before, self._last = self._last, self._replica.read()
        with self._progress:
            self._progress.notify_all()
        events = compare(before, self._last)
        for listener in list(self._listeners) if events else []:
            listener(events)

    # --- writing ---

    def _add(self, transaction: Any, change: Change) -> None:
        api = self._api
        match change:
            case SetBridge():
                transaction.add(api.add_br(change.name, may_exist=True, datapath_type=change.datapath_type or None))
                _set(api, transaction, "Bridge", change.name, _bridge_columns(change))
                if change.no_controllers:
                    transaction.add(api.db_clear("Bridge", change.name, "controller"))
            case DeleteBridge():
                transaction.add(api.del_br(change.name, if_exists=True))
            case SetPort():
                self._check_place(change)
                attributes = {"type": change.type} if change.type else {}
                if change.ofport_request is not None:
                    attributes["ofport_request"] = change.ofport_request  # type: ignore[assignment]
                if change.make:
                    transaction.add(api.add_port(change.bridge, change.name, may_exist=True, **attributes))
                columns = {"type": change.type, "options": change.options, "external_ids": change.external_ids}
                _set(api, transaction, "Interface", change.name, columns)
                _set(api, transaction, "Port", change.name, {"tag": change.tag, "other_config": change.other_config})
                if change.tag == NO_TAG:
                    transaction.add(api.db_clear("Port", change.name, "tag"))
            case DeletePort():
                transaction.add(api.del_port(change.name, bridge=change.bridge, if_exists=True))
            case SetManager():
                if change.target not in self.read().managers:
                    transaction.add(api.add_manager(change.target))

    def _check_place(self, change: SetPort) -> None:
        for bridge in self.read().bridges.values():
            if bridge.name != change.bridge and change.name in bridge.ports:
                raise OvsdbError(f"port {change.name} is on bridge {bridge.name}")


def _bridge_columns(change: SetBridge) -> dict[str, object]:
    return {
        "fail_mode": change.fail_mode,
        "protocols": list(change.protocols),
        "external_ids": change.external_ids,
    }


def _set(api: Any, transaction: Any, table: str, name: str, columns: dict[str, Any]) -> None:
    """Set the columns that have a value; of a map, the keys that are given."""
    given = {column: value for column, value in columns.items() if value}
    for column, value in given.items():
        plain = dict(value) if hasattr(value, "items") else value
        transaction.add(api.db_set(table, name, (column, plain), if_exists=True))
