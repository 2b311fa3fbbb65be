"""Onboarding: the existing subnets of a network become subnets of a pool, and so members of its address scope.

All subnets of a network and IP version are in one pool or in none, so they move together. They may come from another pool,
which keeps its prefixes. It is a change of the network and its subnets: the owner of the network asks for it, or an
administrator; that others see the network is not enough.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam import prefixes
from neutrino.server.ml2.views import NETWORKS

_SUBNETS = sa.select(
    t.subnets.c.id, t.subnets.c.project_id, t.subnets.c.revision_number, t.subnets.c.cidr, t.subnets.c.prefix_delegated
).order_by(t.subnets.c.id)


def read(connection: Connection, context: Context, network_id: str, ip_version: int) -> tuple[Object, Sequence[Object]]:
    """The network, and those of its subnets that are onboarded."""
    network = NETWORKS.get(connection, network_id, context.project_id, everyone=context.is_admin)
    if network["project_id"] != context.project_id and not context.is_admin:
        raise errors.NotAuthorized(f"Network {network_id} belongs to another project, whose subnets it has.")
    rows = connection.execute(
        _SUBNETS.where(t.subnets.c.network_id == network_id, t.subnets.c.ip_version == ip_version)
    )
    return network, [dict(row) for row in rows.mappings()]


def check_subnets(pool: Object, subnets: Sequence[Object], used: Iterable[str]) -> None:
    """Refuse subnets that overlap with those of the pool, of which one that is in it already is an example."""
    taken = list(used)
    for subnet in subnets:
        if subnet["prefix_delegated"]:
            raise errors.IllegalSubnetPoolUpdate(reason=f"subnet {subnet['id']} has its prefix by prefix delegation")
        if prefixes.overlap(taken, [subnet["cidr"]]):
            raise errors.IllegalSubnetPoolUpdate(
                reason=f"{subnet['cidr']} of subnet {subnet['id']} overlaps with subnets of the pool {pool['id']}"
            )


def write(tx: Transaction, pool: Object, network: Object, subnets: Sequence[Object]) -> None:
    # A subnet that was added to the network since raised its revision: it would stay outside.
    update_row(tx, t.networks, network, {f"ipv{pool['ip_version']}_address_scope": pool["address_scope_id"]})
    for subnet in subnets:
        update_row(tx, t.subnets, subnet, {"subnetpool_id": pool["id"]})
