"""A router's ports and agents, read once for a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t

_rp, _p, _a, _s = t.router_ports.c, t.ports.c, t.ip_allocations.c, t.subnets.c
_b, _g = t.router_l3_agents.c, t.agents.c
_PORTS = (
    sa.select(_rp.port_id, _rp.port_type, _p.network_id, _p.host, _p.vif_type, _a.subnet_id, _a.ip_address, _s.cidr)
    .select_from(
        t.router_ports.join(t.ports, _p.id == _rp.port_id)
        .outerjoin(t.ip_allocations, _a.port_id == _p.id)
        .outerjoin(t.subnets, _s.id == _a.subnet_id)
    )
    .where(_rp.router_id == sa.bindparam("router"))
    .order_by(_rp.port_id, _a.ip_address)
)
_AGENTS = (
    sa.select(_b.agent_id, _g.host, _b.ha_port_id, _b.ha_state)
    .select_from(t.router_l3_agents.join(t.agents))
    .where(_b.router_id == sa.bindparam("router"))
    .order_by(_b.agent_id)
)


@dataclass(frozen=True, slots=True)
class Address:
    subnet_id: str
    ip_address: str
    cidr: str


@dataclass(frozen=True, slots=True)
class RouterPort:
    """One port of a router; `type` is what it was made for."""

    id: str
    type: str
    network_id: str
    host: str
    vif_type: str
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class Serving:
    """An agent that has a router."""

    agent_id: str
    host: str
    ha_port_id: str | None = None
    ha_state: str | None = None


def read_ports(connection: Connection, router_id: str) -> tuple[RouterPort, ...]:
    found: dict[str, RouterPort] = {}
    addresses: dict[str, list[Address]] = {}
    for row in connection.execute(_PORTS, {"router": router_id}):
        found[row.port_id] = RouterPort(row.port_id, row.port_type, row.network_id, row.host, row.vif_type)
        if row.subnet_id is not None:
            addresses.setdefault(row.port_id, []).append(Address(row.subnet_id, row.ip_address, row.cidr))
    return tuple(
        RouterPort(p.id, p.type, p.network_id, p.host, p.vif_type, tuple(addresses.get(p.id, ())))
        for p in found.values()
    )


def read_agents(connection: Connection, router_id: str) -> tuple[Serving, ...]:
    return tuple(Serving(*row) for row in connection.execute(_AGENTS, {"router": router_id}))


def router_port_row(router_id: str, port_id: str, port_type: str) -> dict[str, Any]:
    return {"router_id": router_id, "port_id": port_id, "port_type": port_type}


def cidrs_of(ports: Sequence[RouterPort]) -> list[str]:
    return [address.cidr for port in ports for address in port.addresses]
