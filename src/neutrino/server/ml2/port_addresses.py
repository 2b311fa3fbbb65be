"""The addresses of ports: what a request asks for, and what an update leaves and makes anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.ipam.allocation import ROUTER_OWNERS, Allocator, Fixed, wanted_by_default, wanted_by_request
from neutrino.server.ipam.subnet_rules import is_auto_address
from neutrino.server.ml2.subnet_view import subnets_of

Object = dict[str, Any]


def new_addresses(
    port: Mapping[str, Any],
    asked: Sequence[Object] | None,
    subnets: Sequence[Object],
    known: Mapping[str, bool],
    allocator: Allocator,
) -> list[Object]:
    """For a new port. `subnets` are its network's; `known`: `known_elsewhere`."""
    mac, owner = port["mac_address"], port["device_owner"]
    if asked is None:
        wanted = wanted_by_default(subnets, mac, owner)
    else:
        wanted = wanted_by_request(asked, subnets, mac, owner, known)
    return _shown(allocator.allocate(wanted, port["network_id"]))


def addresses_after(
    connection: Connection, before: Object, after: Object, asked: Sequence[Mapping[str, Any]] | None
) -> list[Object]:
    """Those that are named are kept or found, those formed from the MAC follow it. `asked` None: only the MAC is new."""
    network_id, owner = before["network_id"], after["device_owner"]
    subnets = subnets_of(connection, [network_id])[network_id]
    automatic = {s["id"] for s in subnets if is_auto_address(s) and owner not in ROUTER_OWNERS}
    kept = [f for f in before["fixed_ips"] if f["subnet_id"] not in automatic]
    if asked is None:
        asked = [f if f in kept else {"subnet_id": f["subnet_id"]} for f in before["fixed_ips"]]
    wish = _keeping(asked, kept)
    known = known_elsewhere(connection, wish, {s["id"] for s in subnets})
    wanted = wanted_by_request(wish, subnets, after["mac_address"], owner, known)
    has = frozenset(Fixed(f["subnet_id"], f["ip_address"]) for f in before["fixed_ips"])
    return _shown(Allocator(connection).allocate(wanted, network_id, has))


def known_elsewhere(connection: Connection, asked: Sequence[Mapping[str, Any]], here: set[str]) -> dict[str, bool]:
    """Of the subnets that requests name and that are not on their network: which exist at all."""
    elsewhere = {fixed["subnet_id"] for fixed in asked if "subnet_id" in fixed} - here
    if not elsewhere:
        return {}
    rows = connection.execute(sa.select(t.subnets.c.id).where(t.subnets.c.id.in_(list(elsewhere)))).scalars()
    return dict.fromkeys(rows, True)


def _shown(fixed: Sequence[Fixed]) -> list[Object]:
    return [{"subnet_id": f.subnet_id, "ip_address": f.ip_address} for f in fixed]


def _keeping(wish: Sequence[Mapping[str, Any]], has: Sequence[Object]) -> list[Object]:
    """A wish for any address of a subnet is met by one that the port already has there."""
    free = [f for f in has if f not in wish]
    out = []
    for fixed in wish:
        if "subnet_id" in fixed and "ip_address" not in fixed:
            same = next((f for f in free if f["subnet_id"] == fixed["subnet_id"]), None)
            if same is not None:
                free.remove(same)
                fixed = same
        out.append(dict(fixed))
    return out
