"""Reading VPN objects: the views of the API, and the addresses of a router's gateway, from which tunnels are set up."""

import sqlalchemy as sa

from neutrino.features.router.tables import routers
from neutrino.features.vpn import errors
from neutrino.features.vpn.tables import (
    ikepolicies,
    ipsec_site_connections,
    ipsecpolicies,
    vpn_endpoint_groups,
    vpnservices,
)
from neutrino.server.db import tables as t
from neutrino.server.db.view import View

_HIDDEN = ("revision_number",)


def gateway_address(ip_version: int) -> sa.ScalarSelect[str]:
    """The address of the gateway of a VPN service's router. Not stored: the gateway may get other addresses."""
    return (
        sa.select(sa.func.min(t.ip_allocations.c.ip_address))
        .select_from(
            routers.join(t.ip_allocations, t.ip_allocations.c.port_id == routers.c.gw_port_id).join(
                t.subnets, t.subnets.c.id == t.ip_allocations.c.subnet_id
            )
        )
        .where(routers.c.id == vpnservices.c.router_id, t.subnets.c.ip_version == ip_version)
        .correlate(vpnservices)
        .scalar_subquery()
    )


IKE_POLICIES = View(ikepolicies, hidden=_HIDDEN, not_found=errors.IKEPolicyNotFound)
IPSEC_POLICIES = View(ipsecpolicies, hidden=_HIDDEN, not_found=errors.IPsecPolicyNotFound)
ENDPOINT_GROUPS = View(vpn_endpoint_groups, hidden=_HIDDEN, not_found=errors.VPNEndpointGroupNotFound)
SERVICES = View(
    vpnservices,
    computed={"external_v4_ip": gateway_address(4), "external_v6_ip": gateway_address(6)},
    hidden=_HIDDEN,
    not_found=errors.VPNServiceNotFound,
)
CONNECTIONS = View(ipsec_site_connections, hidden=_HIDDEN, not_found=errors.IPsecSiteConnectionNotFound)
