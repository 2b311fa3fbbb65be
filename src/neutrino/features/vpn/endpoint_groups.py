"""VPN endpoint groups: the API. Subnets of this cloud, or CIDRs of the other side; they cannot be changed later."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.vpn import errors
from neutrino.features.vpn.resources import CIDR, SUBNET, parse_cidr
from neutrino.features.vpn.tables import ipsec_site_connections, vpn_endpoint_subnets
from neutrino.model.objects import Object
from neutrino.server.api import types
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db.objects import exists
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.views import SUBNETS


class EndpointGroups(Collection):
    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for group in objects:
            if not group["endpoints"]:
                raise errors.MissingEndpointForEndpointGroup(group=group["name"] or group["type"])
            _check_unique(group)
            for endpoint in group["endpoints"]:
                if group["type"] == CIDR:
                    _check_cidr(endpoint)
                elif group["type"] == SUBNET:
                    _check_subnet(connection, context, endpoint)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        local, peer = ipsec_site_connections.c.local_ep_group_id, ipsec_site_connections.c.peer_ep_group_id
        used = sa.or_(local == before["id"], peer == before["id"])
        if exists(connection, used):
            raise errors.EndpointGroupInUse(id=before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is not None and before is None and after["type"] == SUBNET:
            rows = [{"endpoint_group_id": after["id"], "subnet_id": subnet} for subnet in after["endpoints"]]
            tx.insert(vpn_endpoint_subnets, rows)


def _check_unique(group: Object) -> None:
    seen = set()
    for endpoint in group["endpoints"]:
        if endpoint in seen:
            raise errors.InvalidEndpointInEndpointGroup(
                endpoint=endpoint, group_type=group["type"], why="endpoints have to be unique"
            )
        seen.add(endpoint)


def _check_cidr(endpoint: str) -> None:
    try:
        parse_cidr(endpoint)
    except types.Invalid:
        raise errors.InvalidEndpointInEndpointGroup(
            endpoint=endpoint, group_type=CIDR, why="it is not a valid CIDR"
        ) from None


def _check_subnet(connection: Connection, context: Context, endpoint: str) -> None:
    if not types.is_uuid(endpoint):
        raise errors.InvalidEndpointInEndpointGroup(endpoint=endpoint, group_type=SUBNET, why="it is not a UUID")
    if SUBNETS.load(connection, endpoint, context.project_id, everyone=context.is_admin) is None:
        raise errors.NonExistingSubnetInEndpointGroup(subnet=endpoint)
