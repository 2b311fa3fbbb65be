"""VPN services of a router: the gateway and the subnets that they need cannot be removed."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t

_v, _c, _es = t.vpnservices.c, t.ipsec_site_connections.c, t.vpn_endpoint_subnets.c


def check_router_unused(connection: Connection, router_id: str) -> None:
    """Refuse to delete a router with VPN services, or to remove its gateway."""
    found = list(connection.execute(sa.select(_v.id).where(_v.router_id == router_id).order_by(_v.id)).scalars())
    if found:
        raise errors.RouterInUse(router_id=router_id, reason=f"it is used by VPN services {', '.join(found[:10])}")


def check_subnet_unused(connection: Connection, router_id: str, subnet_id: str) -> None:
    """Refuse to remove an interface on a subnet that VPN connections of the router have."""
    of_router = _v.router_id == router_id
    service = connection.execute(sa.select(_v.id).where(of_router, _v.subnet_id == subnet_id).limit(1)).scalar()
    if service is not None:
        raise errors.SubnetInUseByVPNService(subnet_id=subnet_id, vpnservice_id=service)
    in_group = _es.endpoint_group_id == _c.local_ep_group_id, _es.subnet_id == subnet_id
    used = sa.select(_c.id).where(of_router, _c.vpnservice_id == _v.id, *in_group).limit(1)
    tunnel = connection.execute(used).scalar()
    if tunnel is not None:
        raise errors.SubnetInUseByIPsecSiteConnection(subnet_id=subnet_id, ipsec_site_connection_id=tunnel)
