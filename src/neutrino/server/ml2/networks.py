"""Networks: created with their segments, updated, shared, and deleted with their subnets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, delete_row, fresh, update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import PROJECT, View, among, one_of, own_ids, shared_ids, shared_with_viewer
from neutrino.server.just import Just
from neutrino.server.ml2.driver_api import Change, Segment
from neutrino.server.ml2.drivers import Extensions
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.segments import NAMES, Segments, TakenSegments, read_segments, shown
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
MIN_MTU = {4: 68, 6: 1280}
NO_SEGMENTS = b"null"
# Ports that the service itself put on a network, and which go with it.
AUTO_DELETED = ("network:dhcp", "network:distributed")

_c = t.networks.c
_s = t.network_segments.c
RENAMED = {
    "router:external": "external",
    "provider:network_type": "network_type",
    "provider:physical_network": "physical_network",
    "provider:segmentation_id": "segmentation_id",
}


def _by_segment(column: sa.ColumnElement[Any]) -> Callable[[tuple[Any, ...]], sa.ColumnElement[bool]]:
    return lambda values: sa.exists(sa.select(_s.id).where(_s.network_id == _c.id, one_of(column, values)))


_SHARED = shared_with_viewer(_c.id)
_OPENED = shared_with_viewer(_c.id, sharing.EXTERNAL)
VIEW = View(
    t.networks,
    columns=(
        "id",
        "name",
        "subnets",
        "admin_state_up",
        "status",
        "project_id",
        "is_default",
        "mtu",
        "port_security_enabled",
        "dns_domain",
        "qos_policy_id",
        "availability_zone_hints",
        "ipv4_address_scope",
        "ipv6_address_scope",
        "extra_dhcp_opts",
        "segments",
        "description",
        "created_at",
        "updated_at",
        "revision_number",
        "tags",
    ),
    renamed=RENAMED,
    computed={"shared": _SHARED, "l2_adjacency": sa.literal(True, sa.Boolean)},
    filters={
        "shared": lambda values: sa.or_(*(_SHARED if v else sa.not_(_SHARED) for v in values)),
        "provider:network_type": _by_segment(_s.network_type),
        "provider:physical_network": _by_segment(_s.physical_network),
        "provider:segmentation_id": _by_segment(_s.segmentation_id),
    },
    scope=sa.or_(_c.project_id == PROJECT, _SHARED, _OPENED),
    listed=among(t.networks, own_ids(t.networks), shared_ids(sharing.SHARED, sharing.EXTERNAL)),
)
ZonesOf = Callable[[Connection, Sequence[str]], Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class Spare:
    """What a service has on a network and nobody uses: its ports' rows, and what is to be written before they go."""

    ports: Sequence[Any]  # each with id, project_id and revision_number
    write: Callable[[Transaction], None]


class Networks:
    def __init__(
        self,
        db: Database,
        operations: Operations,
        segments: Segments,
        extensions: Extensions,
        quotas: Quotas,
        zones_of: ZonesOf,
        check_zone_hints: Callable[[Connection, Sequence[str]], None],
        ensure_default_group: Callable[[str], str],
    ) -> None:
        self._db = db
        self._operations = operations
        self._segments = segments
        self._extensions = extensions
        self._quotas = quotas
        self._zones_of = zones_of
        self._check_zone_hints = check_zone_hints
        self._ensure_default_group = ensure_default_group
        self._just: Just[Object] = Just()
        # Services with ports that do not keep a network from being deleted, or from becoming an internal one.
        self.followers: list[Callable[[Connection, Object], Spare | None]] = []

    # --- reading --------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query, *conditions: sa.ColumnElement[bool]) -> list[Object]:
        with self._db.read() as connection:
            rows = VIEW.many(connection, _with_id(query), context.project_id, *conditions)
            return self._finished(connection, rows, query.fields)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        names = fields if fields is None else tuple(dict.fromkeys([*fields, "id"]))
        with self._db.read() as connection:
            row = VIEW.show(connection, key, project=context.project_id, everyone=everyone, fields=names)
            return None if row is None else self._finished(connection, [row], fields)[0]

    def _finished(self, connection: Connection, rows: list[Object], fields: Sequence[str] | None) -> list[Object]:
        """What the row alone does not say: the zones that serve it, and one way or the other to tell its segments."""
        if rows and (fields is None or "availability_zones" in fields):
            zones = self._zones_of(connection, [row["id"] for row in rows])
            for row in rows:
                row["availability_zones"] = list(zones.get(row["id"], ()))
        for row in rows:
            _one_way_of_segments(row)
        return rows

    def load(self, connection: Connection, key: str, project: str = "") -> Object:
        found = VIEW.load(connection, key, project)
        if found is None:
            raise errors.NetworkNotFound(id=key)
        return found

    def owner(self, context: Context, key: str, everyone: bool) -> Object:
        """What the policy may ask of the network that something new will be on."""
        with self._db.read() as connection:
            found = VIEW.show(connection, key, project=context.project_id, everyone=everyone)
        if found is None:
            raise errors.NetworkNotFound(id=key)
        self._just.put((key, context.project_id), VIEW.decoded(found))
        return {"network:project_id": found["project_id"], "network:shared": found["shared"]}

    def load_again(self, connection: Connection, key: str, project: str) -> Object:
        """The network, which `owner` may have just read for the same request."""
        return self._just.take((key, project)) or self.load(connection, key, project)

    # --- writing --------------------------------------------------------------------------------------------------

    def create(self, context: Context, several: Sequence[Object]) -> list[Object]:
        for project in {values["project_id"] for values in several}:
            if project:
                self._ensure_default_group(project)

        def attempt() -> list[Object]:
            with self._db.read() as connection:
                taken = TakenSegments(connection)
                made = [self._decide(connection, context, values, taken) for values in several]
                limits = {p: self._quotas.limit(connection, "network", p) for p in {v["project_id"] for v in several}}
            changes = [Change("create", "network", network, segments=segments) for network, segments in made]

            def write(tx: Transaction) -> None:
                rows = [as_row(t.networks, {**n, **shown(s)}, RENAMED) for n, s in made]
                tx.insert(t.networks, rows)
                for network, segments in made:
                    self._segments.insert(tx, network["id"], segments)
                    if network.get("ha"):
                        row = {"project_id": network["project_id"], "network_id": network["id"]}
                        tx.insert(t.ha_networks, [row])
                    if network["shared"]:
                        sharing.open_to_all(tx, "network", network["id"], network["project_id"])
                    if network["router:external"]:
                        sharing.open_to_all(tx, "network", network["id"], network["project_id"], sharing.EXTERNAL)
                    self._extensions.store("create", "network", tx, network)
                    tx.use("network", network["project_id"], 1, limits[network["project_id"]])
                    tx.record("network", network["id"], network["revision_number"])

            self._operations.commit(changes, write)
            return [_api(network, segments) for network, segments in made]

        return self._db.retrying(attempt)

    def _decide(
        self, connection: Connection, context: Context, values: Object, taken: TakenSegments
    ) -> tuple[Object, list[Segment]]:
        if values["availability_zone_hints"]:
            self._check_zone_hints(connection, values["availability_zone_hints"])
        segments = self._segments.choose(taken, values)
        given = {k: v for k, v in values.items() if k not in NAMES and k != "segments"}
        network = fresh(given)
        network |= {
            "status": "ACTIVE",
            "subnets": [],
            "ipv4_address_scope": None,
            "ipv6_address_scope": None,
            "qos_policy_id": None,
            "extra_dhcp_opts": values.get("extra_dhcp_opts") or [],
            "availability_zones": [],
            "l2_adjacency": True,
            "mtu": self._mtu(values["mtu"], segments, ()),
        }
        if network.get("ha"):
            _check_no_ha_network(connection, network["project_id"])
        if network["is_default"] and network["router:external"]:
            _check_only_default(connection, network["id"])
        self._extensions.process("create", "network", values, network)
        return network, segments

    def _mtu(self, asked: int, segments: Sequence[Segment], versions: Sequence[int]) -> int:
        most = self._segments.mtu(segments)
        if not asked:
            return most
        if most and asked > most:
            raise errors.InvalidInput(
                f"Invalid input for mtu: {asked} is more than {most}, the most that it can carry."
            )
        least = max((MIN_MTU[v] for v in versions), default=MIN_MTU[4])
        if asked < least:
            raise errors.InvalidInput(f"Invalid input for mtu: {asked} is less than {least}, which its subnets need.")
        return asked

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        def attempt() -> Object:
            with self._db.read() as connection:
                before = self.load(connection, key, context.project_id)
                check_revision(before, revision)
                segments = read_segments(connection, [key])[key]
                decided = self._decide_update(connection, context, before, segments, values)
                zones = self._zones_of(connection, [key])
                after_segments = self._renumbered(connection, segments, values)
                spare = self._spare(connection, before) if _turns_internal(before, values) else []
            after = {**before, **decided}
            self._extensions.process("update", "network", values, after)
            if after == before and after_segments == segments:
                return _api({**before, "availability_zones": list(zones.get(key, ()))}, segments)
            after = changed(before, after)
            change = Change("update", "network", after, before, segments=after_segments)

            def write(tx: Transaction) -> None:
                update_row(tx, t.networks, before, {**after, **shown(after_segments)}, renamed=RENAMED)
                if after_segments != segments:
                    self._segments.renumber(tx, after_segments[0])
                _share(tx, before, after)
                for one in spare:
                    one.write(tx)
                    _delete_ports(tx, one.ports)
                self._extensions.store("update", "network", tx, after)
                tx.record("network", key, after["revision_number"])

            self._operations.commit([change], write)
            return _api({**after, "availability_zones": list(zones.get(key, ()))}, after_segments)

        return self._db.retrying(attempt)

    def _decide_update(
        self, connection: Connection, context: Context, before: Object, segments: Sequence[Segment], values: Object
    ) -> Object:
        changed = {k: v for k, v in values.items() if k not in NAMES and k != "segments"}
        if "extra_dhcp_opts" in changed:
            changed["extra_dhcp_opts"] = changed["extra_dhcp_opts"] or []
        if "mtu" in changed:
            versions = _subnet_versions(connection, before["id"])
            changed["mtu"] = self._mtu(changed["mtu"], segments, versions)
        if before["shared"] and values.get("shared") is False and _used_by_others(connection, before):
            raise errors.InvalidSharedSetting(network=before["name"] or before["id"])
        if changed.get("is_default") and changed.get("router:external", before["router:external"]):
            _check_only_default(connection, before["id"])
        if _turns_internal(before, values):
            spare = {port.id for one in self._spare(connection, before) for port in one.ports}
            if _has_gateways(connection, before, spare):
                raise errors.ExternalNetworkInUse(id=before["id"])
        return changed

    def _spare(self, connection: Connection, network: Object) -> list[Spare]:
        return [spare for follower in self.followers if (spare := follower(connection, network)) is not None]

    def _renumbered(self, connection: Connection, segments: list[Segment], values: Object) -> list[Segment]:
        """The only change that a segment takes is another VLAN or tunnel id."""
        given = {name: values[name] for name in NAMES if name in values}
        if "segments" in values:
            raise errors.InvalidInput("Invalid input for segments: the segments of a network cannot be replaced.")
        if not given:
            return segments
        if len(segments) != 1:
            raise errors.InvalidInput("Provider attributes of a network with several segments cannot be updated.")
        only = segments[0]
        same = {NAMES[0]: only.network_type, NAMES[1]: only.physical_network, NAMES[2]: only.segmentation_id}
        differing = {name for name, value in given.items() if value != same[name]}
        if differing - {NAMES[2]}:
            raise errors.InvalidInput(f"{sorted(differing)[0]} of a network cannot be updated.")
        if not differing or given[NAMES[2]] is None:
            return segments
        return [self._segments.renumbered(connection, only, given[NAMES[2]])]

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        def attempt() -> None:
            with self._db.read() as connection:
                before = self.load(connection, key, context.project_id)
                check_revision(before, revision)
                segments = read_segments(connection, [key])[key]
                ports = connection.execute(
                    sa.select(
                        t.ports.c.id, t.ports.c.device_owner, t.ports.c.project_id, t.ports.c.revision_number
                    ).where(t.ports.c.network_id == key)
                ).all()
                subnets = connection.execute(
                    sa.select(t.subnets.c.id, t.subnets.c.project_id, t.subnets.c.revision_number).where(
                        t.subnets.c.network_id == key
                    )
                ).all()
                spare = self._spare(connection, before)
            unused = {port.id for one in spare for port in one.ports}
            used = [port.id for port in ports if port.device_owner not in AUTO_DELETED and port.id not in unused]
            if used:
                raise errors.NetworkInUse(id=key, ports=", ".join(sorted(used)[:10]))

            def write(tx: Transaction) -> None:
                for one in spare:
                    one.write(tx)
                _delete_ports(tx, ports)
                for subnet in subnets:
                    tx.execute(sa.delete(t.subnets).where(t.subnets.c.id == subnet.id))
                    sharing.forget(tx, subnet.id)
                    tx.use("subnet", subnet.project_id, -1)
                    tx.record("subnet", subnet.id, subnet.revision_number, deleted=True)
                delete_row(tx, t.networks, before)
                sharing.forget(tx, key)
                tx.use("network", before["project_id"], -1)
                tx.record("network", key, before["revision_number"], deleted=True)

            self._operations.commit([Change("delete", "network", before, segments=segments)], write)

        self._db.retrying(attempt)


def check_revision(before: Mapping[str, Any], revision: int | None) -> None:
    """The client's `If-Match`, looked at again when the object is read for its change."""
    if revision is not None and before["revision_number"] != revision:
        raise errors.RevisionNumberConstraintFailed(expected=revision, current=before["revision_number"])


def _with_id(query: Query) -> Query:
    if query.fields is None or "id" in query.fields:
        return query
    return replace(query, fields=(*query.fields, "id"))


def _one_way_of_segments(row: Object) -> None:
    """Clients take `segments` as the mark of a network with several: it is only shown for those."""
    if "segments" in row:
        if bytes(row["segments"]) == NO_SEGMENTS:
            del row["segments"]
        else:
            for name in NAMES:
                row.pop(name, None)


def _api(network: Object, segments: Sequence[Segment]) -> Object:
    columns = shown(segments)
    out = {**network, "tenant_id": network["project_id"]}
    for name in (*NAMES, "segments"):
        out.pop(name, None)
    if columns["segments"] is not None:
        return {**out, "segments": columns["segments"]}
    return {**out, **{api: columns[column] for api, column in RENAMED.items() if column in columns}}


def _share(tx: Transaction, before: Object, after: Object) -> None:
    for name, action in (("shared", sharing.SHARED), ("router:external", sharing.EXTERNAL)):
        if after[name] and not before[name]:
            sharing.open_to_all(tx, "network", before["id"], before["project_id"], action)
        elif before[name] and not after[name]:
            sharing.close_to_all(tx, "network", before["id"], action)


def _subnet_versions(connection: Connection, network_id: str) -> list[int]:
    return list(
        connection.execute(
            sa.select(t.subnets.c.ip_version).where(t.subnets.c.network_id == network_id).distinct()
        ).scalars()
    )


def _used_by_others(connection: Connection, network: Object) -> bool:
    """Whether a project that sees the network only because it is shared with all has ports on it."""
    p, r = t.ports.c, t.rbac_policies.c
    own_way = sa.exists(
        sa.select(r.id).where(
            r.object_id == network["id"], r.action == sharing.SHARED, r.target_project == p.project_id
        )
    )
    found = connection.execute(
        sa.select(p.id)
        .where(
            p.network_id == network["id"],
            p.project_id.not_in([network["project_id"], ""]),
            p.device_owner.not_like("network:%"),
            sa.not_(own_way),
        )
        .limit(1)
    )
    return found.first() is not None


def _check_no_ha_network(connection: Connection, project_id: str) -> None:
    h = t.ha_networks.c
    if connection.execute(sa.select(h.network_id).where(h.project_id == project_id)).first() is not None:
        raise errors.DuplicatedHANetwork(project_id=project_id)


def _check_only_default(connection: Connection, key: str) -> None:
    other = connection.execute(sa.select(_c.id).where(_c.is_default, _c.external, _c.id != key).limit(1)).scalar()
    if other is not None:
        raise errors.DefaultExternalNetworkExists(net_id=other)


def _turns_internal(before: Object, values: Object) -> bool:
    return bool(before["router:external"]) and values.get("router:external") is False


def _has_gateways(connection: Connection, network: Object, spare: Collection[str]) -> bool:
    p = t.ports.c
    found = connection.execute(
        sa.select(p.id).where(
            p.network_id == network["id"], p.device_owner.in_(["network:router_gateway", "network:floatingip"])
        )
    )
    return any(port_id not in spare for port_id in found.scalars())


def _delete_ports(tx: Transaction, ports: Sequence[Any]) -> None:
    for port in ports:
        tx.execute(sa.delete(t.ports).where(t.ports.c.id == port.id))
        tx.use("port", port.project_id, -1)
        tx.record("port", port.id, port.revision_number, deleted=True)
