"""What VPN services need of routers and subnets: gateways, interfaces and subnets that cannot be removed."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import RouterInUse
from neutrino.features.vpn.errors import (
    SubnetInUseByEndpointGroup,
    SubnetInUseByIPsecSiteConnection,
    SubnetInUseByVPNService,
)
from neutrino.features.vpn.tables import ipsec_site_connections, vpn_endpoint_subnets, vpnservices

_v, _c, _es = vpnservices.c, ipsec_site_connections.c, vpn_endpoint_subnets.c


def check_release(connection: Connection, router_id: str) -> None:
    """Refuse to delete a router with VPN services, or to remove its gateway."""
    found = list(connection.execute(sa.select(_v.id).where(_v.router_id == router_id).order_by(_v.id)).scalars())
    if found:
        raise RouterInUse(router_id=router_id, reason=f"it is used by VPN services {', '.join(found[:10])}")


def check_interface(connection: Connection, router_id: str, subnet_id: str) -> None:
    """Refuse to remove an interface on a subnet that VPN connections of the router have."""
    of_router = _v.router_id == router_id
    service = connection.execute(sa.select(_v.id).where(of_router, _v.subnet_id == subnet_id).limit(1)).scalar()
    if service is not None:
        raise SubnetInUseByVPNService(subnet_id=subnet_id, vpnservice_id=service)
    in_group = _es.endpoint_group_id == _c.local_ep_group_id, _es.subnet_id == subnet_id
    used = sa.select(_c.id).where(of_router, _c.vpnservice_id == _v.id, *in_group).limit(1)
    tunnel = connection.execute(used).scalar()
    if tunnel is not None:
        raise SubnetInUseByIPsecSiteConnection(subnet_id=subnet_id, ipsec_site_connection_id=tunnel)


def check_subnet_delete(connection: Connection, subnet_id: str) -> None:
    """Refuse to delete a subnet that is in an endpoint group."""
    found = connection.execute(sa.select(_es.endpoint_group_id).where(_es.subnet_id == subnet_id).limit(1)).scalar()
    if found is not None:
        raise SubnetInUseByEndpointGroup(subnet_id=subnet_id, group_id=found)
