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


def check_release(connection: Connection, router_id: str) -> None:
    """Refuse to delete a router with VPN services, or to remove its gateway."""
    found = list(
        connection.execute(
            sa.select(vpnservices.c.id).where(vpnservices.c.router_id == router_id).order_by(vpnservices.c.id)
        ).scalars()
    )
    if found:
        raise RouterInUse(router_id=router_id, reason=f"it is used by VPN services {', '.join(found[:10])}")


def check_interface(connection: Connection, router_id: str, subnet_id: str) -> None:
    """Refuse to remove an interface on a subnet that VPN connections of the router have."""
    of_router = vpnservices.c.router_id == router_id
    service = connection.execute(
        sa.select(vpnservices.c.id).where(of_router, vpnservices.c.subnet_id == subnet_id).limit(1)
    ).scalar()
    if service is not None:
        raise SubnetInUseByVPNService(subnet_id=subnet_id, vpnservice_id=service)
    in_group = (
        vpn_endpoint_subnets.c.endpoint_group_id == ipsec_site_connections.c.local_ep_group_id,
        vpn_endpoint_subnets.c.subnet_id == subnet_id,
    )
    used = (
        sa.select(ipsec_site_connections.c.id)
        .where(of_router, ipsec_site_connections.c.vpnservice_id == vpnservices.c.id, *in_group)
        .limit(1)
    )
    tunnel = connection.execute(used).scalar()
    if tunnel is not None:
        raise SubnetInUseByIPsecSiteConnection(subnet_id=subnet_id, ipsec_site_connection_id=tunnel)


def check_subnet_delete(connection: Connection, subnet_id: str) -> None:
    """Refuse to delete a subnet that is in an endpoint group."""
    found = connection.execute(
        sa.select(vpn_endpoint_subnets.c.endpoint_group_id)
        .where(vpn_endpoint_subnets.c.subnet_id == subnet_id)
        .limit(1)
    ).scalar()
    if found is not None:
        raise SubnetInUseByEndpointGroup(subnet_id=subnet_id, group_id=found)
