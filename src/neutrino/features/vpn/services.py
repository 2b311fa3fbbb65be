"""VPN services: the API. A service makes a router the local end of IPsec site connections: tunnels end at its gateway."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.flavors.collection import check_flavor
from neutrino.features.flavors.resources import VPN
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.tables import router_ports, routers
from neutrino.features.vpn import checks
from neutrino.features.vpn.errors import RouterIsNotExternal, SubnetIsNotConnectedToRouter, VPNServiceInUse
from neutrino.features.vpn.tables import ipsec_site_connections, vpnservices
from neutrino.model.device_owners import INTERFACES
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.transaction import Transaction
from neutrino.server.host_limits import check_most

PENDING_CREATE, PENDING_UPDATE = "PENDING_CREATE", "PENDING_UPDATE"  # other statuses are reported by hosts


class VpnServices(Collection):
    def new(self, context: Context, values: Object) -> Object:
        return {**super().new(context, values), "status": PENDING_CREATE}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for service in objects:
            router_id, subnet_id = service["router_id"], service["subnet_id"]
            router = router_view.VIEW.get_visible(connection, context, router_id)
            if router["gw_network_id"] is None:
                raise RouterIsNotExternal(router_id=router_id)
            if subnet_id is not None and not is_connected(connection, router_id, subnet_id):
                raise SubnetIsNotConnectedToRouter(subnet_id=subnet_id, router_id=router_id)
            if service["flavor_id"] is not None:
                check_flavor(connection, service["flavor_id"], VPN)
            addresses = sorted(fixed["ip_address"] for fixed in router["gateway_ips"])
            service["external_v4_ip"] = next((address for address in addresses if ":" not in address), None)
            service["external_v6_ip"] = next((address for address in addresses if ":" in address), None)

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if exists(connection, ipsec_site_connections.c.vpnservice_id == before["id"]):
            raise VPNServiceInUse(id=before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        router_id = (after or before or {})["router_id"]
        change_router(tx, router_id, is_needed=before is None)
        if before is None:  # counted after the router was changed: creates of one router exclude each other
            number = tx.execute(sa.select(sa.func.count()).where(vpnservices.c.router_id == router_id)).scalar_one()
            check_most("Router", router_id, number, "VPN services", checks.MAX_PER_ROUTER)


def change_router(tx: Transaction, router_id: str, *, is_needed: bool) -> None:
    """Hosts get services and connections as parts of the router.

    `is_needed`: a new one needs the router's gateway and interfaces. A request that removes one of these has the router's
    revision as its condition: with another revision it is decided again, and refused.
    """
    tx.record("router", router_id)
    if is_needed:
        next_one = {"revision_number": routers.c.revision_number + 1}
        tx.change(
            sa.update(routers).where(routers.c.id == router_id, routers.c.gw_network_id.is_not(None)).values(next_one)
        )


def is_connected(connection: Connection, router_id: str, subnet_id: str) -> bool:
    """Whether the router has an interface on the subnet."""
    interface = router_ports.c.router_id == router_id, router_ports.c.port_type.in_(INTERFACES)
    return exists(
        connection,
        *interface,
        t.ip_allocations.c.port_id == router_ports.c.port_id,
        t.ip_allocations.c.subnet_id == subnet_id,
    )


def ip_versions(connection: Connection, subnets: Sequence[str]) -> dict[str, int]:
    """The IP versions of subnets by their ids."""
    rows = connection.execute(sa.select(t.subnets.c.id, t.subnets.c.ip_version).where(t.subnets.c.id.in_(subnets)))
    return {row.id: row.ip_version for row in rows}
