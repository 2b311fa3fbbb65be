"""NDP proxies: the API.

Hosts get the proxies of a router as a part of it. A proxy is written on its router's revision, so that a concurrent
request cannot remove the gateway or the interface that it needs.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import (
    AddressScopeConflict,
    InvalidAddress,
    NDPProxyNotFound,
    NeutronDbObjectDuplicateEntry,
    PortUnreachableRouter,
    RouterNDPProxyNotEnable,
)
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.ndp import ipv6_scope
from neutrino.features.router.routers.router_ports import read_ports
from neutrino.features.router.tables import ndp_proxies, routers
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.collection import OneByOneCollection
from neutrino.server.context import Context
from neutrino.server.db.objects import exists, fresh, update_row
from neutrino.server.db.reads import Lookup, read, scalars
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.ml2.views import PORTS

VIEW = View(ndp_proxies, not_found=NDPProxyNotFound, hidden=("tags",))
_ROUTERS_OF_PORT = Lookup(
    sa.select(ndp_proxies.c.router_id).where(ndp_proxies.c.port_id == sa.bindparam("port", type_=sa.String)), scalars
)


class NdpProxies(OneByOneCollection):
    def new(self, context: Context, values: Object) -> Object:
        return fresh(values)

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for proxy in objects:
            proxy["router"], proxy["ip_address"] = _decide(connection, context, proxy)

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is None:
            tx.record("router", (before or {})["router_id"])
        elif before is None:
            update_row(tx, routers, after["router"], {})


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """The proxies of a deleted port are deleted by their foreign key: hosts have to get their routers without them."""
    if before is None or after is not None:
        return None
    router_ids = sorted(set(read(connection, _ROUTERS_OF_PORT(port=before["id"]))))
    if not router_ids:
        return None

    def write(tx: Transaction) -> None:
        for router_id in router_ids:
            tx.record("router", router_id)

    return write


def _decide(connection: Connection, context: Context, values: Object) -> tuple[Object, str]:
    """The router of a new proxy and its address; the checks are in Neutron's order."""
    router_id, port_id = values["router_id"], values["port_id"]
    port = PORTS.get(connection, port_id, context.project_id, everyone=context.is_admin)
    there = [each for each in read_ports(connection, router_id) if each.network_id == port["network_id"]]
    if not there:
        raise PortUnreachableRouter(port_id=port_id, router_id=router_id)
    router = router_view.VIEW.get(connection, router_id, context.project_id, everyone=context.is_admin)
    if not router["enable_ndp_proxy"]:
        raise RouterNDPProxyNotEnable(router_id=router_id)
    address = _address(port, frozenset().union(*(each.subnet_ids for each in there)), values)
    outside, inside = (ipv6_scope(connection, each) for each in (router["gw_network_id"], port["network_id"]))
    if outside != inside:
        raise AddressScopeConflict(ext_address_scope=outside, internal_address_scope=inside)
    if exists(connection, ndp_proxies.c.router_id == router_id, ndp_proxies.c.ip_address == address):
        raise NeutronDbObjectDuplicateEntry(router_id=router_id, ip_address=address)
    return router, address


def _address(port: Values, subnets: frozenset[str], values: Object) -> str:
    """The requested address, or the first one on a subnet of the router."""
    own = {fixed["ip_address"]: fixed["subnet_id"] for fixed in port["fixed_ips"] if ":" in fixed["ip_address"]}
    if not own:
        msg = f"port {port['id']} has no IPv6 address"
        raise errors.BadRequest(resource="ndp_proxy", msg=msg)
    address: str | None = values["ip_address"]
    if address is None:
        chosen: str | None = next((known for known, subnet_id in own.items() if subnet_id in subnets), None)
        if chosen is None:
            raise PortUnreachableRouter(port_id=port["id"], router_id=values["router_id"])
        return chosen
    if address not in own:
        raise InvalidAddress(address=address, reason=f"This address not belong to the port {port['id']}")
    if own[address] not in subnets:
        reason = f"This address cannot reach the router {values['router_id']}"
        raise InvalidAddress(address=address, reason=reason)
    return address
