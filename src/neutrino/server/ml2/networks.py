"""Networks: created with their segments, updated, shared, and deleted with their subnets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, check_revision, delete_row, fresh, update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.just import Just
from neutrino.server.ml2.driver_api import Change, Segment
from neutrino.server.ml2.drivers import Extensions
from neutrino.server.ml2.network_checks import (
    check_mtu,
    check_no_ha_network,
    check_only_default,
    has_gateways,
    subnet_versions,
    turns_internal,
    used_by_others,
)
from neutrino.server.ml2.network_view import RENAMED, VIEW, api_network, one_way_of_segments, with_id
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.segments import NAMES, Segments, TakenSegments, read_segments, shown
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

Object = dict[str, Any]
# Ports that the service itself put on a network, and which go with it.
AUTO_DELETED = ("network:dhcp", "network:distributed")

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
            rows = VIEW.many(connection, with_id(query), context.project_id, *conditions)
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
            one_way_of_segments(row)
        return rows

    def load(self, connection: Connection, key: str, project: str | None = None) -> Object:
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

    def load_again(self, connection: Connection, key: str, project: str | None) -> Object:
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
                        sharing.share_with_all(tx, "network", network["id"], network["project_id"])
                    if network["router:external"]:
                        sharing.share_with_all(tx, "network", network["id"], network["project_id"], sharing.EXTERNAL)
                    self._extensions.store("create", "network", tx, network)
                    tx.use("network", network["project_id"], 1, limits[network["project_id"]])
                    tx.record("network", network["id"], network["revision_number"])

            self._operations.commit(changes, write)
            return [api_network(network, segments) for network, segments in made]

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
            "mtu": self._mtu(values["mtu"], segments),
        }
        if network.get("ha"):
            check_no_ha_network(connection, network["project_id"])
        if network["is_default"] and network["router:external"]:
            check_only_default(connection, network["id"])
        self._extensions.process("create", "network", values, network)
        return network, segments

    def _mtu(self, asked: int, segments: Sequence[Segment]) -> int:
        most = self._segments.mtu(segments)
        if not asked:
            return most
        if most and asked > most:
            raise errors.InvalidInput(
                f"Invalid input for mtu: {asked} is more than {most}, the most that it can carry."
            )
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
                spare = self._spare(connection, before) if turns_internal(before, values) else []
            after = {**before, **decided}
            self._extensions.process("update", "network", values, after)
            if after == before and after_segments == segments:
                return api_network({**before, "availability_zones": list(zones.get(key, ()))}, segments)
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
            return api_network({**after, "availability_zones": list(zones.get(key, ()))}, after_segments)

        return self._db.retrying(attempt)

    def _decide_update(
        self, connection: Connection, context: Context, before: Object, segments: Sequence[Segment], values: Object
    ) -> Object:
        changed = {k: v for k, v in values.items() if k not in NAMES and k != "segments"}
        if "extra_dhcp_opts" in changed:
            changed["extra_dhcp_opts"] = changed["extra_dhcp_opts"] or []
        if "mtu" in changed:
            changed["mtu"] = self._mtu(changed["mtu"], segments)
            check_mtu(before["id"], changed["mtu"], subnet_versions(connection, before["id"]))
        if before["shared"] and values.get("shared") is False and used_by_others(connection, before):
            raise errors.InvalidSharedSetting(network=before["name"] or before["id"])
        if changed.get("is_default") and changed.get("router:external", before["router:external"]):
            check_only_default(connection, before["id"])
        if turns_internal(before, values):
            spare = {port.id for one in self._spare(connection, before) for port in one.ports}
            if has_gateways(connection, before, spare):
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


def _share(tx: Transaction, before: Object, after: Object) -> None:
    for name, action in (("shared", sharing.SHARED), ("router:external", sharing.EXTERNAL)):
        if after[name] and not before[name]:
            sharing.share_with_all(tx, "network", before["id"], before["project_id"], action)
        elif before[name] and not after[name]:
            sharing.unshare_with_all(tx, "network", before["id"], action)


def _delete_ports(tx: Transaction, ports: Sequence[Any]) -> None:
    for port in ports:
        tx.execute(sa.delete(t.ports).where(t.ports.c.id == port.id))
        tx.use("port", port.project_id, -1)
        tx.record("port", port.id, port.revision_number, deleted=True)
