"""Checks before anything is written: whether the source is a Neutron that can be taken over, and the target free for it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import sqlalchemy as sa

from neutrino.errors import OperatorError
from neutrino.model.agents import NIC_SWITCH, OVS, TUNNELING_IP
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.takeover import heads, schema
from neutrino.takeover.derived import ALLOCATIONS
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.families.networks import identity
from neutrino.takeover.family import Family
from neutrino.takeover.importer import Importer
from neutrino.takeover.source import STANDARD, Source

REQUIRED: Final = ("networks", "ports", "subnets", STANDARD)
# Tables of Neutron whose content follows from other tables, or is of the moment.
DERIVED: Final = frozenset(
    {
        *("ipamallocations", "ipamallocationpools", "ipamsubnets", "network_subnet_lock", "segmenthostmappings"),
        *("ml2_flat_allocations", "ml2_vlan_allocations", "ml2_vxlan_allocations", "ml2_gre_allocations"),
        *("ml2_geneve_allocations", "ml2_vxlan_endpoints", "ml2_gre_endpoints", "ml2_geneve_endpoints"),
        *("quotausages", "reservations", "resourcedeltas", "dvr_fip_gateway_port_network"),
        *("providerresourceassociations", "subnet_host_lock"),
        *(heads.VERSION_TABLE, *heads.PLUGINS),
    }
)
ENDPOINTS: Final = ("ml2_vxlan_endpoints", "ml2_gre_endpoints", "ml2_geneve_endpoints")
FOREIGN_AGENTS: Final = {
    "Linux bridge agent": "linuxbridge",
    "OVN Controller agent": "OVN",
    "OVN Controller Gateway agent": "OVN",
    "OVN Metadata agent": "OVN",
    "Macvtap agent": "macvtap",
}
FOREIGN_DRIVERS: Final = ("ovn", "linuxbridge", "macvtap")
_SHOWN: Final = 5  # objects that a refusal names
_UNUSED: Final = ("default_security_group_rules", "network_segment_ranges")  # a server that has started once has rows


class Refused(OperatorError):
    """The takeover cannot begin; nothing was changed."""


# Tables by which a database is recognised that was given by mistake.
OTHERS: Final = {"block_device_mapping": "Nova", "cell_mappings": "Nova", "change_head": "neutrino"}


@dataclass(frozen=True)
class Version:
    release: str
    unknown: tuple[str, ...] = ()  # revisions that are not known, and that the operator has accepted


def check_version(source: Source, *, accept_unknown: bool | None = None) -> Version:
    """The release of Neutron by its schema; others are refused, unless they are accepted and have all that is read.

    `accept_unknown`: what the operator has chosen; None: there is no choice.
    """
    if not source.tables:
        raise Refused(
            f"{source.name} is no database of Neutron: it is empty. Check its name, and the rights of the user"
        )
    other = [of for name, of in OTHERS.items() if name in source.tables]
    if other:
        raise Refused(
            f"{source.name} is no database of Neutron, but of {other[0]}: give that of Neutron's configuration"
        )
    if heads.VERSION_TABLE not in source.tables:
        raise Refused(f"{source.name} is no database of Neutron: it has no table {heads.VERSION_TABLE}")
    found = tuple(sorted(str(row["version_num"]) for row in source.rows(heads.VERSION_TABLE)))
    missing = [name for name in REQUIRED if name not in source.tables]
    if missing:
        raise Refused(f"{source.name} is no database of Neutron: it has no table {', '.join(missing)}")
    older = [heads.OLDER[one] for one in found if one in heads.OLDER]
    if older:
        raise Refused(f"{source.name} is of Neutron {older[0]}: upgrade Neutron to {heads.OLDEST} or later first")
    releases = [heads.RELEASES[one] for one in found if one in heads.RELEASES]
    unknown = [one for one in found if one not in heads.RELEASES and one != heads.CONTRACT]
    of_plugins = [
        (table, str(row["version_num"]))
        for table, known in heads.PLUGINS.items()
        for row in source.rows(table)
        if row["version_num"] not in known
    ]
    if accept_unknown and (unknown or of_plugins):
        check_schema(source)
        return Version(heads.UNKNOWN, (*unknown, *(revision for _, revision in of_plugins)))
    if unknown or len(releases) != 1:
        shown = ", ".join(unknown or found) or "none"
        newest = max(heads.RELEASES.values())
        choice = "" if accept_unknown is None else ", or give --accept-unknown-release if it is newer"
        raise Refused(
            f"{source.name} has the schema revision {shown}, which is of no release from {heads.OLDEST} to {newest}: "
            "complete Neutron's own upgrade (neutron-db-manage upgrade heads), or use a newer release of neutrino"
            f"{choice}"
        )
    for table, revision in of_plugins:
        choice = "" if accept_unknown is None else ", or give --accept-unknown-release if it is newer"
        raise Refused(
            f"{source.name}: the revision {revision} in {table} is not known: upgrade the plugin, or use a newer release "
            f"of neutrino{choice}"
        )
    return Version(releases[0])


def check_schema(source: Source) -> None:
    """Refuse a database without some table or column that is read: known releases without it are known to do without."""
    missing = []
    for table, columns in sorted(schema.required(source.tables).items()):
        if table not in source.tables:
            missing.append(table)
        else:
            missing += [f"{table}.{column}" for column in sorted(columns - source.columns(table))]
    if missing:
        raise Refused(
            f"{source.name} is of an unknown release, and lacks what is read: {', '.join(missing)}. Use a release of "
            "neutrino that knows it"
        )


def note_unknown(source: Source, version: Version, deviations: Deviations) -> None:
    """Note an unknown release, and the columns that are not read."""
    if not version.unknown:
        return
    for revision in version.unknown:
        reason = "is of no release that is known, and was accepted: it has all tables and columns that are read"
        deviations.note(heads.VERSION_TABLE, revision, f"{reason}. An export into this database is refused")
    for table, columns in sorted(schema.required(source.tables).items()):
        for column in sorted(source.columns(table) - columns - schema.unread(table)):
            deviations.note(table, column, "is a column that is not known: it is not imported")


def check_source(source: Source, families: Sequence[Family], deviations: Deviations) -> None:
    """Collect what cannot be taken over, beside what composing the objects finds."""
    _check_drivers(source, deviations)
    _check_places(source, families, deviations)
    _check_segments(source, deviations)
    _check_orphans(source, deviations)
    _check_allocations(source, deviations)
    _check_endpoints(source, deviations)


def _check_drivers(source: Source, deviations: Deviations) -> None:
    for agent in source.among("agents", "agent_type", FOREIGN_AGENTS):
        driver = FOREIGN_AGENTS[agent["agent_type"]]
        reason = f"{agent['agent_type']} on {agent['host']}: {driver} cannot be taken over, only Open vSwitch agents"
        deviations.refuse("agents", agent["id"], f"{reason}; delete the agent if it is a leftover")
    for agent in source.among("agents", "agent_type", (NIC_SWITCH,)):
        reason = "its cards stay as they are, and are set again by a host agent with the role sriov"
        deviations.note("agents", agent["id"], f"SR-IOV agent on {agent['host']}: {reason}")
    levels = source.among("ml2_port_binding_levels", "driver", FOREIGN_DRIVERS)
    for level in levels[:_SHOWN]:
        reason = f"is bound by {level['driver']}, as {len(levels)} ports are: only Open vSwitch can be taken over"
        deviations.refuse("ports", level["port_id"], reason)


def _check_places(source: Source, families: Sequence[Family], deviations: Deviations) -> None:
    known = DERIVED | {STANDARD} | {name for one in families for name in (one.source, *one.reads)}
    for name in sorted(source.tables - known):
        number = source.count(name)
        if number:
            deviations.refuse(
                name, "*", f"{number} rows of a table without a place here: delete the objects in Neutron"
            )


def _check_segments(source: Source, deviations: Deviations) -> None:
    """Refuse segments that Neutron has twice: here each exists once in the cloud."""
    seen: dict[str, Object] = {}
    for page in source.pages("networksegments", "id"):
        for segment in page:
            key = identity(segment)
            other = seen.setdefault(key, segment)
            if other is not segment:
                reason = f"{key} is also the segment {other['id']} of network {other['network_id']}: delete one of them"
                deviations.refuse("networksegments", segment["id"], f"of network {segment['network_id']}: {reason}")


def _check_orphans(source: Source, deviations: Deviations) -> None:
    for row in _null_ports(source):
        deviations.leave_out("ipallocations", row["subnet_id"], f"address {row['ip_address']} is of no port")
    for row in source.among("ports", "device_id", ("PENDING",)):
        if row["device_owner"] == "network:floatingip":
            deviations.repair("ports", row["id"], "is of a floating IP that was never completed: imported as it is")
    standard = source.table(STANDARD)
    users = [source.table(name) for name in sorted(source.tables) if _has_standard(source, name)]
    unused = sa.select(standard.c.id, standard.c.resource_type).where(
        *(~sa.exists(sa.select(one.c.standard_attr_id).where(one.c.standard_attr_id == standard.c.id)) for one in users)
    )
    for one in source.execute(unused).mappings():
        deviations.leave_out(STANDARD, one["id"], f"of a {one['resource_type']} that does not exist")


def _check_allocations(source: Source, deviations: Deviations) -> None:
    """Note segmentation ids that Neutron has marked as used, and no segment uses: here they are free."""
    for kind, (name, column) in ALLOCATIONS.items():
        if not {column, "allocated"} <= source.columns(name):
            continue
        table = source.table(name)
        columns = [table.c[one] for one in ("physical_network", column) if one in table.c]
        marked = source.execute(sa.select(*columns).where(table.c.allocated == sa.true())).all()
        used = {_allocated(segment) for segment in source.among("networksegments", "network_type", (kind,))}
        for row in marked:
            if tuple(row) not in used:
                shown = "/".join(map(str, row))
                deviations.note(name, shown, "is allocated without a segment: leaked in Neutron, and free here")


def _allocated(segment: Object) -> tuple[object, ...]:
    physical = (segment["physical_network"],) if segment["network_type"] == "vlan" else ()
    return (*physical, segment["segmentation_id"])


def _check_endpoints(source: Source, deviations: Deviations) -> None:
    """Note hosts whose tunnel address in Neutron's table is not that of their agent, which is used here."""
    reported = {}
    for agent in source.among("agents", "agent_type", (OVS,)):
        try:
            configurations = msgspec.json.decode(str(agent["configurations"] or "{}"))
        except msgspec.DecodeError:  # said with the agent
            continue
        reported[agent["host"]] = configurations.get(TUNNELING_IP)
    for name in ENDPOINTS:
        addresses: dict[object, set[str]] = {}
        for row in source.rows(name):
            addresses.setdefault(row["host"], set()).add(str(row["ip_address"]))
        for host, found in addresses.items():
            own = reported.get(host)
            if own and found != {own}:
                shown = ", ".join(sorted(found))
                deviations.note(
                    name, host, f"the tunnel address is {shown}, and {own} by its agent: the agent's is used"
                )


def _has_standard(source: Source, name: str) -> bool:
    return name not in (STANDARD, "tags", "provisioningblocks") and "standard_attr_id" in source.columns(name)


def _null_ports(source: Source) -> Iterable[Object]:
    if "port_id" not in source.columns("ipallocations"):
        return ()
    table = source.table("ipallocations")
    return [dict(row) for row in source.execute(sa.select(table).where(table.c.port_id.is_(None))).mappings()]


# --- the target -------------------------------------------------------------------------------------------------------


def check_target(db: Database, importer: Importer, *, silent_since: str, allow_running: bool) -> None:
    """Refuse a target with objects of its own, or with a server that runs on it."""
    with db.read() as connection:
        running = connection.execute(
            sa.select(t.server_processes.c.host, t.server_processes.c.pid).where(
                t.server_processes.c.seen_at >= silent_since
            )
        ).all()
        c = t.takeovers.c
        runs = connection.execute(sa.select(c.opened_at, c.exported_at)).all()
    imported = bool(runs)
    exported_at = max((run.exported_at or "" for run in runs), default="")
    if imported and not exported_at and all(run.opened_at for run in runs):
        raise Refused(
            f"the takeover of this database was completed at {max(run.opened_at for run in runs)}: an import would undo "
            "what changed since"
        )
    # With a row of an earlier import a server refuses writes, and moves nothing.
    if running and not imported and not allow_running:
        raise Refused(
            f"a server runs on this database (host {running[0].host}, process {running[0].pid}): stop it, or give "
            "--with-running-server; it would move what dead agents serve to others"
        )
    for family in importer.families:
        table = family.tables[0].table
        if table.name in _UNUSED:
            continue
        foreign = (
            _created_here(db, importer, family, exported_at) if imported else _any(db, table, family.tables[0].owner)
        )
        if foreign:
            raise Refused(
                f"this database has {family.name} that are not of Neutron, as {', '.join(foreign[:_SHOWN])}: "
                "use an empty database, or delete them"
            )


def _any(db: Database, table: sa.Table, owner: str) -> list[str]:
    with db.read() as connection:
        return [str(one) for one in connection.execute(sa.select(table.c[owner]).limit(_SHOWN)).scalars()]


def _created_here(db: Database, importer: Importer, family: Family, exported_at: str) -> list[str]:
    """Objects that Neutron does not have, and that an API request has created here since; Neutron has got others."""
    return [key for keys in importer.missing(db, family) for key in _by_request(db, keys, exported_at)]


def _by_request(db: Database, keys: Collection[object], after: str) -> list[str]:
    c = t.changes.c
    with db.read() as connection:
        statement = sa.select(c.object_id).where(
            c.object_id.in_(list(keys)), c.created.is_(True), c.request_id.is_not(None), c.at > after
        )
        return sorted(set(connection.execute(statement).scalars()))
