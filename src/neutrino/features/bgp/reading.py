"""Reads what the advertised routes of a speaker depend on, in a fixed number of queries."""

from collections import defaultdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.bgp.announced import FIXED_IP, select_instances
from neutrino.features.bgp.routes import (
    AdvertisedFloatingIp,
    AdvertisedRouter,
    AgentGateways,
    GatewayAddress,
    InstanceAddress,
    Route,
    TenantSubnet,
    advertised_routes,
)
from neutrino.features.bgp.tables import bgp_speaker_networks
from neutrino.features.router.tables import floatingips, router_ports, routers
from neutrino.model import device_owners
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.sql import NamedRow
from neutrino.server.ipam.delegated import PROVISIONAL

_SPEAKER, _VERSION = sa.bindparam("speaker", type_=sa.String), sa.bindparam("version", type_=sa.Integer)
_NETWORKS = sa.select(bgp_speaker_networks.c.network_id).where(bgp_speaker_networks.c.bgp_speaker_id == _SPEAKER)

# Addresses of router ports of the speaker's IP version, with the address scopes of their subnets.
_ADDRESSES = (
    router_ports.join(routers, routers.c.id == router_ports.c.router_id)
    .join(t.ports, t.ports.c.id == router_ports.c.port_id)
    .join(t.ip_allocations, t.ip_allocations.c.port_id == t.ports.c.id)
    .join(t.subnets, t.subnets.c.id == t.ip_allocations.c.subnet_id)
    .outerjoin(t.subnetpools, t.subnetpools.c.id == t.subnets.c.subnetpool_id)
)
_GATEWAYS = (
    sa.select(
        router_ports.c.router_id,
        routers.c.distributed,
        t.ports.c.network_id,
        t.ip_allocations.c.ip_address,
        t.subnetpools.c.address_scope_id,
    )
    .select_from(_ADDRESSES)
    .where(
        router_ports.c.port_type == device_owners.GATEWAY,
        t.ports.c.network_id.in_(_NETWORKS),
        t.subnets.c.ip_version == _VERSION,
        routers.c.admin_state_up.is_(True),
    )
    .order_by(router_ports.c.router_id, t.ports.c.network_id, t.ip_allocations.c.ip_address)
)
_gateway_port = t.ports.alias("bgp_gateway")
_router_gateway = router_ports.alias("bgp_router_gateway")
_WITH_GATEWAY = (
    sa.select(_router_gateway.c.router_id)
    .join(_gateway_port, _gateway_port.c.id == _router_gateway.c.port_id)
    .where(_router_gateway.c.port_type == device_owners.GATEWAY, _gateway_port.c.network_id.in_(_NETWORKS))
)
_SUBNETS = (
    sa.select(router_ports.c.router_id, t.ports.c.network_id, t.subnets.c.cidr, t.subnetpools.c.address_scope_id)
    .select_from(_ADDRESSES)
    .where(
        router_ports.c.port_type.in_(device_owners.INTERFACES),
        router_ports.c.router_id.in_(_WITH_GATEWAY),
        t.subnets.c.ip_version == _VERSION,
        t.subnets.c.cidr != PROVISIONAL,
        t.subnetpools.c.address_scope_id.is_not(None),
    )
    .order_by(t.subnets.c.id)
)
_FLOATING_IPS = (
    sa.select(
        floatingips.c.floating_ip_address,
        floatingips.c.floating_network_id,
        floatingips.c.router_id,
        t.ports.c.host,
    )
    .outerjoin(t.ports, t.ports.c.id == floatingips.c.port_id)
    .where(floatingips.c.floating_network_id.in_(_NETWORKS), floatingips.c.router_id.is_not(None))
    .order_by(floatingips.c.id)
)
_AGENT_GATEWAYS = (
    sa.select(t.ports.c.network_id, t.ports.c.host, t.ip_allocations.c.ip_address)
    .join(t.ip_allocations, t.ip_allocations.c.port_id == t.ports.c.id)
    .join(t.subnets, t.subnets.c.id == t.ip_allocations.c.subnet_id)
    .where(
        t.ports.c.device_owner == device_owners.AGENT_GATEWAY,
        t.ports.c.network_id.in_(_NETWORKS),
        t.ports.c.host != "",
        t.subnets.c.ip_version == _VERSION,
    )
    .order_by(t.ports.c.id, t.ip_allocations.c.ip_address)
)
_INSTANCES = (
    select_instances(
        FIXED_IP,
        router_ports.c.router_id,
        routers.c.gw_network_id,
        t.ports.c.host,
        t.subnetpools.c.address_scope_id,
    )
    .where(
        router_ports.c.router_id.in_(_WITH_GATEWAY),
        t.subnetpools.c.address_scope_id.is_not(None),
        t.ports.c.host != "",
    )
    .order_by(router_ports.c.router_id, FIXED_IP)
)


def read_routes(connection: Connection, speaker: NamedRow) -> tuple[Route, ...]:
    """The routes of a speaker, given as its row."""
    of = {"speaker": speaker.id, "version": speaker.ip_version}
    routers = _routers(connection, of, subnets=speaker.advertise_tenant_networks)
    if not routers:
        return ()
    # A floating IP is an IPv4 address: a speaker of IPv6 has none to advertise.
    floating = speaker.advertise_floating_ip_host_routes and speaker.ip_version == 4
    distributed = speaker.ip_version == 4 and any(router.distributed for router in routers)
    instances = distributed and speaker.advertise_tenant_networks
    only = {"speaker": speaker.id}
    return advertised_routes(
        routers,
        [_floating_ip(row) for row in connection.execute(_FLOATING_IPS, only)] if floating else (),
        _agent_gateways(connection, of) if distributed else {},
        [InstanceAddress(*row) for row in connection.execute(_INSTANCES, only)] if instances else (),
        tenant_networks=speaker.advertise_tenant_networks,
    )


def _routers(connection: Connection, of: Object, *, subnets: bool) -> list[AdvertisedRouter]:
    distributed: dict[str, bool] = {}
    gateways: defaultdict[str, list[GatewayAddress]] = defaultdict(list)
    for row in connection.execute(_GATEWAYS, of):
        distributed[row.router_id] = row.distributed
        gateways[row.router_id].append(GatewayAddress(row.network_id, row.ip_address, row.address_scope_id))
    behind: defaultdict[str, list[TenantSubnet]] = defaultdict(list)
    for each in connection.execute(_SUBNETS, of) if subnets and gateways else ():
        behind[each.router_id].append(TenantSubnet(each.network_id, each.cidr, each.address_scope_id))
    return [AdvertisedRouter(key, distributed[key], found, behind[key]) for key, found in gateways.items()]


def _floating_ip(row: NamedRow) -> AdvertisedFloatingIp:
    return AdvertisedFloatingIp(row.floating_ip_address, row.floating_network_id, row.router_id, row.host or "")


def _agent_gateways(connection: Connection, of: Object) -> AgentGateways:
    found: dict[tuple[str, str], str] = {}
    for row in connection.execute(_AGENT_GATEWAYS, of):
        found.setdefault((row.network_id, row.host), row.ip_address)
    return found
