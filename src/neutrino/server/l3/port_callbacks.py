"""What becomes of routers and floating IPs when somebody changes or deletes a port.

A router's port goes with its router, and a floating IP's with the floating IP: deleting it is refused, by
whose port it is and not by its device_owner, which clients may clear. A floating IP does
not keep the port behind it from being deleted; it is then in front of nothing, and ports are no longer forwarded to it.
All of it is part of the transaction that changes the port.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.l3 import floating_view
from neutrino.server.l3.device_owners import FLOATING, GATEWAY, INTERFACES
from neutrino.server.l3.floating_ips.floating_ips import DOWN, NOWHERE, forget

Object = dict[str, Any]
Write = Callable[[Transaction], None]
_f, _fw, _r, _rp = t.floatingips.c, t.port_forwardings.c, t.routers.c, t.router_ports.c
_KEEPERS = (
    sa.select(_rp.port_id)
    .where(_rp.port_id == sa.bindparam("port"))
    .union_all(sa.select(_f.id).where(_f.floating_port_id == sa.bindparam("port")))
)
_BEHIND = (
    sa.select(_f.id, sa.literal("whole").label("how"), _f.fixed_ip_address.label("address"), sa.literal("").label("fw"))
    .where(_f.port_id == sa.bindparam("port"))
    .union_all(
        sa.select(_fw.floatingip_id, sa.literal("part"), _fw.internal_ip_address, _fw.id).where(
            _fw.internal_port_id == sa.bindparam("port")
        )
    )
)


def check_delete(connection: Connection, port: Object) -> None:
    """Refuse to delete a port that a router or a floating IP needs, whatever the port itself says of its device."""
    if is_kept(connection, port["id"]):
        raise errors.ServicePortInUse(port_id=port["id"], reason="a router or a floating IP has it")


def is_kept(connection: Connection, port_id: str) -> bool:
    """Whether a router or a floating IP has this port."""
    return connection.execute(_KEEPERS, {"port": port_id}).first() is not None


def follow(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """What is to be written along with a port's change; `after` is None when it goes."""
    if after is not None:
        _check_device(connection, context, before, after)
    if before is not None and after is not None:
        _check_device_stays(connection, context, before, after)
    if before is None:
        return None
    if after is not None and after["fixed_ips"] == before["fixed_ips"]:
        return None
    held = _owned_by_l3(connection, before) if after is None else None
    if held is not None:
        return held
    return _without_addresses(connection, context, before, after)


def _check_device(connection: Connection, context: Context, before: Object | None, after: Object) -> None:
    """Nobody makes a port that says it is of another project's router."""
    if context.is_admin or after["device_owner"] not in INTERFACES or not after["device_id"]:
        return
    if before is not None and all(before[name] == after[name] for name in ("device_id", "device_owner")):
        return
    owner = connection.execute(sa.select(_r.project_id).where(_r.id == after["device_id"])).scalar()
    if owner is not None and owner != context.project_id:
        raise errors.DeviceIDNotOwnedByTenant(device_id=after["device_id"])


def _check_device_stays(connection: Connection, context: Context, before: Object, after: Object) -> None:
    """A router's port without a device_id could be given to an instance, which would send as the router."""
    if context.is_admin or before["device_id"] == after["device_id"] or not is_kept(connection, before["id"]):
        return
    raise errors.ServicePortInUse(port_id=before["id"], reason=f"its device is {before['device_id']}")


def _without_addresses(connection: Connection, context: Context, before: Object, after: Object | None) -> Write | None:
    """Floating IPs and forwardings lose the port, or the addresses, that go."""
    kept = set() if after is None else {fixed["ip_address"] for fixed in after["fixed_ips"]}
    rows = [r for r in connection.execute(_BEHIND, {"port": before["id"]}).all() if r.address not in kept]
    if not rows:
        return None
    if after is not None and any(row.how == "whole" for row in rows):
        raise errors.BadRequest(
            resource="port", msg=f"fixed_ips of port {before['id']}: a floating IP is in front of it"
        )
    found = floating_view.VIEW.load_in(connection, "id", sorted({row.id for row in rows}))
    if not context.is_admin and any(one["project_id"] != context.project_id for one in found):
        raise errors.FipAssociated(port_id=before["id"])
    gone: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.how == "part":
            gone[row.id].add(row.fw)
    routers = _revisions(connection, [one["router_id"] for one in found if one["router_id"] is not None])

    def write(tx: Transaction) -> None:
        ids = [key for keys in gone.values() for key in keys]
        if ids:
            tx.execute(sa.delete(t.port_forwardings).where(_fw.id.in_(ids)))
        for one in found:
            tx.use("port_forwarding", one["project_id"], -len(gone[one["id"]]))
            values = _left_of(one, before["id"], gone[one["id"]])
            update_row(tx, t.floatingips, one, values)
        for router_id, revision in routers:
            tx.record("router", router_id, revision)

    return write


def _left_of(floating_ip: Object, port_id: str, gone: set[str]) -> Object:
    if floating_ip["port_id"] == port_id:
        return {**NOWHERE, "status": DOWN}
    left = [one for one in floating_ip["port_forwardings"] if one["id"] not in gone]
    return {"port_forwardings": left, "router_id": floating_ip["router_id"] if left else None}


def _owned_by_l3(connection: Connection, port: Object) -> Write | None:
    """A port of ours goes after all: a create is taken back because some driver could not carry it out."""
    if port["device_owner"] == FLOATING:
        rows = floating_view.VIEW.load_where(connection, _f.floating_port_id == port["id"])
        return (lambda tx: forget(tx, rows[0])) if rows else None
    if port["device_owner"] == GATEWAY:
        row = connection.execute(sa.select(_r.id, _r.revision_number).where(_r.gw_port_id == port["id"])).first()
        if row is not None:
            return lambda tx: _clear_gateway(tx, row.id, row.revision_number)
    return None


def _clear_gateway(tx: Transaction, router_id: str, revision: int) -> None:
    router = {"id": router_id, "revision_number": revision}
    stamp = update_row(tx, t.routers, router, {"gw_port_id": None, "gw_network_id": None})
    tx.record("router", router_id, stamp["revision_number"])


def _revisions(connection: Connection, router_ids: Sequence[str]) -> list[tuple[str, int]]:
    if not router_ids:
        return []
    rows = connection.execute(sa.select(_r.id, _r.revision_number).where(_r.id.in_(list(router_ids)))).all()
    return sorted((row.id, row.revision_number) for row in rows)
