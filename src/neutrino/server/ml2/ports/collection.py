"""Ports: create (one or several at once), update with rebinding, delete.

    decide   MAC → addresses → security groups → extension drivers → binding       reads only, nothing is locked
    write    row, addresses, groups, binding, provisioning blocks, quota, change log   one transaction (`Operations.write`)

What was decided on may have changed before the write: a unique key or the revision number then fails, and `retrying` starts
again with the decision. Other services change ports as a part of their own writes with `prepare_create/update/delete`.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, delete_row, exists, fresh, update_row
from neutrino.server.db.reads import Read, read_lists, read_together
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import viewed_by
from neutrino.server.ipam import routed
from neutrino.server.ipam.allocation import Allocator, FixedIp
from neutrino.server.ml2.attributes import PortAttributes, completed, fields_to_read
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND, DriverContext
from neutrino.server.ml2.extensions import Extensions
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import NO_EVENT, Operations, PendingWrite
from neutrino.server.ml2.ports import hardware, internal_names, provisioning
from neutrino.server.ml2.ports.binding import Binder, Binding
from neutrino.server.ml2.ports.host_subnets import check_host, usable_subnets
from neutrino.server.ml2.ports.uses import PortUse, reading_uses
from neutrino.server.ml2.ports.values import address_pairs, dhcp_options, new_mac, new_or_same, requested_mac
from neutrino.server.ml2.slaac import SlaacAddresses
from neutrino.server.ml2.views import PORT_RENAMED, PORTS, reading_subnets, subnets_of
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import DEFAULT_GROUP, SecurityGroups
from neutrino.server.securitygroups.views import check_usable

CommitHook = Callable[[Object | None, Object | None], None]  # a port before and after a committed change
# Called with a port before and after a change of its host; returns the writes of ports that are bound with it.
HostHook = Callable[[Connection, Object, Object], Sequence[PendingWrite]]
NO_LIMITS: Mapping[str, int] = MappingProxyType({})
BIND_REVISIONS = 2  # as in Neutron, binding raises the revision by two more: for the attempt and for its result


@dataclass(frozen=True)
class PortInputs:
    """What new ports depend on: networks and their subnets by id, groups and limits by project."""

    networks: Mapping[str, Object]
    subnets: Mapping[str, Sequence[Object]]
    default_groups: Mapping[str, str]
    limits: Mapping[str, int]


@dataclass(eq=False)
class Ports:
    db: Database
    operations: Operations
    networks: Networks
    extensions: Extensions
    quotas: Quotas
    binder: Binder
    groups: SecurityGroups
    base_mac: str
    max_address_pairs: int
    name_for: internal_names.NameFor
    added: Sequence[PortAttributes]  # by features
    # Services that own ports, or have objects that depend on ports, register here when they are built.
    uses: list[PortUse] = field(default_factory=list)
    commit_hooks: list[CommitHook] = field(default_factory=list)
    host_hooks: list[HostHook] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns = {name: column for one in self.added for name, column in one.columns.items()}
        self.view = self.extensions.view("port", PORTS.extended(columns, {}))
        of_port = sa.select(t.ports.c.network_id).where(t.ports.c.id == sa.bindparam("port")).scalar_subquery()
        self._network_of_port = self.networks.view.load_kept(t.networks.c.id == of_port)
        self._drivers = self.operations.mechanisms.drivers
        self.slaac = SlaacAddresses(self.db, self.name_for)
        self.operations.undo["port"] = lambda port: self.delete(admin_context(), port["id"], None, checked=False)

    # --- reading --------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query) -> Iterator[Object]:
        """Streamed: lists of ports are the long ones."""
        asked = replace(query, fields=fields_to_read(self.added, query.fields))
        with self.db.read() as connection:
            read = self.view.many if query.reverse else self.view.stream
            yield from self._completed(connection, read(connection, asked, context.project_id))

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        names = fields_to_read(self.added, fields)
        with self.db.read() as connection:
            port = self.view.show(connection, key, project=context.project_id, everyone=everyone, fields=names)
            return next(self._completed(connection, [port])) if port is not None else None

    def target(self, context: Context, values: Object) -> Object:
        """Attributes of the port's network, for policy rules."""
        return self.networks.policy_target(context, values["network_id"], everyone=_sees_all_networks(context))

    def _reading(self, context: Context, key: str) -> tuple[Read[Object | None], Read[list[Object]]]:
        """A port, and its network."""
        return self.view.reading(key), self._network_of_port(port=key, **viewed_by(context.project_id))

    def _completed(self, connection: Connection, ports: Iterable[Object]) -> Iterator[Object]:
        return completed(self.added, connection, ports)

    # --- creating -------------------------------------------------------------------------------------------------

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        attempts = itertools.count()

        def attempt() -> list[Object]:
            with self.db.read() as connection:
                inputs = self._read_inputs(connection, context, several)
                # A single port guesses its address without a lookup; if the guess was taken, the next attempt looks.
                allocator = Allocator(connection, blind=next(attempts) == 0 and len(several) == 1)
                made = []
                for values in several:
                    network, group = inputs.networks[values["network_id"]], inputs.default_groups[values["project_id"]]
                    subnets = inputs.subnets[network["id"]]
                    made.append(self._decide(connection, context, values, network, subnets, allocator, group))
                # A requested MAC must be free on its network; a collision of a random one is left to the unique key.
                requested = [p for values, (p, _) in zip(several, made, strict=True) if requested_mac(values)]
                check_macs_free(connection, requested)
                for one in self.added:
                    one.check_new(connection, context, self._drivers, [port for port, _ in made])
                hook_writes = [w for port, _ in made for w in self.hook_writes(connection, context, None, port)]
                created = list(self._completed(connection, (port for port, _ in made)))
            contexts = [DriverContext("create", "port", p, network=inputs.networks[p["network_id"]]) for p, _ in made]
            with self.operations.write(contexts, hook_writes) as tx:
                self._insert(tx, made, inputs.limits, inputs.subnets)
                for port in created:
                    tx.after_commit(self.notify, None, port)
            return created

        return self.db.retrying(attempt)

    def _read_inputs(self, connection: Connection, context: Context, several: Sequence[Object]) -> PortInputs:
        network_ids = list(dict.fromkeys(values["network_id"] for values in several))
        projects = list(dict.fromkeys(values["project_id"] for values in several))
        subnets, networks, groups, limits = read_lists(
            connection,
            [reading_subnets(network_ids)],
            [self.networks.view.reading(key, context.project_id) for key in network_ids],
            [DEFAULT_GROUP(project=project) for project in projects],
            [self.quotas.reading("port", project) for project in projects],
        )
        return PortInputs(
            {key: self.networks.view.found(key, network) for key, network in zip(network_ids, networks, strict=True)},
            {key: [subnet for subnet in subnets[0] if subnet["network_id"] == key] for key in network_ids},
            {p: group or self.groups.ensure_default(p) for p, group in zip(projects, groups, strict=True)},
            dict(zip(projects, limits, strict=True)),
        )

    def _decide(
        self,
        connection: Connection,
        context: Context,
        values: Object,
        network: Object,
        subnets: Sequence[Object],
        allocator: Allocator,
        default_group: str = "",
        *,
        is_service: bool = False,
    ) -> tuple[Object, Binding]:
        """A new port as it will be written, with its binding. `subnets`: all of the network.

        `is_service`: a port of a service, whose host the server has chosen.
        """
        port = self._new_port(values, network, default_group)
        # Before the extension drivers: DNS names and port security depend on the addresses and the groups.
        host, requested = port["binding:host_id"], values.get("fixed_ips")
        usable = usable_subnets(connection, self.binder.registry, subnets, host, requested, lenient=is_service)
        if usable is None:
            port |= {"ip_allocation": routed.DEFERRED, "fixed_ips": []}
        else:
            port["fixed_ips"] = allocator.for_new_port(port, requested, usable)
        if groups := values.get("security_groups"):
            check_usable(connection, context, groups, values["project_id"])
        port = self.extensions.process("create", "port", values, port, network=network)
        port = internal_names.assigned(connection, port, None, network, self.name_for)
        binding = self.binder.bind(connection, port, network)
        return {**port, **binding.port_values}, binding

    def _new_port(self, values: Object, network: Object, default_group: str) -> Object:
        """The attributes that depend on the request and the network alone, without `fixed_ips`."""
        mac = requested_mac(values) or new_mac(self.base_mac)
        host = values.get("binding:host_id") or ""
        groups = values.get("security_groups")
        pairs = values.get("allowed_address_pairs", ())
        return {
            **fresh(values, revision=1 + (BIND_REVISIONS if host else 0)),
            "mac_address": mac,
            "status": provisioning.DOWN,
            "security_groups": [default_group] if groups is None else groups,
            "allowed_address_pairs": address_pairs(pairs, mac, self.max_address_pairs),
            "extra_dhcp_opts": dhcp_options((), values["extra_dhcp_opts"] or ()),
            "ip_allocation": routed.NONE if values.get("fixed_ips") == [] else routed.IMMEDIATE,
            "port_security_enabled": values.get("port_security_enabled", True),
            "data_plane_status": None,
            "dns_assignment": [],
            "binding:host_id": host,
            **hardware.of_new_port(values),
            **{name: value for one in self.added for name, value in one.of_new_port(values, network).items()},
            "tags": values.get("tags", []),
        }

    def _insert(
        self,
        tx: Transaction,
        made: Sequence[tuple[Object, Binding]],
        limits: Mapping[str, int],
        subnets: Mapping[str, Sequence[Object]],
    ) -> None:
        """`subnets`: those of each network that the ports were decided with."""
        tx.insert(t.ports, [as_row(t.ports, port, PORT_RENAMED) for port, _ in made], limits)
        _insert_parts(tx, [port for port, _ in made])
        for port, binding in made:
            self.binder.store_new(tx, port, binding)
            self.extensions.store("port", tx, port)
        for network_id, known in subnets.items():
            self.slaac.watch(tx, network_id, [subnet["id"] for subnet in known])

    def prepare_create(
        self,
        connection: Connection,
        values: Object,
        network: Object,
        subnets: Sequence[Object],
        limits: Mapping[str, int] = NO_LIMITS,
        free: Sequence[Object] = (),
    ) -> PendingWrite:
        """A port of a service, as a part of a larger write: without security groups.

        `subnets` are the network's as they will be after that write. `limits`: the quota of its project, where it has one.
        `free`: those of its addresses that were just found free.
        """
        own = {**values, "security_groups": []}
        allocator = Allocator(connection, blind=not self.db.is_repeated, free=free)
        made = [self._decide(connection, admin_context(), own, network, subnets, allocator, is_service=True)]
        context = DriverContext("create", "port", made[0][0], network=network)
        return PendingWrite(context, lambda tx: self._insert(tx, made, limits, {network["id"]: subnets}))

    # --- updating -------------------------------------------------------------------------------------------------

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            # Of any project: the pipeline has authorized the caller before.
            loaded, networks = read_together(connection, *self._reading(context, key))
            before, network = self.view.found(key, loaded, revision), networks[0]
            decided = self._decide_update(connection, context, before, values)
            pending = self.prepare_update(connection, before, decided, network, request=values)
            if pending is None:
                return next(self._completed(connection, [before]))
            after = dict(pending.context.current)
            hook_writes = [*self.hook_writes(connection, context, before, after)]
            hook_writes += self.following(connection, before, after)
            after = next(self._completed(connection, [after]))
        with self.operations.write([], [pending, *hook_writes]) as tx:
            tx.after_commit(self.notify, before, after)
            if after["fixed_ips"] and not before["fixed_ips"]:  # a new subnet may have passed over it
                self.slaac.watch(tx, network["id"], [fixed["subnet_id"] for fixed in after["fixed_ips"]])
        return after

    def _decide_update(self, connection: Connection, context: Context, before: Object, values: Object) -> Object:
        after = {**before, **values}
        after["binding:host_id"] = after["binding:host_id"] or ""
        after["binding:profile"] = hardware.shown_profile(after["binding:profile"] or {}, after["trusted"])
        if "mac_address" in values:
            after["mac_address"] = values["mac_address"] or new_mac(self.base_mac)
            self._check_mac_change(connection, before, after)
        overridden = hardware.mac_after(before, after, lambda: new_mac(self.base_mac))
        if overridden != after["mac_address"]:
            after["mac_address"] = overridden
            check_macs_free(connection, [after])
        if "fixed_ips" in values or after["mac_address"] != before["mac_address"]:
            requested = (values["fixed_ips"] or []) if "fixed_ips" in values else None
            fixed_ips = self.addresses_after(connection, before, after, requested)
            after["fixed_ips"] = new_or_same(fixed_ips, before["fixed_ips"])
        elif after["binding:host_id"] not in ("", before["binding:host_id"]):
            after |= self.addresses_on_host(connection, before, after)
        if "allowed_address_pairs" in values:
            pairs, maximum = values["allowed_address_pairs"], self.max_address_pairs
            after["allowed_address_pairs"] = address_pairs(pairs, after["mac_address"], maximum)
        if "extra_dhcp_opts" in values:
            after["extra_dhcp_opts"] = dhcp_options(before["extra_dhcp_opts"], values["extra_dhcp_opts"] or ())
        if "security_groups" in values:
            after["security_groups"] = new_or_same(values["security_groups"] or [], before["security_groups"])
            if after["security_groups"]:
                check_usable(connection, context, after["security_groups"], before["project_id"])
        for one in self.added:
            one.check_update(connection, context, self._drivers, before, after)
        return after

    def addresses_after(
        self, connection: Connection, before: Object, after: Object, requested: Sequence[Values] | None
    ) -> list[FixedIp]:
        """Addresses of a port after an update; `requested` None: only its MAC has changed."""
        network_id = before["network_id"]
        subnets: Sequence[Values] = subnets_of(connection, [network_id])[network_id]
        if requested:
            registry, host = self.binder.registry, after["binding:host_id"]
            subnets = usable_subnets(connection, registry, subnets, host, requested) or subnets
        return Allocator(connection).for_updated_port(before, after, requested, subnets)

    def addresses_on_host(
        self, connection: Connection, before: Object, after: Object, *, lenient: bool = False
    ) -> Object:
        """Values of a port that gets a host: on a routed network its deferred addresses, or a check of those it has."""
        is_deferred = before["ip_allocation"] == routed.DEFERRED and not before["fixed_ips"]
        if not is_deferred and (lenient or not before["fixed_ips"]):
            return {}
        network_id, host, registry = before["network_id"], after["binding:host_id"], self.binder.registry
        subnets = subnets_of(connection, [network_id])[network_id]
        if not is_deferred:
            check_host(connection, registry, before, subnets, host)
            return {}
        usable = usable_subnets(connection, registry, subnets, host, None, lenient=lenient)
        if usable is None:
            return {}
        fixed_ips = Allocator(connection).for_new_port(after, None, usable)
        return {"fixed_ips": fixed_ips, "ip_allocation": routed.IMMEDIATE}

    def _check_mac_change(self, connection: Connection, before: Object, after: Object) -> None:
        if after["mac_address"] == before["mac_address"]:
            return
        is_bound = before["binding:vif_type"] not in (VIF_UNBOUND, VIF_FAILED)
        if is_bound and before["device_owner"].startswith(COMPUTE_OWNER):  # the guest would keep the old one
            raise errors.PortBound(port_id=before["id"], vif_type=before["binding:vif_type"])
        check_macs_free(connection, [after])

    def prepare_update(
        self,
        connection: Connection,
        before: Object,
        values: Object,
        network: Object,
        *,
        request: Object | None = None,
        rebind: bool = False,
        bump: int | None = None,
    ) -> PendingWrite | None:
        """An update as a part of a larger write, with addresses that are decided already; None if nothing changes.

        `request`: what the client gave, for the extension drivers; by default the values. `rebind`: bind again, though
        host, VNIC type and profile are the same. `bump`: raises the revision by so much.
        """
        after = {**before, **values}
        given = values if request is None else request
        after = self.extensions.process("update", "port", given, after, network=network, before=before)
        after = internal_names.assigned(connection, after, before, network, self.name_for)
        binding = None
        if rebind or hardware.is_bound_differently(before, after):
            binding = self.binder.bind(connection, after, network)
            after = {**after, **binding.port_values}
        elif after == before:
            return None
        tried = binding is not None and after["binding:host_id"] != ""  # removing the host is no attempt to bind
        now = changed(before, after, bump=bump or 1 + (BIND_REVISIONS if tried else 0))

        def write(tx: Transaction) -> None:
            update_row(tx, t.ports, before, now, renamed=PORT_RENAMED)
            _replace_parts(tx, before, now)
            for use in self.uses if tried else ():
                if use.on_bind is not None:
                    use.on_bind(tx, before)
            if binding is not None:
                self.binder.store(tx, now, binding)
            else:
                self.binder.store_profile(tx, before, now)
            self.extensions.store("port", tx, now, before)

        return PendingWrite(DriverContext("update", "port", now, before, network=network), write)

    # --- deleting -------------------------------------------------------------------------------------------------

    @retried
    def delete(self, context: Context, key: str, revision: int | None, checked: bool = True) -> None:
        """`checked`: refused for ports that belong to a service, such as a router's interface."""
        with self.db.read() as connection:
            port, network_of_port = self._reading(context, key)
            (loaded,), (networks,), found = read_lists(
                connection, [port], [network_of_port], reading_uses(self.uses, key)
            )
            before, network = self.view.found(key, loaded, revision), networks[0]
            using = [use for uses in found for use in uses]
            for use in using if checked else ():
                if use.check_delete is not None:
                    use.check_delete(connection, before)
            hook_writes = self.hook_writes(connection, context, before, None, using)
        # What references the port is written before its row is deleted.
        with self.operations.write([], [*hook_writes, self.prepare_delete(before, network)]) as tx:
            tx.after_commit(self.notify, before, None)

    def prepare_delete(self, before: Object, network: Object) -> PendingWrite:
        def write(tx: Transaction) -> None:
            delete_row(tx, t.ports, before)
            if before["tags"]:  # ports are not shared by RBAC policies: without tags there is nothing to delete
                sharing.forget(tx, before["id"])

        return PendingWrite(DriverContext("delete", "port", before, network=network), write)

    # --- hooks of services ----------------------------------------------------------------------------------------

    def hook_writes(
        self,
        connection: Connection,
        context: Context,
        before: Object | None,
        after: Object | None,
        uses: Sequence[PortUse] | None = None,
    ) -> list[PendingWrite]:
        """Rows that services write in the same transaction; with `uses`, only these services."""
        hooks = [use.changes for use in (self.uses if uses is None else uses) if use.changes is not None]
        writes = (hook(connection, context, before, after) for hook in hooks)
        return [PendingWrite(NO_EVENT, write) for write in writes if write is not None]

    def following(self, connection: Connection, before: Object, after: Object) -> list[PendingWrite]:
        """The writes of ports that are bound with this one, for every write of its host."""
        return [write for hook in self.host_hooks for write in hook(connection, before, after)]

    def notify(self, before: Object | None, after: Object | None) -> None:
        """After the commit of a change that was made here, or with a PendingWrite."""
        for hook in self.commit_hooks:
            hook(before, after)


def _sees_all_networks(context: Context) -> bool:
    return context.is_admin or "service" in context.roles


# --- rows in the narrow tables: addresses, security groups, tags ---------------------------------------------------


def _insert_parts(tx: Transaction, ports: Sequence[Object]) -> None:
    tx.insert(t.ip_allocations, [row for port in ports for row in _address_rows(port, port["fixed_ips"])])
    groups = [{"port_id": p["id"], "security_group_id": g} for p in ports for g in p["security_groups"]]
    tx.insert(t.port_security_groups, groups)
    tx.insert(t.tags, [{"object_id": p["id"], "tag": tag} for p in ports for tag in p["tags"]])


def _replace_parts(tx: Transaction, before: Object, after: Object) -> None:
    """Only the difference: rows that stay are not written, so they are not locked for others either."""
    a, g = t.ip_allocations.c, t.port_security_groups.c
    for fixed in before["fixed_ips"]:
        if fixed not in after["fixed_ips"]:
            where = [a.subnet_id == fixed["subnet_id"], a.ip_address == fixed["ip_address"], a.port_id == before["id"]]
            tx.write(sa.delete(t.ip_allocations).where(*where))
    tx.insert(t.ip_allocations, _address_rows(after, [f for f in after["fixed_ips"] if f not in before["fixed_ips"]]))
    removed = [s for s in before["security_groups"] if s not in after["security_groups"]]
    if removed:
        tx.write(sa.delete(t.port_security_groups).where(g.port_id == before["id"], g.security_group_id.in_(removed)))
    added = [s for s in after["security_groups"] if s not in before["security_groups"]]
    tx.insert(t.port_security_groups, [{"port_id": before["id"], "security_group_id": s} for s in added])


def _address_rows(port: Object, fixed_ips: Sequence[Object]) -> list[Object]:
    return [{**fixed, "port_id": port["id"], "network_id": port["network_id"]} for fixed in fixed_ips]


def check_macs_free(connection: Connection, ports: Sequence[Object]) -> None:
    """Refuse MACs of these ports that other ports on their networks have, or two of them."""
    if not ports:
        return
    p, times = t.ports.c, Counter((port["network_id"], port["mac_address"]) for port in ports)
    for port in ports:
        network_id, mac = port["network_id"], port["mac_address"]
        same = p.network_id == network_id, p.mac_address == mac, p.id != port["id"]
        if times[network_id, mac] > 1 or exists(connection, *same):
            raise errors.MacAddressInUse(network_id=network_id, mac_address=mac)
