"""The view of subnets.

Prefix delegation is a column of its own, because no subnet pool has a row for it; the API shows it as the pool
`prefix_delegation`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.access import sharing
from neutrino.server.db import tables as t
from neutrino.server.db.view import PROJECT, View, among, one_of, own_ids, shared_ids, shared_with_viewer
from neutrino.server.ipam.delegated import POOL, is_delegated

Object = dict[str, Any]
_c, _n = t.subnets.c, t.networks.c
_NETWORK_SHARED = shared_with_viewer(_c.network_id)
_EXTERNAL = sa.select(_n.external).where(_n.id == _c.network_id).scalar_subquery()
_NETWORK_PROJECT = sa.select(_n.project_id).where(_n.id == _c.network_id).scalar_subquery()
_OPENED = shared_ids(sharing.SHARED, sharing.EXTERNAL)


def _on_networks(network_ids: sa.Select[Any]) -> sa.Select[Any]:
    subnet = t.subnets.alias()
    return sa.select(subnet.c.id).where(subnet.c.network_id.in_(network_ids))


def _of_pools(values: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """The filter `subnetpool_id`, on the columns instead of the computed value, so that the index is used."""
    pools = tuple(value for value in values if value != POOL)
    wanted = [sa.and_(one_of(_c.subnetpool_id, pools), sa.not_(_c.prefix_delegated))] if pools else []
    return sa.or_(*wanted, *([_c.prefix_delegated] if POOL in values else []))


VIEW = View(
    t.subnets,
    computed={
        "subnetpool_id": sa.case((_c.prefix_delegated, sa.literal(POOL, sa.String)), else_=_c.subnetpool_id),
        "router:external": _EXTERNAL,
        "shared": _NETWORK_SHARED,
        "network:project_id": _NETWORK_PROJECT,
        "network:shared": _NETWORK_SHARED,
    },
    filters={
        "shared": lambda values: sa.or_(*(_NETWORK_SHARED if v else sa.not_(_NETWORK_SHARED) for v in values)),
        "subnetpool_id": _of_pools,
    },
    scope=sa.or_(
        _c.project_id == PROJECT,
        _NETWORK_SHARED,
        shared_with_viewer(_c.network_id, sharing.EXTERNAL),
        _c.network_id.in_(sa.select(_n.id).where(_n.project_id == PROJECT)),
    ),
    listed=among(t.subnets, own_ids(t.subnets), _on_networks(own_ids(t.networks)), _on_networks(_OPENED)),
    hidden=("network:project_id", "network:shared", "shared", "prefix_delegated"),
)


def stored(subnet: Mapping[str, Any]) -> Object:
    """A subnet as stored: with the column for prefix delegation."""
    delegated = is_delegated(subnet)
    pool = None if delegated else subnet["subnetpool_id"]
    return {**subnet, "subnetpool_id": pool, "prefix_delegated": delegated}


def subnets_of(connection: Connection, network_ids: Sequence[str]) -> dict[str, list[Object]]:
    """The subnets of some networks, in the order of their creation."""
    out: dict[str, list[Object]] = {network_id: [] for network_id in network_ids}
    if not network_ids:
        return out
    found = VIEW.load_in(connection, "network_id", network_ids)
    for subnet in sorted(found, key=lambda s: (s["created_at"], s["id"])):
        out[subnet["network_id"]].append(subnet)
    return out
