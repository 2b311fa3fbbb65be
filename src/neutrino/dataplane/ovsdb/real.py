"""Open vSwitch's database, through a replica that the `ovs` library keeps in a thread of its own.

The database pushes changes; nothing is polled. The replica has only the columns that we read, as the counters of
interfaces change all the time. The library reconnects after a lost connection; the changes in between arrive as one update.
"""

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from neutrino.dataplane.ovsdb import api, json_parser
from neutrino.model.objects import Object

# The `ovs` library imports eventlet where it is installed, and then uses its green threads instead of Python's.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
json_parser.install()

from ovs.db import idl  # noqa: E402
from ovs.stream import Stream  # noqa: E402
from ovsdbapp import exceptions  # noqa: E402
from ovsdbapp.backend.ovs_idl import command, connection, idlutils  # noqa: E402
from ovsdbapp.schema.open_vswitch import impl_idl  # noqa: E402

_COLUMNS = {
    "Open_vSwitch": [
        *("bridges", "manager_options", "cur_cfg", "next_cfg", "datapath_types", "iface_types", "other_config"),
    ],
    "Manager": ["target"],
    "Controller": ["target", "connection_mode", "max_backoff"],
    "Bridge": ["name", "datapath_type", "fail_mode", "external_ids", "ports", "controller", "other_config"],
    "Port": ["name", "tag", "trunks", "other_config", "external_ids", "interfaces", "qos"],
    "Interface": ["name", "type", "ofport", "options", "other_config", "external_ids", *api.SETTABLE],
    "QoS": ["type", "other_config", "queues", "external_ids"],
    "Queue": ["other_config", "dscp", "external_ids"],
}
_VLAN_LIMIT = "vlan-limit"
_BACKOFF = 60_000  # milliseconds between attempts to connect to a controller
# As Neutron's agent marks its rows: QoS by port or, for minimum bandwidths, by a random id; Queue by port.
_NEUTRON_TYPES = ("bandwidth_limit", "minimum_bandwidth")
_POLICER = "egress-policer"  # on a DPDK device
_POLICING = ("ingress_policing_rate", "ingress_policing_burst")
T = TypeVar("T")


class _Replica(connection.OvsdbIdl):  # type: ignore[misc]
    """Calls `on_change` once for each message from the database, however many rows it changes.

    Ports are kept as values, each read again only after its row has changed: the database sends an update for each port
    that is plugged, and a host has hundreds, so reading all of them each time would cost more than wiring them.
    """

    on_change: Callable[[], None] | None = None

    def __init__(self, *arguments: object) -> None:
        self._ports: dict[object, api.Port] = {}  # by the row's uuid
        self._holders: dict[object, object] = {}  # the row of an interface, QoS or Queue, to that of its port
        super().__init__(*arguments)

    def _rows(self, table: str) -> list[idl.Row]:
        return list(self.tables[table].rows.values())

    def carried_out(self) -> int:
        """The configuration number that the switch has applied."""
        return max((row.cur_cfg for row in self._rows("Open_vSwitch")), default=0)

    def run(self) -> bool:
        changed = bool(super().run())
        if changed and self.on_change is not None:
            self.on_change()
        return changed

    def notify(self, event: str, row: idl.Row, updates: idl.Row | None = None) -> None:
        """Invalidates the row, and no more: it is called while the rows that a row refers to may be missing yet."""
        self._ports.pop(row.uuid, None)
        self._ports.pop(self._holders.pop(row.uuid, None), None)

    def read(self) -> api.Snapshot:
        known, self._ports = self._ports, {}  # deleted rows are in no bridge, so they leave the cache
        bridges = {row.name: self._bridge(row, known) for row in self._rows("Bridge")}
        shaping = (*self._rows("QoS"), *self._rows("Queue"))
        # Reading the column of every port takes as long as all else, and most hosts have no such rows.
        used = {qos.uuid for row in self._rows("Port") for qos in row.qos} if shaping else set()
        used |= {queue.uuid for qos in self._rows("QoS") if qos.uuid in used for queue in qos.queues.values()}
        unused = frozenset(
            str(row.uuid) for row in shaping if (_is_ours(row) or _is_neutrons(row)) and row.uuid not in used
        )
        managers, switches = frozenset(row.target for row in self._rows("Manager")), self._rows("Open_vSwitch")
        datapaths, interfaces = (
            tuple(sorted({each for row in switches for each in getattr(row, column)}))
            for column in ("datapath_types", "iface_types")
        )
        limits = (row.other_config.get(_VLAN_LIMIT, "") for row in switches)
        limit = next((int(each) for each in limits if each.isdigit()), 1)  # 1 is Open vSwitch's default
        return api.Snapshot(bridges, managers, unused, datapaths, interfaces, limit)

    def _bridge(self, row: idl.Row, known: dict[object, api.Port]) -> api.Bridge:
        ports = {port.name: port for port in (self._port(each, known) for each in row.ports)}
        controllers = frozenset(each.target for each in row.controller)
        fail_mode = _first(row.fail_mode) or ""
        maps = dict(row.external_ids), dict(row.other_config)
        return api.Bridge(row.name, row.datapath_type, fail_mode, maps[0], ports, controllers, maps[1])

    def _port(self, row: idl.Row, known: dict[object, api.Port]) -> api.Port:
        port = known.get(row.uuid)
        if port is None:
            shaping = (queue for qos in row.qos for queue in (qos, *qos.queues.values()))
            self._holders.update((part.uuid, row.uuid) for part in (*row.interfaces, *shaping))
            port = _port(row)
        self._ports[row.uuid] = port
        return port


class _Transaction(impl_idl.OvsVsctlTransaction):  # type: ignore[misc]
    """A transaction that ends when the database has committed it: the switch, which applies it, may be down for long."""

    number = 0  # the switch has applied it when its configuration number is this or higher

    def post_commit(self, txn: idl.Transaction) -> None:
        self.number = txn.get_increment_new_value()


class _Commands(impl_idl.OvsdbIdl):  # type: ignore[misc]
    """The library's commands on one connection of ours: by default it keeps one for the whole process."""

    ovsdb_connection = None

    def create_transaction(self, check_error: bool = False, log_errors: bool = True, **_: object) -> _Transaction:
        return _Transaction(self, self.ovsdb_connection, check_error=check_error, log_errors=log_errors)


class RealOvsdb:
    """`address` is that of the database server, such as unix:/var/run/openvswitch/db.sock."""

    def __init__(self, address: str, *, timeout: float = 30, tls: api.ClientFiles | None = None) -> None:
        self._listeners: list[api.Listener] = []
        self._progress = threading.Condition()
        if tls is not None:  # of all connections of the process; read again for each new one, so they can be renewed
            Stream.ssl_set_private_key_file(tls.key)
            Stream.ssl_set_certificate_file(tls.certificate)
            Stream.ssl_set_ca_cert_file(tls.authority)
        try:
            helper = idlutils.get_schema_helper(address, "Open_vSwitch")
            for table, columns in _COLUMNS.items():
                helper.register_columns(table, columns)
            self._replica = _Replica(address, helper)
            self._connection = connection.Connection(self._replica, timeout)
            self._commands = _Commands(self._connection)
        except Exception as error:  # the library raises plain ones where the database is not reachable
            raise api.OvsdbError(f"{address}: {error}") from error
        with self._connection.lock:  # the library's thread may be applying an update
            # Read before changes are reported: events are differences from this snapshot.
            self._last = self._replica.read()
            self._replica.on_change = self._changed

    def read(self) -> api.Snapshot:
        return self._last  # frozen, and replaced as a whole: needs no lock

    def subscribe(self, listener: api.Listener) -> None:
        with self._connection.lock:
            self._listeners.append(listener)

    def close(self) -> None:
        self._listeners.clear()  # their event loop may end before the library's thread
        self._connection.stop(timeout=5)

    def apply(self, changes: Iterable[api.Change], *, wait: float = 0.0) -> None:
        try:
            with self._commands.transaction(check_error=True, log_errors=False) as transaction:
                for change in changes:
                    self._add(transaction, change)
        except (exceptions.OvsdbAppException, RuntimeError, idlutils.RowNotFound) as error:
            raise api.OvsdbError(str(error)) from error
        # The switch copies next_cfg, which the transaction has incremented, to cur_cfg once it has applied the rows.
        if wait:
            with self._progress:
                self._progress.wait_for(lambda: self._replica.carried_out() >= transaction.number, wait)

    # --- reading ---

    def _changed(self) -> None:
        before, self._last = self._last, self._replica.read()
        with self._progress:
            self._progress.notify_all()
        events = api.compare(before, self._last)
        # In the library's thread, which holds the replica's lock: a listener that waited would stop all transactions.
        for listener in list(self._listeners) if events else []:
            listener(events)

    # --- writing ---

    def _add(self, transaction: _Transaction, change: api.Change) -> None:
        commands = self._commands
        match change:
            case api.SetBridge():
                datapath_type = change.datapath_type or None
                transaction.add(commands.add_br(change.name, may_exist=True, datapath_type=datapath_type))
                columns = {"fail_mode": change.fail_mode, "external_ids": change.external_ids}
                self._set(transaction, "Bridge", change.name, {**columns, "other_config": change.other_config})
            case api.DeleteBridge():
                transaction.add(commands.del_br(change.name, if_exists=True))
            case api.SetPort():
                self._check_place(change)
                attributes = {"type": change.type} if change.type else {}
                if change.make:
                    transaction.add(commands.add_port(change.bridge, change.name, may_exist=True, **attributes))
                columns = {"options": change.options, "external_ids": change.external_ids}
                self._set(transaction, "Interface", change.name, {**attributes, **columns})
                vlans = {"tag": change.tag, "trunks": list(change.trunks)}
                self._set(transaction, "Port", change.name, {**vlans, "other_config": change.other_config})
                if change.tag == api.NO_TAG:
                    transaction.add(commands.db_clear("Port", change.name, "tag"))
            case api.DeletePort():
                transaction.add(commands.del_port(change.name, bridge=change.bridge, if_exists=True))
            case api.SetManager():
                if change.target not in self.read().managers:
                    transaction.add(commands.add_manager(change.target))
            case api.SetVlanLimit():
                value = {_VLAN_LIMIT: str(change.limit)}
                transaction.add(commands.db_set("Open_vSwitch", ".", ("other_config", value)))
            case api.ConfigurePort() | api.DeleteUnused() | api.SetControllers():
                transaction.add(_Write(commands, change))

    def _check_place(self, change: api.SetPort) -> None:
        # With may_exist the library leaves a port of that name on another bridge where it is, without an error.
        for bridge in self.read().bridges.values():
            if bridge.name != change.bridge and change.name in bridge.ports:
                raise api.OvsdbError(f"port {change.name} is on bridge {bridge.name}")

    def _set(self, transaction: _Transaction, table: str, name: str, columns: Object) -> None:
        """Set the columns that have a value; of a map, the given keys."""
        for column, value in columns.items():
            if value:
                plain = dict(value) if isinstance(value, Mapping) else value
                transaction.add(self._commands.db_set(table, name, (column, plain), if_exists=True))


class _Write(command.BaseCommand):  # type: ignore[misc]
    """A command for changes that the library has none for."""

    def __init__(self, commands: _Commands, change: api.ConfigurePort | api.DeleteUnused | api.SetControllers) -> None:
        super().__init__(commands)
        self._change = change

    def run_idl(self, txn: idl.Transaction) -> None:
        tables = self.api.idl.tables
        if isinstance(self._change, api.DeleteUnused):
            rows = (row for table in ("QoS", "Queue") for row in list(tables[table].rows.values()))
            for row in rows:
                if str(row.uuid) in self._change.rows:
                    row.delete()
            return
        if isinstance(self._change, api.SetControllers):
            bridge = idlutils.row_by_value(self.api.idl, "Bridge", "name", self._change.bridge, None)
            if bridge is not None:
                _set_controllers(txn, tables, bridge, self._change.targets)
            return
        port = idlutils.row_by_value(self.api.idl, "Port", "name", self._change.name, None)
        if port is not None:
            for interface in port.interfaces:
                _set_columns(interface, self._change.settings.columns)
            others = {qos.uuid for row in tables["Port"].rows.values() if row != port for qos in row.qos}
            _set_qos(txn, tables, port, self._change.settings.qos, others)


def _set_controllers(
    txn: idl.Transaction, tables: Mapping[str, object], bridge: idl.Row, targets: Iterable[str]
) -> None:
    """The database collects rows that no bridge refers to."""
    rows = {row.target: row for row in bridge.controller}
    for target in targets:
        if target not in rows:
            row = rows[target] = txn.insert(tables["Controller"])
            row.target, row.max_backoff = target, [_BACKOFF]
            row.connection_mode = ["out-of-band"]  # else the switch adds hidden flows for packets to the controller
    bridge.controller = [rows[target] for target in targets]


def _set_columns(interface: idl.Row, wanted: Mapping[str, str]) -> None:
    for name in (*_columns(interface).keys() - wanted.keys(), *wanted):
        column, _, key = name.partition(":")
        if not key:
            setattr(interface, column, int(wanted.get(name, 0)))
        elif name in wanted:
            interface.setkey(column, key, wanted[name])
        else:
            interface.delkey(column, key)
    if wanted:
        interface.setkey("external_ids", api.COLUMNS_KEY, ",".join(sorted(wanted)))
    else:
        interface.delkey("external_ids", api.COLUMNS_KEY)


def _set_qos(
    txn: idl.Transaction,
    tables: Mapping[str, object],
    port: idl.Row,
    wanted: api.Qos | None,
    of_others: Collection[object],
) -> None:
    """`of_others`: QoS rows that other ports have."""
    row = next((qos for qos in port.qos if _is_ours(qos) or _is_neutrons(qos)), None)
    if row is not None and row.uuid in of_others:
        port.qos, row = [], None  # Neutron has one row for several uplinks; it is unused after the last of them
    if wanted is None:
        if row is not None:  # QoS and Queue are root tables: rows without a reference stay until they are deleted
            port.qos = []
            for each in (*row.queues.values(), row):
                each.delete()
        return
    # Changed in place: a replaced row would stay behind, as nothing collects it, and the device would lose its queues
    # with the packets in them for a moment.
    row = row or txn.insert(tables["QoS"])
    queues = dict(getattr(row, "queues", {}))
    for number in queues.keys() - wanted.queues.keys():
        queues.pop(number).delete()
    for number, queue in wanted.queues.items():
        each = queues[number] = queues.get(number) or txn.insert(tables["Queue"])
        each.other_config, each.external_ids = dict(queue.other_config), {api.MARK: api.EXTENSION}
        each.dscp = [] if queue.dscp is None else [queue.dscp]
    row.type, row.other_config, row.external_ids = wanted.type, dict(wanted.other_config), {api.MARK: api.EXTENSION}
    row.queues, port.qos = queues, [row]


# --- rows as values ---


def _port(row: idl.Row) -> api.Port:
    interfaces = row.interfaces
    return api.Port(
        name=row.name,
        tag=_first(row.tag),
        other_config=dict(row.other_config),
        external_ids=dict(row.external_ids),
        interfaces=tuple(sorted((_interface(interface) for interface in interfaces), key=lambda each: each.name)),
        settings=api.PortSettings(
            {column: value for interface in interfaces for column, value in _columns(interface).items()},
            next((_qos(qos) for qos in row.qos if _is_ours(qos) or _is_neutrons(qos)), None),
        ),
        foreign_qos=any(not (_is_ours(qos) or _is_neutrons(qos)) for qos in row.qos),
        trunks=tuple(sorted(row.trunks)),
    )


def _is_ours(row: idl.Row) -> bool:
    return bool(row.external_ids.get(api.MARK) == api.EXTENSION)


def _is_neutrons(row: idl.Row) -> bool:
    """Whether Neutron's agent has made this row of QoS or Queue."""
    marks = row.external_ids
    if "_type" in marks or "type" in marks:
        return marks.get("_type", marks.get("type")) in _NEUTRON_TYPES and ("id" in marks or "queue-num" in marks)
    return {*marks} == {"id"} and getattr(row, "type", "") == _POLICER


def _columns(interface: idl.Row) -> dict[str, str]:
    """The columns that we, or Neutron's agent, have set, as they are now."""
    policed = _POLICING if "iface-id" in interface.external_ids else ()
    found = {name: str(value) for name in policed if (value := getattr(interface, name))}
    for name in filter(None, interface.external_ids.get(api.COLUMNS_KEY, "").split(",")):
        column, _, key = name.partition(":")
        value = interface.other_config.get(key, "") if key else getattr(interface, column)
        found[name] = str(value)
    return found


def _qos(row: idl.Row) -> api.Qos:
    queues = {number: api.Queue(dict(each.other_config), _first(each.dscp)) for number, each in row.queues.items()}
    return api.Qos(row.type, dict(row.other_config), queues)


def _interface(row: idl.Row) -> api.Interface:
    return api.Interface(row.name, row.type, _first(row.ofport), dict(row.options), dict(row.external_ids))


def _first(values: Sequence[T]) -> T | None:
    """The value of a column that holds one or none."""
    return values[0] if values else None
