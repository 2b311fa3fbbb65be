"""Ports that are affected by a change of a subnet: SLAAC addresses that come and go with it, ports that block a change.

The addresses on a SLAAC subnet are formed by the guests from the prefix and their MAC. Every port of the network gets its
address when the subnet is created and loses it when the subnet is deleted, except ports of routers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, update_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.allocation import ROUTER_OWNERS
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address
from neutrino.server.ml2.networks import AUTO_DELETED

Object = Mapping[str, Any]
NameFor = Callable[[str, str], dict[str, str]]  # (dns_name, address): the address's entry in a port's dns_assignment
_a, _p = t.ip_allocations.c, t.ports.c


def ports_to_address(connection: Connection, subnet: Object) -> Sequence[Any]:
    """Ports of the network that get an address on a new subnet, which is a SLAAC subnet."""
    if not is_auto_address(subnet):
        return ()
    return connection.execute(
        sa.select(_p.id, _p.mac_address, _p.fixed_ips, _p.dns_assignment, _p.dns_name, _p.revision_number).where(
            _p.network_id == subnet["network_id"],
            _p.ip_allocation != "none",
            _p.device_owner.not_in(ROUTER_OWNERS),
        )
    ).all()


def add_slaac_addresses(tx: Transaction, subnet: Object, ports: Sequence[Any], name_for: NameFor) -> None:
    for port in ports:
        fixed = {"subnet_id": subnet["id"], "ip_address": eui64(subnet["cidr"], port.mac_address)}
        tx.insert(t.ip_allocations, [{**fixed, "port_id": port.id, "network_id": subnet["network_id"]}])
        names = [*decode(port.dns_assignment), name_for(port.dns_name, fixed["ip_address"])]
        _store(tx, port, [*decode(port.fixed_ips), fixed], names)


def remove_addresses(tx: Transaction, subnet: Object, ports: Sequence[Any]) -> None:
    ids = [port.id for port in ports]
    tx.execute(sa.delete(t.ip_allocations).where(_a.subnet_id == subnet["id"], _a.port_id.in_(ids)))
    for port in ports:
        fixed_ips = decode(port.fixed_ips)
        removed = {f["ip_address"] for f in fixed_ips if f["subnet_id"] == subnet["id"]}
        names = [n for n in decode(port.dns_assignment) if n["ip_address"] not in removed]
        _store(tx, port, [f for f in fixed_ips if f["subnet_id"] != subnet["id"]], names)


def _store(tx: Transaction, port: Any, fixed_ips: list[Any], names: list[Any]) -> None:
    # Stale if another request changed the port's addresses meanwhile: ours would overwrite them.
    before = {"id": port.id, "revision_number": port.revision_number}
    update_row(tx, t.ports, before, {"fixed_ips": fixed_ips, "dns_assignment": names})


def check_gateway_unused(connection: Connection, subnet: Object) -> None:
    """Refuse another gateway while a router has the present gateway's address."""
    if subnet["gateway_ip"] is None:
        return
    holder = connection.execute(
        sa.select(_p.id).where(
            _a.port_id == _p.id,
            _a.subnet_id == subnet["id"],
            _a.ip_address == subnet["gateway_ip"],
            _p.device_owner.in_(ROUTER_OWNERS),
            _p.device_id != "",
        )
    ).scalar()
    if holder is not None:
        raise errors.GatewayIpInUse(gateway=subnet["gateway_ip"], port=holder)


def ports_on(connection: Connection, subnet: Object) -> tuple[list[Any], list[Any]]:
    """Ports that are deleted with a subnet, and ports that lose their address; refused if any other port uses it."""
    rows = connection.execute(
        sa.select(_p.id, _p.device_owner, _p.project_id, _p.revision_number, _p.fixed_ips, _p.dns_assignment)
        .where(_a.port_id == _p.id, _a.subnet_id == subnet["id"])
        .distinct()
    ).all()
    slaac = is_auto_address(subnet)
    deleted: list[Any] = []
    readdressed: list[Any] = []
    for row in rows:
        elsewhere = any(fixed["subnet_id"] != subnet["id"] for fixed in decode(row.fixed_ips))
        if row.device_owner in AUTO_DELETED:
            (readdressed if elsewhere else deleted).append(row)
        elif slaac and row.device_owner not in ROUTER_OWNERS:
            readdressed.append(row)
        else:
            raise errors.SubnetInUse(id=subnet["id"], reason=f"port {row.id} has an address from it")
    return deleted, readdressed
