"""The table `dns_records`: what ports and floating IPs want to have published, written in the transaction of their change.

`Recorder.record` runs at the end of a write. It reads every port and floating IP that the transaction changes, whichever
request, service or cascade changed them, and stores the difference between the records that they want and their rows. So
after a commit nothing can be lost, and the publisher works from the table alone. A row that is no longer wanted stays until
the publisher has removed the record: only then is nothing of it left in the DNS.
"""

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino import request_ids
from neutrino.features.dns.tables import dns_callers, dns_records
from neutrino.features.dns.wanted import (
    NOBODY,
    Caller,
    NamedFloatingIp,
    NamedNetwork,
    NamedPort,
    ProjectRanges,
    Record,
    has_public_addresses,
    records_of_floating_ip,
    records_of_port,
)
from neutrino.features.router.tables import floatingips
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, new_id
from neutrino.server.db.session import Database
from neutrino.server.db.sql import NamedRow, Selection
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.segments import read_segments

LOG = logging.getLogger(__name__)
BATCH = 200  # objects that a sweep reads and writes in one transaction
NAME_MAX = 255  # of the columns of names
_PORTS = sa.select(
    t.ports.c.id,
    t.ports.c.project_id,
    t.ports.c.dns_name,
    t.ports.c.dns_domain,
    t.ports.c.fixed_ips,
    t.ports.c.network_id,
    t.networks.c.dns_domain.label("network_domain"),
    t.networks.c.external,
).join(t.networks, t.networks.c.id == t.ports.c.network_id)
_OF_FLOATING_IPS = ("id", "project_id", "port_id", "floating_ip_address", "dns_name", "dns_domain")
_FLOATING_IPS = sa.select(*(floatingips.c[name] for name in _OF_FLOATING_IPS))
_AGAIN = {"pending": True, "attempts": 0, "retry_at": 0.0}
_SET_WANTED = (
    sa.update(dns_records)
    .where(dns_records.c.id == sa.bindparam("row"))
    .values(wanted=sa.bindparam("is_wanted", type_=sa.Boolean), **_AGAIN)
)
# Attributes of a port, network or subnet that its records, or those of its ports, depend on.
_RELEVANT = {
    "port": ("dns_name", "dns_domain", "fixed_ips"),
    "network": ("dns_domain", "router:external", "provider:segmentation_id"),
    "subnet": ("dns_publish_fixed_ip",),
}


@dataclass(eq=False)
class Recorder:
    db: Database
    ranges: ProjectRanges
    publishes_ports: bool  # false with the default dns_domain: then Neutron publishes only floating IPs with a name
    recorded: Callable[[], object] = field(default=lambda: None)  # called after the commit: the publisher has work
    network_changed: Callable[[str], object] = field(default=lambda network_id: None)

    def record(self, tx: Transaction, contexts: Sequence[DriverContext]) -> None:
        """In a transaction, after its rows: store what its ports and floating IPs want. `contexts`: its known changes."""
        unchanged = {c.current["id"] for c in contexts if c.kind == "port" and _is_irrelevant(c)}
        ports = [key for key in tx.changed("port") if key not in unchanged]
        self._store(tx, ports, tx.changed("floatingip"), _caller())
        for context in contexts:
            # Its ports may be thousands: the publisher's thread records them, in transactions of their own.
            if _concerns_all_ports(context):
                tx.after_commit(self.network_changed, context.network.get("id") or context.current["id"])

    def _store(
        self, tx: Transaction, port_ids: Sequence[str], floating_ids: Sequence[str], caller: Caller = NOBODY
    ) -> None:
        """`caller`: who changes these ports, if that is a request."""
        if not port_ids and not floating_ids:
            return
        connection = tx.connection
        floating_ips = _read_floating_ips(connection, port_ids, floating_ids)
        on_ports = {row.port_id for row in floating_ips if row.port_id and not row.dns_name}
        ports = self._read_ports(connection, {*port_ids, *on_ports})
        ports |= _with_callers(tx, [port for port in ports.values() if port.needs_caller], port_ids, caller)
        wanted: dict[str, tuple[str, str, frozenset[Record]]] = {}  # by object: its type, its project, its records
        for port in ports.values():
            if port.id in port_ids:
                wanted[port.id] = "port", port.project_id, records_of_port(port, self.ranges)
        for row in floating_ips:
            one = NamedFloatingIp(
                row.id, row.project_id, row.floating_ip_address, row.dns_name, row.dns_domain, ports.get(row.port_id)
            )
            wanted[row.id] = "floatingip", row.project_id, records_of_floating_ip(one)
        of_objects = dns_records.c.object_id.in_(sorted({*port_ids, *floating_ids, *wanted}))
        stored = connection.execute(sa.select(dns_records).where(of_objects)).all()
        if _write_difference(tx, wanted, stored):
            tx.after_commit(self.recorded)

    def _read_ports(self, connection: Connection, ids: Collection[str]) -> dict[str, NamedPort]:
        if not ids or not self.publishes_ports:
            return {}
        rows = connection.execute(_PORTS.where(t.ports.c.id.in_(sorted(ids)))).all()
        named = {row.network_id for row in rows if row.dns_name and (row.dns_domain or row.network_domain)}
        segments = read_segments(connection, sorted(named)) if named else {}
        published = _published_subnets(connection, named)
        found = {}
        for row in rows:
            subnets = frozenset(key for network_id, key in published if network_id == row.network_id)
            shown = segments.get(row.network_id, ())
            network = NamedNetwork(row.network_id, row.network_domain, row.external, shown, subnets)
            addresses = tuple((fixed["subnet_id"], fixed["ip_address"]) for fixed in decode(row.fixed_ips))
            found[row.id] = NamedPort(row.id, row.project_id, row.dns_name, row.dns_domain, network, addresses)
        return found

    def private_addresses(self, rows: Sequence[NamedRow]) -> frozenset[str]:
        """The addresses of these records that only ports on networks with prefixes of a project's choice have."""
        with self.db.read() as connection:
            ports = self._read_ports(connection, {row.object_id for row in rows if row.object_type == "port"})
        public = {
            row.address
            for row in rows
            if row.object_type != "port"
            or ((port := ports.get(row.object_id)) is not None and has_public_addresses(port.network, self.ranges))
        }
        return frozenset(row.address for row in rows) - public

    # --- sweeps ---------------------------------------------------------------------------------------------------

    def sweep(self, network_id: str | None = None) -> None:
        """Record everything again, or all of one network: after a change of options, of a domain, or of these rules."""
        with self.db.read() as connection:
            ports = list(connection.execute(_named_ports(network_id)).scalars())
            floating_ips, stored = [], []
            if network_id is None:
                floating_ips = list(connection.execute(sa.select(floatingips.c.id)).scalars())
                stored = list(connection.execute(sa.select(dns_records.c.object_id).distinct()).scalars())
        known = {*ports, *floating_ips}
        for some in _batches([*ports, *(key for key in stored if key not in known)]):
            self._sweep_batch(some, ())
        for some in _batches(floating_ips):
            self._sweep_batch((), some)

    def _sweep_batch(self, ports: Sequence[str], floating_ips: Sequence[str]) -> None:
        def attempt() -> None:
            with self.db.transaction() as tx:
                self._store(tx, ports, floating_ips)

        self.db.retrying(attempt)


def _caller() -> Caller:
    known = {**request_ids.CALLER.get(), **request_ids.CALLER_NAMES.get()}
    words = (known.get(name, "")[:NAME_MAX] for name in ("project_name", "user", "user_name"))
    return Caller(*words)


def _with_callers(
    tx: Transaction, ports: Collection[NamedPort], changed: Collection[str], caller: Caller
) -> dict[str, NamedPort]:
    """The ports with who has named them: those that the caller changes now with the caller, others as stored."""
    named = {port.id: caller for port in ports if port.id in changed and caller != NOBODY}
    if named:
        tx.write(sa.delete(dns_callers).where(dns_callers.c.port_id.in_(sorted(named))))
        tx.insert(dns_callers, [{"port_id": key, **asdict(caller)} for key in sorted(named)])
    others = sorted({port.id for port in ports} - named.keys())
    if others:
        statement = sa.select(dns_callers).where(dns_callers.c.port_id.in_(others))
        named |= {
            row.port_id: Caller(row.project_name, row.user_id, row.user_name)
            for row in tx.connection.execute(statement)
        }
    return {port.id: replace(port, caller=named.get(port.id, NOBODY)) for port in ports}


def _is_irrelevant(context: DriverContext) -> bool:
    """Whether an update changes nothing that records depend on."""
    before, after = context.original, context.current
    names = _RELEVANT[context.kind]
    return (
        context.operation == "update"
        and before is not None
        and all(before.get(name, False) == after.get(name, False) for name in names)
    )


def _concerns_all_ports(context: DriverContext) -> bool:
    """Whether a network or subnet changes in a way that concerns the records of ports that exist."""
    if context.kind == "subnet" and context.operation != "update":
        return bool(context.current.get("dns_publish_fixed_ip", False))
    return context.kind in ("network", "subnet") and context.operation == "update" and not _is_irrelevant(context)


def _read_floating_ips(
    connection: Connection, port_ids: Sequence[str], floating_ids: Sequence[str]
) -> Sequence[NamedRow]:
    """The floating IPs with these ids, and those of these ports, because they may have the port's name."""
    conditions = []
    if port_ids:
        conditions.append(floatingips.c.port_id.in_(sorted(port_ids)))
    if floating_ids:
        conditions.append(floatingips.c.id.in_(sorted(floating_ids)))
    return connection.execute(_FLOATING_IPS.where(sa.or_(*conditions))).all()


def _published_subnets(connection: Connection, network_ids: Collection[str]) -> list[tuple[str, str]]:
    if not network_ids:
        return []
    where = t.subnets.c.network_id.in_(sorted(network_ids)), t.subnets.c.dns_publish_fixed_ip.is_(True)
    rows = connection.execute(sa.select(t.subnets.c.network_id, t.subnets.c.id).where(*where))
    return [(row.network_id, row.id) for row in rows]


def _named_ports(network_id: str | None) -> Selection:
    named = sa.select(t.ports.c.id).where(t.ports.c.dns_name != "")
    return named if network_id is None else named.where(t.ports.c.network_id == network_id)


def _write_difference(
    tx: Transaction, wanted: dict[str, tuple[str, str, frozenset[Record]]], stored: Iterable[NamedRow]
) -> bool:
    """Write what differs from the stored rows; whether there was anything. An object that is not `wanted` is deleted."""
    missing = {key: set(records) for key, (_, _, records) in wanted.items()}
    changed = False
    for row in stored:
        record = Record(row.zone, row.name, row.type, row.address)
        is_wanted = record in missing.get(row.object_id, ())
        if is_wanted:
            missing[row.object_id].discard(record)
        if is_wanted != row.wanted:
            # Stale if the publisher has deleted the row since: then the record has to be published as a new one.
            tx.change(_SET_WANTED, {"row": row.id, "is_wanted": is_wanted})
            changed = True
    new = [
        {
            "id": new_id(),
            "object_type": wanted[key][0],
            "object_id": key,
            "project_id": wanted[key][1],
            **record._asdict(),
            "wanted": True,
            "published": False,
            "error": "",
            "claimed_by": "",
            "claimed_until": 0.0,
            **_AGAIN,
        }
        for key, records in missing.items()
        for record in sorted(records)
    ]
    tx.insert(dns_records, new)
    return changed or bool(new)


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    iterator = iter(keys)
    while some := list(itertools.islice(iterator, BATCH)):
        yield some
