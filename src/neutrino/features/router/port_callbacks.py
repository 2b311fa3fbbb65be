"""Reactions of routers and floating IPs to changes of ports and networks, in the transaction of that change.

Ports of routers and floating IPs are deleted only together with these. `router_ports` and `floatingips` record whose port
it is, not `device_owner`, which clients may clear. A floating IP does not prevent its port from being deleted: it is
disassociated, and forwardings to the port are deleted.
"""

from collections import defaultdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import DeviceIDNotOwnedByTenant, FipAssociated
from neutrino.features.router.floating_ips import floating_ips
from neutrino.features.router.floating_ips.floating_ips import DOWN, NOT_ASSOCIATED
from neutrino.features.router.tables import floatingips, port_forwardings, router_ports, routers
from neutrino.model.device_owners import FLOATING, GATEWAY, HA_PORT, INTERFACES, SNAT
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, exists, update_row
from neutrino.server.db.reads import Lookup, RowsLookup, first, read
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.uses import UnusedPorts

FIXED_ADDRESSES = (*INTERFACES, HA_PORT, SNAT)
REFERENCES = (
    router_ports.c.port_id,
    floatingips.c.floating_port_id,
    floatingips.c.port_id,
    port_forwardings.c.internal_port_id,
)  # to ports that are in use here
# Gateway and floating IP ports belong to no project; the router or floating IP names the one that uses them.
EXTERNAL_USERS = (
    (
        routers.c.project_id,
        t.ports.c.network_id,
        router_ports.c.router_id == routers.c.id,
        router_ports.c.port_id == t.ports.c.id,
        router_ports.c.port_type == GATEWAY,
    ),
    (floatingips.c.project_id, floatingips.c.floating_network_id),
)
_PORT = sa.bindparam("port", type_=sa.String)
_USERS = Lookup(
    sa.select(router_ports.c.port_id)
    .where(router_ports.c.port_id == _PORT)
    .union_all(sa.select(floatingips.c.id).where(floatingips.c.floating_port_id == _PORT)),
    first,
)
_ROUTER_OF = (
    sa.select(routers.c.id, routers.c.revision_number, routers.c.gw_port_id, routers.c.extra_gw_port_ids)
    .join(router_ports, router_ports.c.router_id == routers.c.id)
    .where(router_ports.c.port_id == _PORT)
)
# What translates to a port: floating IPs (without a forwarding's id) and port forwardings, with the port's address.
_TRANSLATIONS = RowsLookup(
    sa.select(floatingips.c.id, floatingips.c.fixed_ip_address.label("address"), sa.literal("").label("forwarding_id"))
    .where(floatingips.c.port_id == _PORT)
    .union_all(
        sa.select(
            port_forwardings.c.floatingip_id, port_forwardings.c.internal_ip_address, port_forwardings.c.id
        ).where(port_forwardings.c.internal_port_id == _PORT)
    )
)


def check_delete(connection: Connection, port: Object) -> None:
    """Deletion guard: refuse to delete a port that a router or a floating IP uses."""
    if is_in_use(connection, port["id"]):
        raise errors.ServicePortInUse(port_id=port["id"], reason="a router or a floating IP uses it")


def is_in_use(connection: Connection, port_id: str) -> bool:
    """Whether a router or a floating IP uses this port."""
    return read(connection, _USERS(port=port_id)) is not None


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """Before a port is created, updated or deleted: refuse it, or give what is written in the same transaction."""
    if after is not None:
        _check_device(connection, context, before, after)
    if before is None or (after is not None and after["fixed_ips"] == before["fixed_ips"]):
        return None
    if after is not None and _has_fixed_addresses(connection, before):
        raise errors.BadRequest(
            resource="port", msg=f"fixed_ips of port {before['id']}: the addresses of a router's port cannot be changed"
        )
    # A deleted port of a floating IP or gateway: deletes by request are refused by `check_delete` before.
    taken_back = _take_back(connection, before) if after is None else None
    return taken_back or _remove_translations(connection, context, before, after)


def _has_fixed_addresses(connection: Connection, port: Object) -> bool:
    """Whether it is a router's port inside: the routes of others, and the gateways of subnets, are its addresses."""
    is_routers = router_ports.c.port_id == port["id"], router_ports.c.port_type.in_(FIXED_ADDRESSES)
    return port["device_owner"] in FIXED_ADDRESSES or exists(connection, *is_routers)


def _check_device(connection: Connection, context: Context, before: Object | None, after: Object) -> None:
    if context.is_admin:
        return
    names = ("device_id", "device_owner")
    changed = before is None or any(before[name] != after[name] for name in names)
    if changed and after["device_owner"] in INTERFACES and after["device_id"]:
        # A tenant must not attach a port to another project's router.
        owner = connection.execute(sa.select(routers.c.project_id).where(routers.c.id == after["device_id"])).scalar()
        if owner is not None and owner != context.project_id:
            raise DeviceIDNotOwnedByTenant(device_id=after["device_id"])
    if before is not None and before["device_id"] != after["device_id"] and is_in_use(connection, before["id"]):
        # A router's port without device_id could be given to an instance, which would then send as the router.
        raise errors.ServicePortInUse(port_id=before["id"], reason=f"its device is {before['device_id']}")


def _remove_translations(
    connection: Connection, context: Context, before: Object, after: Object | None
) -> Write | None:
    """Disassociate floating IPs and delete forwardings of a deleted port, or of addresses that it loses."""
    remaining = set() if after is None else {fixed["ip_address"] for fixed in after["fixed_ips"]}
    rows = [r for r in read(connection, _TRANSLATIONS(port=before["id"])) if r.address not in remaining]
    if not rows:
        return None
    if after is not None and any(not row.forwarding_id for row in rows):
        raise errors.BadRequest(
            resource="port", msg=f"fixed_ips of port {before['id']}: a floating IP is associated with it"
        )
    translating = floating_ips.VIEW.load_in(connection, "id", sorted({row.id for row in rows}))
    # An administrator may have associated it: a tenant must not release another project's floating IP with its own port.
    if not context.is_admin and any(one["project_id"] != context.project_id for one in translating):
        raise FipAssociated(port_id=before["id"])
    gone: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.forwarding_id:
            gone[row.id].add(row.forwarding_id)
    router_ids = sorted({one["router_id"] for one in translating if one["router_id"]})

    def write(tx: Transaction) -> None:
        ids = [key for keys in gone.values() for key in keys]
        if ids:
            tx.write(sa.delete(port_forwardings).where(port_forwardings.c.id.in_(ids)))
        for one in translating:
            tx.use("port_forwarding", one["project_id"], -len(gone[one["id"]]))
            for key in gone[one["id"]]:
                tx.log(port_forwardings, {"id": key, "project_id": one["project_id"]}, deleted=True)
            update_row(tx, floatingips, one, _without(one, before["id"], gone[one["id"]]))
        for router_id in router_ids:  # hosts get floating IPs as a part of their router
            tx.record("router", router_id)

    return write


def _without(floating_ip: Object, port_id: str, forwardings: set[str]) -> Object:
    """The columns of a floating IP without the port and these forwardings."""
    if floating_ip["port_id"] == port_id:
        return {**NOT_ASSOCIATED, "status": DOWN}
    left = [one for one in floating_ip["port_forwardings"] if one["id"] not in forwardings]
    return floating_ips.with_forwardings(floating_ip, left)


def _take_back(connection: Connection, port: Object) -> Write | None:
    """A port of a floating IP or a gateway is deleted because a mechanism driver failed to create it: so is its owner."""
    if port["device_owner"] == FLOATING:
        rows = floating_ips.VIEW.load_where(connection, floatingips.c.floating_port_id == port["id"])
        return (lambda tx: sharing.delete_object(tx, floatingips, rows[0])) if rows else None
    if port["device_owner"] == GATEWAY:
        row = connection.execute(_ROUTER_OF, {"port": port["id"]}).first()
        if row is not None:
            left = _gateways_without(connection, row._asdict(), port["id"])
            return lambda tx: update_row(tx, routers, row._asdict(), left)
    return None


def _gateways_without(connection: Connection, router: Values, port_id: str) -> Object:
    """The columns of a router without this gateway: the next one becomes the first."""
    ids = [router["gw_port_id"], *decode(router["extra_gw_port_ids"])]
    left = [gateway_id for gateway_id in ids if gateway_id not in (None, port_id)]
    first = (
        connection.execute(sa.select(t.ports.c.network_id).where(t.ports.c.id == left[0])).scalar() if left else None
    )
    return {"gw_port_id": left[0] if left else None, "gw_network_id": first, "extra_gw_port_ids": left[1:]}


def find_unused(connection: Connection, network: Object) -> UnusedPorts | None:
    """A network is deleted or becomes internal: its unused floating IPs, and their ports, are deleted with it."""
    if not network["router:external"]:
        return None
    rows = connection.execute(
        sa.select(
            floatingips.c.id, floatingips.c.project_id, floatingips.c.revision_number, floatingips.c.floating_port_id
        ).where(
            floatingips.c.floating_network_id == network["id"],
            floatingips.c.port_id.is_(None),
            floatingips.c.router_id.is_(None),
        )
    ).all()
    if not rows:
        return None
    ids = [row.floating_port_id for row in rows]
    ports = connection.execute(
        sa.select(t.ports.c.id, t.ports.c.project_id, t.ports.c.revision_number).where(t.ports.c.id.in_(ids))
    ).all()

    def write(tx: Transaction) -> None:
        for row in rows:
            sharing.delete_object(tx, floatingips, row._asdict())

    return UnusedPorts(ports, write)
