"""VPN services: the API. A service makes a router the local end of IPsec site connections: tunnels end at its gateway."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.routers import view as router_view
from neutrino.features.vpn.collection import VpnCollection
from neutrino.features.vpn.errors import RouterIsNotExternal, SubnetIsNotConnectedToRouter, VPNServiceInUse
from neutrino.features.vpn.tables import ipsec_site_connections, vpnservices
from neutrino.features.vpn.views import SERVICES
from neutrino.model.device_owners import INTERFACES
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.resources.flavor import VPN
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.l3.flavors import check_flavor
from neutrino.server.quota.quotas import Quotas

PENDING_CREATE, PENDING_UPDATE = "PENDING_CREATE", "PENDING_UPDATE"  # other statuses are reported by hosts
# Quotas are unlimited by default, as in Neutron, but a host gets all VPN objects of a router in one message.
MAX_PER_ROUTER = 500
_c, _v, _rp = ipsec_site_connections.c, vpnservices.c, t.router_ports.c
_al, _s, _r = t.ip_allocations.c, t.subnets.c, t.routers.c
_NUMBERS = sa.select(_v.router_id, sa.func.count().label("number")).group_by(_v.router_id)


class VpnServices(VpnCollection):
    kind = "vpnservice"

    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, SERVICES, quotas)

    def prepared(self, context: Context, values: Object, before: Object | None = None) -> Object:
        if before is None:
            values["status"] = PENDING_CREATE
        return values

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        if before is not None:
            return
        router_id, subnet_id = after["router_id"], after["subnet_id"]
        router = router_view.VIEW.get(connection, router_id, context.project_id, everyone=context.is_admin)
        if router["gw_network_id"] is None:
            raise RouterIsNotExternal(router_id=router_id)
        if subnet_id is not None and not is_connected(connection, router_id, subnet_id):
            raise SubnetIsNotConnectedToRouter(subnet_id=subnet_id, router_id=router_id)
        if after["flavor_id"] is not None:
            check_flavor(connection, after["flavor_id"], VPN)
        addresses = sorted(fixed["ip_address"] for fixed in router["gateway_ips"])
        after["external_v4_ip"] = next((each for each in addresses if ":" not in each), None)
        after["external_v6_ip"] = next((each for each in addresses if ":" in each), None)

    def check_delete(self, connection: Connection, before: Object) -> None:
        if exists(connection, _c.vpnservice_id == before["id"]):
            raise VPNServiceInUse(id=before["id"])

    def write_related(self, tx: Transaction, after: Object | None, before: Object | None) -> None:
        service = after or before
        assert service is not None, "a write is of some service"
        change_router(tx, service["router_id"], is_needed=before is None)

    def check_number(self, tx: Transaction, made: Sequence[Object]) -> None:
        routers = {each["router_id"] for each in made}
        check_number(tx, _NUMBERS.where(_v.router_id.in_(routers)), "VPN services")


def check_number(tx: Transaction, numbers: sa.Select[Any], what: str) -> None:
    """Refuse more services or connections of a router than `MAX_PER_ROUTER`.

    In the transaction that creates them, after the router was changed: creates of one router exclude each other.
    """
    for row in tx.execute(numbers):
        if row.number > MAX_PER_ROUTER:
            raise errors.TooManyOfObject(kind="Router", id=row.router_id, most=MAX_PER_ROUTER, what=what)


def change_router(tx: Transaction, router_id: str, *, is_needed: bool) -> None:
    """Hosts get services and connections as parts of the router.

    `is_needed`: a new one needs the router's gateway and interfaces. A request that removes one of these has the router's
    revision as its condition: with another revision it is decided again, and refused.
    """
    tx.record("router", router_id)
    if is_needed:
        next_one = {"revision_number": _r.revision_number + 1}
        tx.change(sa.update(t.routers).where(_r.id == router_id, _r.gw_network_id.is_not(None)).values(next_one))


def is_connected(connection: Connection, router_id: str, subnet_id: str) -> bool:
    """Whether the router has an interface on the subnet."""
    interface = _rp.router_id == router_id, _rp.port_type.in_(INTERFACES)
    return exists(connection, *interface, _al.port_id == _rp.port_id, _al.subnet_id == subnet_id)


def ip_versions(connection: Connection, subnets: Sequence[str]) -> dict[str, int]:
    """The IP versions of subnets by their ids."""
    rows = connection.execute(sa.select(_s.id, _s.ip_version).where(_s.id.in_(subnets)))
    return {row.id: row.ip_version for row in rows}
