"""Networks: create with segments, update and sharing, delete with subnets and the service's own ports."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.device_owners import FLOATING, GATEWAY
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.cascade import Permit, Removed
from neutrino.server.collection import Listing
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, delete_row, exists, fresh, update_row
from neutrino.server.db.reads import Read, read_lists
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import Added
from neutrino.server.hosts.zones import check_hints
from neutrino.server.ml2.added_ranges import AddedRange
from neutrino.server.ml2.attributes import NetworkAttributes
from neutrino.server.ml2.driver_api import DriverContext, Segment
from neutrino.server.ml2.extensions import Extensions
from neutrino.server.ml2.operations import NO_EVENT, Operations, PendingWrite
from neutrino.server.ml2.segments import (
    NAMES,
    SEGMENTATION_ID,
    Segments,
    SegmentsInUse,
    provider_attributes,
    read_segments,
    shown,
)
from neutrino.server.ml2.views import NETWORK_RENAMED, NETWORKS, api_network, one_form_of_segments, reading_subnets
from neutrino.server.ml2.vlan_tags import VlanTags
from neutrino.server.quota.quotas import Quotas
from neutrino.server.scheduling.placements import NETWORKS as PLACEMENTS
from neutrino.server.securitygroups.groups import DEFAULT_GROUP, SecurityGroups
from neutrino.server.uses import NetworkUse, UnusedPorts

AUTO_DELETED = ("network:dhcp", "network:distributed")  # owners of ports that are deleted with their network or subnet
MIN_MTU = {4: 68, 6: 1280}  # by IP version
_SHARING = {"shared": sharing.SHARED, "router:external": sharing.EXTERNAL}


@dataclass(frozen=True)
class ProjectInputs:
    """What new networks of a project depend on."""

    limit: int
    default_group: str | None
    of_features: Sequence[Any]  # what each feature with attributes of networks has read


DeleteCascade = Callable[[Context, str, int | None, Permit], list[Removed]]


@dataclass(eq=False)
class Networks(Listing):
    db: Database
    operations: Operations
    segments: Segments
    vlan_tags: VlanTags
    extensions: Extensions
    quotas: Quotas
    groups: SecurityGroups
    added: Sequence[NetworkAttributes]  # by features
    uses: list[NetworkUse] = field(default_factory=list)  # of features
    # Called with the id of a segment that was created on an existing network, or deleted.
    segment_hooks: list[Callable[[str], None]] = field(default_factory=list)
    subnet_checks: list[Callable[[Connection, str], None]] = field(default_factory=list)  # before one is deleted
    delete_cascade: DeleteCascade = field(init=False)  # of `NetworkCascade`, which knows ports too

    def __post_init__(self) -> None:
        self.view = self.extensions.view("network", NETWORKS.with_hidden(self.vlan_tags.names))
        super().__init__(self.db, self.view.composed({"availability_zones": Added(("id",), PLACEMENTS.zones)}))
        self.operations.undo["network"] = lambda network: self.delete(admin_context(), network["id"], None)

    # --- reading --------------------------------------------------------------------------------------------------

    def shown(self, row: Object) -> Object:
        return one_form_of_segments(row)

    def policy_target(self, context: Context, key: str, everyone: bool) -> Object:
        """Attributes of a network, for policy rules on what is created on it."""
        with self.db.read() as connection:
            names = ("project_id", "shared")
            network = self.view.show(connection, key, project=context.project_id, everyone=everyone, fields=names)
        network = self.view.found(key, network)
        return {f"network:{name}": network[name] for name in names}

    def reading_external(self, context: Context, key: str, resource: str) -> tuple[Read[Object], Read[list[Object]]]:
        """An external network that the caller sees, and its subnets; `resource` asks for it: others are refused."""

        def checked(loaded: Object | None) -> Object:
            network = self.view.found(key, loaded)
            if not network["router:external"]:
                raise errors.BadRequest(resource=resource, msg=f"network {key} is not an external one")
            return network

        reading = self.view.reading(key, context.project_id, everyone=context.is_admin)
        return reading.then(checked), reading_subnets([key])

    # --- creating -------------------------------------------------------------------------------------------------

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        with self.db.read() as connection:
            projects, added = self._read_inputs(connection, {values["project_id"] for values in several})
            # One for all networks: no two of them get the same segment. A single network guesses one without a lookup; if
            # the guess was taken, the next attempt looks.
            in_use = SegmentsInUse(connection, blind=len(several) == 1 and not self.db.is_repeated, added=added)
            made = [
                self._decide(connection, context, values, in_use, projects[values["project_id"]].of_features)
                for values in several
            ]
        limits = {project: inputs.limit for project, inputs in projects.items()}
        # As in Neutron, a project's first network creates its default security group; the server's own has no project.
        for project, inputs in projects.items():
            if project and inputs.default_group is None:
                self.groups.ensure_default(project)
        contexts = [DriverContext("create", "network", network, segments=segments) for network, segments in made]
        with self.operations.write(contexts) as tx:
            tx.insert(t.networks, [as_row(t.networks, {**n, **shown(s)}, NETWORK_RENAMED) for n, s in made], limits)
            for network, segments in made:
                self._insert_parts(tx, network, segments)
        return [api_network(network, segments) for network, segments in made]

    def _read_inputs(
        self, connection: Connection, projects: Collection[str]
    ) -> tuple[dict[str, ProjectInputs], Sequence[AddedRange]]:
        """The inputs of each project, and the ranges of segments that operators have added."""
        of_projects = [
            [
                self.quotas.reading("network", project),
                DEFAULT_GROUP(project=project),
                *(one.reading(project) for one in self.added),
            ]
            for project in projects
        ]
        added, *found = read_lists(connection, self.segments.reading_added(), *of_projects)
        inputs = [ProjectInputs(limit, group, of_features) for limit, group, *of_features in found]
        return dict(zip(projects, inputs, strict=True)), [one for ranges in added for one in ranges]

    def _insert_parts(self, tx: Transaction, network: Object, segments: Sequence[Segment]) -> None:
        at = network["created_at"]
        self.segments.insert(tx, network["id"], segments, created_at=at, updated_at=at)
        for use in self.uses:
            use.write_create(tx, network)
        _share(tx, dict.fromkeys(_SHARING, False), network)
        self.extensions.store("network", tx, network)

    def _decide(
        self,
        connection: Connection,
        context: Context,
        values: Object,
        in_use: SegmentsInUse,
        of_features: Sequence[Any],
    ) -> tuple[Object, list[Segment]]:
        check_hints(connection, values["availability_zone_hints"])
        segments = self.segments.choose(in_use, values)
        added: Object = {}
        for one, inputs in zip(self.added, of_features, strict=True):
            added |= one.of_new_network(connection, context, values, inputs)
        network = fresh({k: v for k, v in values.items() if k not in (*NAMES, "segments")})
        network |= {
            "status": "ACTIVE",
            "subnets": [],
            "ipv4_address_scope": None,
            "ipv6_address_scope": None,
            **added,
            "extra_dhcp_opts": values.get("extra_dhcp_opts") or [],
            "availability_zones": [],
            "project_default": values.get("project_default", False),
            "l2_adjacency": True,
            "mtu": self._mtu(values["mtu"], segments),
            **self.vlan_tags.of_new_network(values, segments),
        }
        for use in self.uses:
            use.check_create(connection, network)
        if network["is_default"] and network["router:external"]:
            _check_only_default(connection, network["id"])
        return self.extensions.process("create", "network", values, network, network=network), segments

    def _mtu(self, requested: int, segments: Sequence[Segment]) -> int:
        maximum = self.segments.mtu(segments)
        if not requested:
            return maximum
        if maximum and requested > maximum:
            raise errors.InvalidInput(
                f"Invalid input for mtu: {requested} is more than {maximum}, the most that it can carry."
            )
        return requested

    # --- updating -------------------------------------------------------------------------------------------------

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = self.view.get(connection, key, context.project_id, revision=revision)
            segments = read_segments(connection, [key])[key]
            unused = self._ports_of_external(connection, before, values)
            after = {**before, **self._decide_update(connection, context, before, segments, values)}
            zones = {"availability_zones": PLACEMENTS.zones(connection, [before])[0]}
            new_segments = self._renumbered(connection, segments, values)
        after = self.extensions.process("update", "network", values, after, network=before, before=before)
        if after == before and new_segments == segments:
            return api_network({**before, **zones}, segments)
        with self.db.read() as connection:
            writes = [use.changes(connection, context, before, after) for use in self.uses]
        of_features = [PendingWrite(NO_EVENT, write) for write in writes if write is not None]
        after = changed(before, after)
        drivers = DriverContext("update", "network", after, before, segments=new_segments)
        with self.operations.write([drivers], of_features) as tx:
            row = {name: value for name, value in after.items() if name not in (*NAMES, "segments")}
            update_row(tx, t.networks, before, row, renamed=NETWORK_RENAMED)
            if new_segments != segments:  # the unique identity refuses an id that another network took meanwhile
                self.segments.lock(tx, key)
                self.segments.renumber(tx, new_segments[0])
                self.segments.refresh(tx, key)
            _share(tx, before, after)
            for one in unused:
                one.write(tx)
                delete_ports(tx, one.ports)
            self.extensions.store("network", tx, after, before)
        return api_network({**after, **zones}, new_segments)

    def _decide_update(
        self, connection: Connection, context: Context, before: Object, segments: Sequence[Segment], values: Object
    ) -> Object:
        decided = {k: v for k, v in values.items() if k not in (*NAMES, "segments")}
        if "extra_dhcp_opts" in decided:
            decided["extra_dhcp_opts"] = decided["extra_dhcp_opts"] or []
        if "mtu" in decided:
            decided["mtu"] = self._mtu(decided["mtu"], segments)
            versions = sa.select(t.subnets.c.ip_version).where(t.subnets.c.network_id == before["id"]).distinct()
            check_mtu(before["id"], decided["mtu"], list(connection.execute(versions).scalars()))
        if before["shared"] and values.get("shared") is False and _used_by_others(connection, before):
            raise errors.InvalidSharedSetting(network=before["name"] or before["id"])
        if decided.get("is_default") and decided.get("router:external", before["router:external"]):
            _check_only_default(connection, before["id"])
        for one in self.added:
            one.check_update(connection, context, self.operations.mechanisms.drivers, before, {**before, **decided})
        return decided

    def _ports_of_external(self, connection: Connection, before: Object, values: Object) -> list[UnusedPorts]:
        """Unused ports that are deleted because an external network becomes internal; refused if it has gateways."""
        if not before["router:external"] or values.get("router:external") is not False:
            return []
        unused = self.unused_ports(connection, before)
        ignored = [port.id for one in unused for port in one.ports]
        is_gateway = t.ports.c.device_owner.in_([GATEWAY, FLOATING])
        if exists(connection, t.ports.c.network_id == before["id"], is_gateway, t.ports.c.id.not_in(ignored)):
            raise errors.ExternalNetworkInUse(id=before["id"])
        return unused

    def unused_ports(self, connection: Connection, network: Object) -> list[UnusedPorts]:
        found = [use.find_unused(connection, network) for use in self.uses]
        return [one for one in found if one is not None]

    def _renumbered(self, connection: Connection, segments: list[Segment], values: Object) -> list[Segment]:
        """The segments after an update, which can only give a single segment another segmentation id."""
        given = {name: values[name] for name in NAMES if name in values}
        if "segments" in values:
            raise errors.InvalidInput("Invalid input for segments: the segments of a network cannot be replaced.")
        if not given:
            return segments
        if len(segments) != 1:
            raise errors.InvalidInput("Provider attributes of a network with several segments cannot be updated.")
        only = segments[0]
        same = provider_attributes(only)
        differing = {name for name, value in given.items() if value != same[name]}
        if differing - {SEGMENTATION_ID}:
            raise errors.InvalidInput(f"{sorted(differing)[0]} of a network cannot be updated.")
        if not differing or given[SEGMENTATION_ID] is None:
            return segments
        return [self.segments.renumbered(connection, only, given[SEGMENTATION_ID])]

    # --- deleting -------------------------------------------------------------------------------------------------

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self.view.get(connection, key, context.project_id, revision=revision)
            pending = self.prepare_delete(connection, before)
        with self.operations.write([], [pending]):
            pass

    def prepare_delete(self, connection: Connection, before: Object, deleted: Collection[str] = ()) -> PendingWrite:
        """The delete with subnets and the service's own ports; refused if there are others, except `deleted` ones.

        Those are deleted by the same write before.
        """
        key = before["id"]
        segments = read_segments(connection, [key])[key]
        columns = (t.ports.c.id, t.ports.c.device_owner, t.ports.c.project_id, t.ports.c.revision_number)
        found = connection.execute(sa.select(*columns).where(t.ports.c.network_id == key)).all()
        ports = [port for port in found if port.id not in deleted]
        of_subnets = sa.select(t.subnets.c.id, t.subnets.c.project_id, t.subnets.c.revision_number).where(
            t.subnets.c.network_id == key
        )
        subnets = connection.execute(of_subnets).all()
        for subnet in subnets:
            self.check_subnet_unused(connection, subnet.id)
        unused = self.unused_ports(connection, before)
        ignored = {port.id for one in unused for port in one.ports}
        # A port created since it was read makes the delete fail on its foreign key, and this is decided again.
        used = [port.id for port in ports if port.device_owner not in AUTO_DELETED and port.id not in ignored]
        if not used:
            used = [user for use in self.uses for user in use.users(connection, key)]
        if used:
            raise errors.NetworkInUse(id=key, ports=", ".join(sorted(used)[:10]))

        def write(tx: Transaction) -> None:
            # In the order of the foreign keys: what references ports, ports, subnets, the network.
            for one in unused:
                one.write(tx)
            delete_ports(tx, ports)
            for subnet in subnets:
                sharing.delete_object(tx, t.subnets, subnet._asdict())
            sharing.delete_object(tx, t.networks, before)
            tx.after_commit(self.segments_changed, [segment.id for segment in segments])

        return PendingWrite(DriverContext("delete", "network", before, segments=segments), write)

    def check_subnet_unused(self, connection: Connection, subnet_id: str) -> None:
        """Refuse to delete a subnet that a service needs, other than by a port."""
        for check in self.subnet_checks:
            check(connection, subnet_id)

    def segments_changed(self, segment_ids: Sequence[str]) -> None:
        for hook in self.segment_hooks:
            for segment_id in segment_ids:
                hook(segment_id)


def _share(tx: Transaction, before: Object, after: Object) -> None:
    for name, action in _SHARING.items():
        if after[name] and not before[name]:
            sharing.share_with_all(tx, "network", after["id"], after["project_id"], action)
        elif before[name] and not after[name]:
            sharing.unshare_with_all(tx, "network", after["id"], action)


def delete_ports(tx: Transaction, ports: Sequence[NamedRow]) -> None:
    """Delete ports by their rows: the service's own ports of a network or subnet that is deleted."""
    for port in ports:
        delete_row(tx, t.ports, port._asdict())


# --- checks ---------------------------------------------------------------------------------------------------------


def check_mtu(network_id: str, mtu: int, ip_versions: Collection[int]) -> None:
    """Refuse an MTU below the minimum of the subnets' IP versions; a network without subnets may have any."""
    least = max((MIN_MTU[version] for version in ip_versions), default=0)
    if 0 < mtu < least:
        raise errors.NetworkMTUSubnetConflict(id=network_id, mtu=mtu, least=least)


def _used_by_others(connection: Connection, network: Object) -> bool:
    """Whether a project that sees the network only because it is shared with all has ports on it."""
    r = t.rbac_policies.c
    own_policy = sa.exists(
        sa.select(r.id).where(
            r.object_id == network["id"], r.action == sharing.SHARED, r.target_project == t.ports.c.project_id
        )
    )
    return exists(
        connection,
        t.ports.c.network_id == network["id"],
        t.ports.c.project_id.not_in([network["project_id"], ""]),  # empty: the server's own ports
        t.ports.c.device_owner.not_like("network:%"),
        sa.not_(own_policy),
    )


def _check_only_default(connection: Connection, key: str) -> None:
    other = connection.execute(
        sa.select(t.networks.c.id)
        .where(t.networks.c.is_default, t.networks.c.external, t.networks.c.id != key)
        .limit(1)
    ).scalar()
    if other is not None:
        raise errors.DefaultExternalNetworkExists(net_id=other)
