"""Rows of Neutron's that follow from others: its IPAM, the segmentation ids in use, VRRP ids, numbers of tap services.

Without them Neutron would hand out addresses and ids that are in use.
"""

import uuid
from collections.abc import Collection, Sequence
from typing import Final

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.takeover.target import RowDifference, Target

# By network type: the table of ids, and the column with the id.
ALLOCATIONS: Final = {
    "vlan": ("ml2_vlan_allocations", "vlan_id"),
    "vxlan": ("ml2_vxlan_allocations", "vxlan_vni"),
    "gre": ("ml2_gre_allocations", "gre_id"),
    "geneve": ("ml2_geneve_allocations", "geneve_vni"),
}
_FLAT: Final = "ml2_flat_allocations"
_VRIDS: Final = "ha_router_vrid_allocations"
_TAPS: Final = "tap_id_associations"
TABLES: Final = (
    *("ipamsubnets", "ipamallocationpools", "ipamallocations", _FLAT, _VRIDS, _TAPS),
    *(table for table, _ in ALLOCATIONS.values()),
)


def before_deletion(target: Target, difference: RowDifference) -> None:
    """Release what rows that are going to be deleted hold."""
    rows = difference.delete
    match difference.theirs.table:
        case "subnets":
            _delete_ipam(target, [row["id"] for row in rows])
        case "ipallocationpools":
            _delete_of_subnets(target, "ipamallocationpools", rows, ("first_ip", "last_ip"))
        case "ipallocations":
            _delete_of_subnets(target, "ipamallocations", rows, ("ip_address",))
        case "networksegments":
            for row in rows:
                _allocate(target, row, allocated=False)
        case "tap_services" if target.has(_TAPS):
            numbers = target.table(_TAPS)
            ids = [row["id"] for row in rows]
            released = sa.update(numbers).where(numbers.c.tap_service_id.in_(ids)).values(tap_service_id=None)
            target.connection.execute(released)


def after_insertion(target: Target, difference: RowDifference) -> None:
    """Allocate what new and changed rows hold."""
    rows = difference.insert
    match difference.theirs.table:
        case "subnets":
            for row in rows:
                values = {"id": str(uuid.uuid4()), "neutron_subnet_id": row["id"]}
                target.connection.execute(sa.insert(target.table("ipamsubnets")).values(values))
        case "ipallocationpools":
            _insert_of_subnets(target, "ipamallocationpools", rows, ("first_ip", "last_ip"))
        case "ipallocations":
            _insert_of_subnets(target, "ipamallocations", rows, ("ip_address",))
        case "networksegments":
            for before, changed in difference.update:
                if {"network_type", "physical_network", "segmentation_id"} & changed.keys():
                    _allocate(target, before, allocated=False)
                    _allocate(target, {**before, **changed}, allocated=True)
            for row in rows:
                _allocate(target, row, allocated=True)
        case "tap_services" if target.has(_TAPS):
            for row in rows:
                _number_tap(target, row["id"])


def reconcile_vrids(target: Target, wanted: Collection[tuple[str, int]]) -> None:
    """Make the VRRP ids in use those of our HA routers: network and id."""
    if not target.has(_VRIDS):
        return
    table = target.table(_VRIDS)
    current = {(row.network_id, row.vr_id) for row in target.connection.execute(sa.select(table))}
    for network, number in current - set(wanted):
        one = sa.and_(table.c.network_id == network, table.c.vr_id == number)
        target.connection.execute(sa.delete(table).where(one))
    for network, number in set(wanted) - current:
        target.connection.execute(sa.insert(table).values(network_id=network, vr_id=number))


# --- IPAM -------------------------------------------------------------------------------------------------------------


def _ipam_ids(target: Target, rows: Sequence[Object]) -> dict[object, str]:
    found = target.among(target.table("ipamsubnets"), "neutron_subnet_id", {row["subnet_id"] for row in rows})
    return {one["neutron_subnet_id"]: str(one["id"]) for one in found}


def _insert_of_subnets(target: Target, name: str, rows: Sequence[Object], columns: Sequence[str]) -> None:
    table, ids = target.table(name), _ipam_ids(target, rows)
    for row in rows:
        if row["subnet_id"] not in ids:  # a subnet of another IPAM driver
            continue
        values = {"ipam_subnet_id": ids[row["subnet_id"]], **{column: row[column] for column in columns}}
        more = {"status": "ALLOCATED"} if "status" in table.c else {"id": str(uuid.uuid4())}
        target.connection.execute(sa.insert(table).values(values | more))


def _delete_of_subnets(target: Target, name: str, rows: Sequence[Object], columns: Sequence[str]) -> None:
    table, ids = target.table(name), _ipam_ids(target, rows)
    for row in rows:
        own = table.c.ipam_subnet_id == ids.get(row["subnet_id"], "")
        target.connection.execute(sa.delete(table).where(own, *(table.c[name] == row[name] for name in columns)))


def _delete_ipam(target: Target, subnets: Sequence[str]) -> None:
    subnet_table = target.table("ipamsubnets")
    ids = [one["id"] for one in target.among(subnet_table, "neutron_subnet_id", subnets)]
    for name, column in (("ipamallocations", "ipam_subnet_id"), ("ipamallocationpools", "ipam_subnet_id")):
        table = target.table(name)
        target.connection.execute(sa.delete(table).where(table.c[column].in_(ids)))
    target.connection.execute(sa.delete(subnet_table).where(subnet_table.c.id.in_(ids)))


# --- segmentation ids, numbers ----------------------------------------------------------------------------------------


def _allocate(target: Target, segment: Object, *, allocated: bool) -> None:
    """Mark the id of a segment; one beyond the configured ranges has a row while it is in use."""
    kind, physical = segment["network_type"], segment["physical_network"]
    if kind == "flat":
        table = target.table(_FLAT)
        target.connection.execute(sa.delete(table).where(table.c.physical_network == physical))
        if allocated:
            target.connection.execute(sa.insert(table).values(physical_network=physical))
        return
    if kind not in ALLOCATIONS or segment["segmentation_id"] is None:
        return
    name, column = ALLOCATIONS[kind]
    table = target.table(name)
    key = {column: segment["segmentation_id"], **({"physical_network": physical} if kind == "vlan" else {})}
    same = sa.and_(*(table.c[part] == value for part, value in key.items()))
    exists = target.connection.execute(sa.select(sa.literal(1)).select_from(table).where(same)).first()
    if exists:
        target.connection.execute(sa.update(table).where(same).values(allocated=allocated))
    elif allocated:
        target.connection.execute(sa.insert(table).values(**key, allocated=True))


def _number_tap(target: Target, service: str) -> None:
    """Give a tap service one of the free numbers."""
    table = target.table(_TAPS)
    free = sa.select(sa.func.min(table.c.taas_id)).where(table.c.tap_service_id.is_(None))
    number = target.connection.execute(free).scalar()
    if number is not None:
        taken = sa.update(table).where(table.c.taas_id == number).values(tap_service_id=service)
        target.connection.execute(taken)
