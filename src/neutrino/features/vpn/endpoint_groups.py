"""VPN endpoint groups: the API. Subnets of this cloud, or CIDRs of the other side; they cannot be changed later."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.vpn.collection import VpnCollection
from neutrino.features.vpn.errors import (
    EndpointGroupInUse,
    InvalidEndpointInEndpointGroup,
    MissingEndpointForEndpointGroup,
    NonExistingSubnetInEndpointGroup,
)
from neutrino.features.vpn.resources import CIDR, SUBNET, parse_cidr
from neutrino.features.vpn.tables import ipsec_site_connections, vpn_endpoint_subnets
from neutrino.features.vpn.views import ENDPOINT_GROUPS
from neutrino.model.objects import Object
from neutrino.server.api import types
from neutrino.server.context import Context
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.views import SUBNETS
from neutrino.server.quota.quotas import Quotas

_c, _es = ipsec_site_connections.c, vpn_endpoint_subnets.c


class EndpointGroups(VpnCollection):
    kind = "endpoint_group"

    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, ENDPOINT_GROUPS, quotas)

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        if before is not None:
            return
        if not after["endpoints"]:
            raise MissingEndpointForEndpointGroup(group=after["name"] or after["type"])
        _check_unique(after)
        for endpoint in after["endpoints"]:
            if after["type"] == CIDR:
                _check_cidr(endpoint)
            elif after["type"] == SUBNET:
                _check_subnet(connection, context, endpoint)

    def check_delete(self, connection: Connection, before: Object) -> None:
        used = sa.or_(_c.local_ep_group_id == before["id"], _c.peer_ep_group_id == before["id"])
        if exists(connection, used):
            raise EndpointGroupInUse(id=before["id"])

    def write_related(self, tx: Transaction, after: Object | None, before: Object | None) -> None:
        if after is not None and before is None and after["type"] == SUBNET:
            rows = [{"endpoint_group_id": after["id"], "subnet_id": subnet} for subnet in after["endpoints"]]
            tx.insert(vpn_endpoint_subnets, rows)


def _check_unique(group: Object) -> None:
    seen = set()
    for endpoint in group["endpoints"]:
        if endpoint in seen:
            raise InvalidEndpointInEndpointGroup(
                endpoint=endpoint, group_type=group["type"], why="endpoints have to be unique"
            )
        seen.add(endpoint)


def _check_cidr(endpoint: str) -> None:
    try:
        parse_cidr(endpoint)
    except types.Invalid:
        raise InvalidEndpointInEndpointGroup(endpoint=endpoint, group_type=CIDR, why="it is not a valid CIDR") from None


def _check_subnet(connection: Connection, context: Context, endpoint: str) -> None:
    if not types.is_uuid(endpoint):
        raise InvalidEndpointInEndpointGroup(endpoint=endpoint, group_type=SUBNET, why="it is not a UUID")
    if SUBNETS.load(connection, endpoint, context.project_id, everyone=context.is_admin) is None:
        raise NonExistingSubnetInEndpointGroup(subnet=endpoint)
