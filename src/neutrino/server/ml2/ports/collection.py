"""Ports: created one or many at once, changed, bound to hosts, deleted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.types import comparable
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, check_revision, delete_row, fresh, update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import UNLIMITED, Transaction
from neutrino.server.ipam.allocation import Allocator
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.drivers import Extensions
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations, PendingWrite
from neutrino.server.ml2.port_addresses import addresses_after, known_elsewhere, new_addresses
from neutrino.server.ml2.port_placing import Placing
from neutrino.server.ml2.port_view import RENAMED, VIEW
from neutrino.server.ml2.ports import provisioning
from neutrino.server.ml2.ports.binding import Binding
from neutrino.server.ml2.ports.rows import insert_parts, replace_parts
from neutrino.server.ml2.ports.values import address_pairs, api_port, dhcp_options, new_mac
from neutrino.server.ml2.subnet_view import subnets_of
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
BINDING_NAMES = ("binding:host_id", "binding:vnic_type", "binding:profile")
BIND_REVISIONS = 2  # binding a port counts as two changes of it: that it was tried, and what came of it


@dataclass(frozen=True)
class Neighbours:
    """What ports need of other parts of the server."""

    ensure_default_group: Callable[[str], str]
    check_groups: Callable[[Connection, Context, Sequence[str], str], None]  # for the port's project
    told: Callable[[Object | None, Object | None], None]  # hears of every port before and after a change


# Asked with a port before and after a change (None: not there); may refuse, or give what is to be written with it.
Follower = Callable[[Connection, Context, Object | None, Object | None], Callable[[Transaction], None] | None]


@dataclass(frozen=True)
class Settings:
    base_mac: str
    max_address_pairs: int


@dataclass(frozen=True)
class Ground:
    """What a request's ports stand on, read once for all of them."""

    networks: Mapping[str, Object]
    subnets: Mapping[str, list[Object]]
    known_subnets: Mapping[str, bool]
    default_groups: Mapping[str, str]


class Ports:
    def __init__(
        self,
        db: Database,
        operations: Operations,
        networks: Networks,
        extensions: Extensions,
        quotas: Quotas,
        placing: Placing,
        neighbours: Neighbours,
        settings: Settings,
    ) -> None:
        self._db = db
        self._operations = operations
        self._networks = networks
        self._extensions = extensions
        self._quotas = quotas
        self._placing = placing
        self._neighbours = neighbours
        self._settings = settings
        self.deletion_guards: list[Callable[[Connection, Object], None]] = []  # services that own ports object here
        self.followers: list[Follower] = []  # services with things that follow a port

    # --- reading --------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query) -> Iterator[Object]:
        """One after the other: of all lists, those of ports get long."""
        with self._db.read() as connection:
            if query.reverse:
                yield from VIEW.many(connection, query, context.project_id)
            else:
                yield from VIEW.stream(connection, query, context.project_id)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self._db.read() as connection:
            return VIEW.show(connection, key, project=context.project_id, everyone=everyone, fields=fields)

    def load(self, connection: Connection, key: str) -> Object:
        found = VIEW.load(connection, key)
        if found is None:
            raise errors.PortNotFound(id=key)
        return found

    # --- creating -------------------------------------------------------------------------------------------------

    def target(self, context: Context, values: Object) -> Object:
        """Attributes of the port's network, for policy rules."""
        sees_all = context.is_admin or "service" in context.roles
        return self._networks.owner(context, values["network_id"], everyone=sees_all)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        default_groups = {
            project: self._neighbours.ensure_default_group(project)
            for project in {values["project_id"] for values in several}
        }

        first = itertools.count()

        def attempt() -> list[Object]:
            with self._db.read() as connection:
                ground = self._ground(connection, context, several, default_groups)
                # One port on a large subnet takes its chance; if its address was taken, it looks before the next guess.
                allocator = Allocator(connection, blind=next(first) == 0 and len(several) == 1)
                made = [self._decide(connection, context, values, ground, allocator) for values in several]
                self._check_macs(connection, several, made)
                for port, _ in made:
                    self._followed(connection, context, None, port)
                limits = {p: self._quotas.limit(connection, "port", p) for p in default_groups}
            changes = [
                DriverContext("create", "port", port, network=ground.networks[port["network_id"]]) for port, _ in made
            ]
            with self._operations.write(changes) as tx:
                self._write_new(tx, made, limits)
            return [api_port(port) for port, _ in made]

        created = self._db.retrying(attempt)
        for port in created:
            self._neighbours.told(None, port)
        return created

    def _write_new(
        self, tx: Transaction, made: Sequence[tuple[Object, Binding]], limits: Mapping[str, int] | None
    ) -> None:
        tx.insert(t.ports, [as_row(t.ports, port, RENAMED) for port, _ in made])
        insert_parts(tx, [port for port, _ in made])
        for port, binding in made:
            self._placing.store(tx, port, binding)
            self._extensions.store("create", "port", tx, port)
            tx.use("port", port["project_id"], 1, UNLIMITED if limits is None else limits[port["project_id"]])
            tx.record("port", port["id"], port["revision_number"])

    def prepare_create(
        self, connection: Connection, values: Object, network: Object, subnets: Sequence[Object]
    ) -> PendingWrite:
        """A port of the service's own, as a part of a larger change: no quota refuses it, and it is in no group.

        `subnets` are the network's as they will be when it is written.
        """
        own = {**values, "security_groups": []}
        known = known_elsewhere(connection, values.get("fixed_ips") or (), {subnet["id"] for subnet in subnets})
        ground = Ground({network["id"]: network}, {network["id"]: list(subnets)}, known, {})
        made = [self._decide(connection, admin_context(), own, ground, Allocator(connection))]
        change = DriverContext("create", "port", made[0][0], network=network)
        return PendingWrite(change, lambda tx: self._write_new(tx, made, None))

    def _ground(
        self, connection: Connection, context: Context, several: Sequence[Object], default_groups: Mapping[str, str]
    ) -> Ground:
        network_ids = list(dict.fromkeys(values["network_id"] for values in several))
        subnets = subnets_of(connection, network_ids)
        here = {s["id"] for group in subnets.values() for s in group}
        asked = [fixed for values in several for fixed in values.get("fixed_ips") or ()]
        return Ground(
            networks={key: self._networks.load_again(connection, key, context.project_id) for key in network_ids},
            subnets=subnets,
            known_subnets=known_elsewhere(connection, asked, here),
            default_groups=default_groups,
        )

    def _decide(
        self, connection: Connection, context: Context, values: Object, ground: Ground, allocator: Allocator
    ) -> tuple[Object, Binding]:
        network = ground.networks[values["network_id"]]
        mac = values.get("mac_address") or new_mac(self._settings.base_mac)
        host = values.get("binding:host_id") or ""
        port = fresh(values, revision=1 + (BIND_REVISIONS if host else 0))
        port |= {
            "mac_address": mac,
            "status": provisioning.DOWN,
            "allowed_address_pairs": address_pairs(
                values.get("allowed_address_pairs", ()), mac, self._settings.max_address_pairs
            ),
            "extra_dhcp_opts": dhcp_options((), values["extra_dhcp_opts"] or ()),
            "ip_allocation": "none" if values.get("fixed_ips") == [] else "immediate",
            "port_security_enabled": values.get("port_security_enabled", True),
            "data_plane_status": None,
            "qos_policy_id": None,
            "qos_network_policy_id": network["qos_policy_id"],
            "numa_affinity_policy": None,
            "device_profile": None,
            "hints": None,
            "trusted": None,
            "dns_assignment": [],
            "binding:host_id": host,
            "binding:profile": values.get("binding:profile") or {},
            "tags": values.get("tags", []),
        }
        asked, subnets = values.get("fixed_ips"), ground.subnets[network["id"]]
        port["fixed_ips"] = new_addresses(port, asked, subnets, ground.known_subnets, allocator)
        groups = values.get("security_groups")
        port["security_groups"] = [ground.default_groups[values["project_id"]]] if groups is None else groups
        if groups:
            self._neighbours.check_groups(connection, context, groups, values["project_id"])
        self._extensions.process("create", "port", values, port, network=network)
        return port, self._placing.place(connection, port, network)

    def _check_macs(
        self, connection: Connection, several: Sequence[Object], made: Sequence[tuple[Object, Any]]
    ) -> None:
        """A MAC that was asked for must be free on its network; a made-up one is left to the constraint."""
        asked: set[tuple[str, str]] = set()
        for values, (port, _) in zip(several, made, strict=True):
            if not values.get("mac_address"):
                continue
            mac = port["network_id"], port["mac_address"]
            if mac in asked or _mac_taken(connection, port):
                raise errors.MacAddressInUse(network_id=port["network_id"], mac_address=port["mac_address"])
            asked.add(mac)

    # --- changing -------------------------------------------------------------------------------------------------

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        told: list[tuple[Object, Object]] = []

        def attempt() -> Object:
            with self._db.read() as connection:
                before = self.load(connection, key)
                check_revision(before, revision)
                network = self._networks.load(connection, before["network_id"], context.project_id)
                after, binding = self._decide_update(connection, context, before, network, values)
                follow = self._followed(connection, context, before, after)
            if after == before and binding is None:
                return api_port(before)
            step = self._step_update(before, after, binding, network)

            with self._operations.write([step.context]) as tx:
                step.write(tx)
                follow(tx)
            now = dict(step.context.current)
            told[:] = [(before, now)]
            return api_port(now)

        updated = self._db.retrying(attempt)
        for before, after in told:
            self._neighbours.told(before, after)
        return updated

    def prepare_update(
        self,
        connection: Connection,
        before: Object,
        values: Object,
        network: Object,
        *,
        rebind: bool = False,
        bump: int | None = None,
    ) -> PendingWrite | None:
        """A change of a port as a part of a larger one; its addresses are decided already. `rebind`: try it again.

        `bump`: as how many changes it counts, if not as many as binding makes of it.
        """
        after = {**before, **values}
        self._extensions.process("update", "port", values, after, network=network, before=before)
        binding = None
        if rebind or any(after[name] != before[name] for name in BINDING_NAMES):
            binding = self._placing.place(connection, after, network)
        if after == before and binding is None:
            return None
        return self._step_update(before, after, binding, network, bump)

    def _step_update(
        self, before: Object, after: Object, binding: Binding | None, network: Object, bump: int | None = None
    ) -> PendingWrite:
        tried = binding is not None and after["binding:host_id"] != ""
        now = changed(before, after, bump=bump or 1 + (BIND_REVISIONS if tried else 0))

        def write(tx: Transaction) -> None:
            update_row(tx, t.ports, before, now, renamed=RENAMED)
            replace_parts(tx, before, now)
            if binding is not None:
                self._placing.store(tx, now, binding)
            self._extensions.store("update", "port", tx, now)
            tx.record("port", now["id"], now["revision_number"])

        return PendingWrite(DriverContext("update", "port", now, before, network=network), write)

    def _decide_update(
        self, connection: Connection, context: Context, before: Object, network: Object, values: Object
    ) -> tuple[Object, Binding | None]:
        after = {**before, **values}
        after["binding:host_id"] = after["binding:host_id"] or ""
        after["binding:profile"] = after["binding:profile"] or {}
        if "mac_address" in values:
            after["mac_address"] = values["mac_address"] or new_mac(self._settings.base_mac)
            self._check_mac_change(connection, before, after)
        if "fixed_ips" in values or after["mac_address"] != before["mac_address"]:
            asked = (values["fixed_ips"] or []) if "fixed_ips" in values else None
            after["fixed_ips"] = _new_or_same(addresses_after(connection, before, after, asked), before["fixed_ips"])
        if "allowed_address_pairs" in values:
            after["allowed_address_pairs"] = address_pairs(
                values["allowed_address_pairs"], after["mac_address"], self._settings.max_address_pairs
            )
        if "extra_dhcp_opts" in values:
            after["extra_dhcp_opts"] = dhcp_options(before["extra_dhcp_opts"], values["extra_dhcp_opts"] or ())
        if "security_groups" in values:
            after["security_groups"] = _new_or_same(values["security_groups"] or [], before["security_groups"])
            if after["security_groups"]:
                self._neighbours.check_groups(connection, context, after["security_groups"], before["project_id"])
        self._extensions.process("update", "port", values, after, network=network, before=before)
        binding = None
        if any(after[name] != before[name] for name in BINDING_NAMES):
            binding = self._placing.place(connection, after, network)
        return after, binding

    def _check_mac_change(self, connection: Connection, before: Object, after: Object) -> None:
        if after["mac_address"] == before["mac_address"]:
            return
        if before["binding:vif_type"] not in ("unbound", "binding_failed") and before["device_owner"].startswith(
            "compute:"
        ):
            raise errors.PortBound(port_id=before["id"], vif_type=before["binding:vif_type"])
        if _mac_taken(connection, after):
            raise errors.MacAddressInUse(network_id=after["network_id"], mac_address=after["mac_address"])

    def _followed(
        self, connection: Connection, context: Context, before: Object | None, after: Object | None
    ) -> Callable[[Transaction], None]:
        """What services write along with a change of a port."""
        asked = [follower(connection, context, before, after) for follower in self.followers]
        writes = [write for write in asked if write is not None]

        def write(tx: Transaction) -> None:
            for one in writes:
                one(tx)

        return write

    def delete(self, context: Context, key: str, revision: int | None, *, guarded: bool = True) -> None:
        """`guarded`: it is refused where the port belongs to a service."""
        gone: list[Object] = []

        def attempt() -> None:
            with self._db.read() as connection:
                before = self.load(connection, key)
                check_revision(before, revision)
                network = self._networks.load(connection, before["network_id"], context.project_id)
                for guard in self.deletion_guards if guarded else ():
                    guard(connection, before)
                follow = self._followed(connection, context, before, None)
            step = self.prepare_delete(before, network)

            with self._operations.write([step.context]) as tx:
                follow(tx)
                step.write(tx)
            gone[:] = [before]

        self._db.retrying(attempt)
        for port in gone:
            self._neighbours.told(port, None)

    def prepare_delete(self, before: Object, network: Object) -> PendingWrite:
        def write(tx: Transaction) -> None:
            delete_row(tx, t.ports, before)
            if before["tags"]:
                sharing.forget(tx, before["id"])
            tx.use("port", before["project_id"], -1)
            tx.record("port", before["id"], before["revision_number"], deleted=True)

        return PendingWrite(DriverContext("delete", "port", before, network=network), write)


def _new_or_same(new: list[Any], old: list[Any]) -> list[Any]:
    """The new list, or the old one where it has the same items: their order means nothing and is no change."""
    same = len(new) == len(old) and {comparable(item) for item in new} <= {comparable(item) for item in old}
    return old if same else new


def _mac_taken(connection: Connection, port: Object) -> bool:
    p = t.ports.c
    found = connection.execute(
        sa.select(p.id).where(
            p.network_id == port["network_id"], p.mac_address == port["mac_address"], p.id != port["id"]
        )
    )
    return found.first() is not None
