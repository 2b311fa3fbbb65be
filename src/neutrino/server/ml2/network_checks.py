"""What stands against a change of a network: questions to the database."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.db import tables as t

Object = dict[str, Any]
_c = t.networks.c
MIN_MTU = {4: 68, 6: 1280}


def subnet_versions(connection: Connection, network_id: str) -> list[int]:
    return list(
        connection.execute(
            sa.select(t.subnets.c.ip_version).where(t.subnets.c.network_id == network_id).distinct()
        ).scalars()
    )


def check_mtu(network_id: str, mtu: int, versions: Collection[int]) -> None:
    """Whether subnets of these IP versions have a place on a network; one without subnets may have any MTU."""
    least = max((MIN_MTU[version] for version in versions), default=0)
    if 0 < mtu < least:
        raise errors.NetworkMTUSubnetConflict(id=network_id, mtu=mtu, least=least)


def used_by_others(connection: Connection, network: Object) -> bool:
    """Whether a project that sees the network only because it is shared with all has ports on it."""
    p, r = t.ports.c, t.rbac_policies.c
    own_way = sa.exists(
        sa.select(r.id).where(
            r.object_id == network["id"], r.action == sharing.SHARED, r.target_project == p.project_id
        )
    )
    found = connection.execute(
        sa.select(p.id)
        .where(
            p.network_id == network["id"],
            p.project_id.not_in([network["project_id"], ""]),
            p.device_owner.not_like("network:%"),
            sa.not_(own_way),
        )
        .limit(1)
    )
    return found.first() is not None


def check_no_ha_network(connection: Connection, project_id: str) -> None:
    h = t.ha_networks.c
    if connection.execute(sa.select(h.network_id).where(h.project_id == project_id)).first() is not None:
        raise errors.DuplicatedHANetwork(project_id=project_id)


def check_only_default(connection: Connection, key: str) -> None:
    other = connection.execute(sa.select(_c.id).where(_c.is_default, _c.external, _c.id != key).limit(1)).scalar()
    if other is not None:
        raise errors.DefaultExternalNetworkExists(net_id=other)


def turns_internal(before: Object, values: Object) -> bool:
    return bool(before["router:external"]) and values.get("router:external") is False


def has_gateways(connection: Connection, network: Object, spare: Collection[str]) -> bool:
    p = t.ports.c
    found = connection.execute(
        sa.select(p.id).where(
            p.network_id == network["id"], p.device_owner.in_(["network:router_gateway", "network:floatingip"])
        )
    )
    return any(port_id not in spare for port_id in found.scalars())
