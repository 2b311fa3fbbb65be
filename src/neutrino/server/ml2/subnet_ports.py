"""Who has addresses on a subnet, and so what stands in the way of changing or deleting it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode
from neutrino.server.ipam import subnet_rules as rules
from neutrino.server.ipam.allocation import ROUTER_OWNERS
from neutrino.server.ml2.networks import AUTO_DELETED

Object = dict[str, Any]


def check_gateway_unused(connection: Connection, subnet: Object) -> None:
    """A router that holds the gateway's address keeps the gateway where it is."""
    if subnet["gateway_ip"] is None:
        return
    a, p = t.ip_allocations.c, t.ports.c
    holder = connection.execute(
        sa.select(p.id).where(
            a.port_id == p.id,
            a.subnet_id == subnet["id"],
            a.ip_address == subnet["gateway_ip"],
            p.device_owner.in_(ROUTER_OWNERS),
            p.device_id != "",
        )
    ).scalar()
    if holder is not None:
        raise errors.GatewayIpInUse(gateway=subnet["gateway_ip"], port=holder)


def ports_on(connection: Connection, subnet: Object) -> tuple[list[Any], list[Any]]:
    """The service's own ports, which go with the subnet, and ports that lose an address they formed themselves."""
    a, p = t.ip_allocations.c, t.ports.c
    rows = connection.execute(
        sa.select(p.id, p.device_owner, p.project_id, p.revision_number, p.fixed_ips, p.dns_assignment)
        .where(a.port_id == p.id, a.subnet_id == subnet["id"])
        .distinct()
    ).all()
    automatic = rules.is_auto_address(subnet)
    going: list[Any] = []
    losing: list[Any] = []
    for row in rows:
        elsewhere = any(fixed["subnet_id"] != subnet["id"] for fixed in decode(row.fixed_ips))
        if row.device_owner in AUTO_DELETED:
            (losing if elsewhere else going).append(row)
        elif automatic and row.device_owner not in ROUTER_OWNERS:
            losing.append(row)
        else:
            raise errors.SubnetInUse(id=subnet["id"], reason=f"port {row.id} has an address from it")
    return going, losing
