"""A port's rows in the narrow tables: what must be unique or is searched by, written with the port's own row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.ports.binding import Binding

Object = dict[str, Any]


def insert_parts(tx: Transaction, ports: Sequence[Object]) -> None:
    addresses = [row for port in ports for row in _address_rows(port, port["fixed_ips"])]
    tx.insert(t.ip_allocations, addresses)
    groups = [{"port_id": p["id"], "security_group_id": g} for p in ports for g in p["security_groups"]]
    tx.insert(t.port_security_groups, groups)
    tags = [{"object_id": p["id"], "tag": tag} for p in ports for tag in p["tags"]]
    tx.insert(t.tags, tags)


def replace_parts(tx: Transaction, before: Object, after: Object) -> None:
    a, g = t.ip_allocations.c, t.port_security_groups.c
    gone = [f for f in before["fixed_ips"] if f not in after["fixed_ips"]]
    for fixed in gone:
        tx.execute(
            sa.delete(t.ip_allocations).where(
                a.subnet_id == fixed["subnet_id"], a.ip_address == fixed["ip_address"], a.port_id == before["id"]
            )
        )
    added = [f for f in after["fixed_ips"] if f not in before["fixed_ips"]]
    tx.insert(t.ip_allocations, _address_rows(after, added))
    left = [s for s in before["security_groups"] if s not in after["security_groups"]]
    if left:
        tx.execute(sa.delete(t.port_security_groups).where(g.port_id == before["id"], g.security_group_id.in_(left)))
    joined = [s for s in after["security_groups"] if s not in before["security_groups"]]
    tx.insert(t.port_security_groups, [{"port_id": before["id"], "security_group_id": s} for s in joined])


def binding_row(port: Mapping[str, Any], binding: Binding, status: str = "ACTIVE", host: str | None = None) -> Object:
    return {
        "port_id": port["id"],
        "host": port["binding:host_id"] if host is None else host,
        "status": status,
        "vnic_type": port["binding:vnic_type"],
        "vif_type": binding.vif_type,
        "profile": port["binding:profile"],
        "vif_details": dict(binding.vif_details),
        "levels": [dict(level) for level in binding.levels],
    }


def _address_rows(port: Object, fixed: Sequence[Object]) -> list[Object]:
    return [
        {
            "subnet_id": f["subnet_id"],
            "ip_address": f["ip_address"],
            "port_id": port["id"],
            "network_id": port["network_id"],
        }
        for f in fixed
    ]
