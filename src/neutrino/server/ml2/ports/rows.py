"""Rows of a port in the narrow tables: addresses, security groups and tags, written with the port's own row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.transaction import Transaction

Object = dict[str, Any]


def insert_parts(tx: Transaction, ports: Sequence[Object]) -> None:
    tx.insert(t.ip_allocations, [row for port in ports for row in _address_rows(port, port["fixed_ips"])])
    groups = [{"port_id": p["id"], "security_group_id": g} for p in ports for g in p["security_groups"]]
    tx.insert(t.port_security_groups, groups)
    tx.insert(t.tags, [{"object_id": p["id"], "tag": tag} for p in ports for tag in p["tags"]])


def replace_parts(tx: Transaction, before: Object, after: Object) -> None:
    """Only the difference: rows that stay are not written, so they are not locked for others either."""
    a, g = t.ip_allocations.c, t.port_security_groups.c
    for fixed in before["fixed_ips"]:
        if fixed not in after["fixed_ips"]:
            where = [a.subnet_id == fixed["subnet_id"], a.ip_address == fixed["ip_address"], a.port_id == before["id"]]
            tx.execute(sa.delete(t.ip_allocations).where(*where))
    tx.insert(t.ip_allocations, _address_rows(after, [f for f in after["fixed_ips"] if f not in before["fixed_ips"]]))
    removed = [s for s in before["security_groups"] if s not in after["security_groups"]]
    if removed:
        tx.execute(sa.delete(t.port_security_groups).where(g.port_id == before["id"], g.security_group_id.in_(removed)))
    added = [s for s in after["security_groups"] if s not in before["security_groups"]]
    tx.insert(t.port_security_groups, [{"port_id": before["id"], "security_group_id": s} for s in added])


def _address_rows(port: Object, fixed_ips: Sequence[Object]) -> list[Object]:
    return [{**fixed, "port_id": port["id"], "network_id": port["network_id"]} for fixed in fixed_ips]
