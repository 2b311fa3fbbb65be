"""Reads what the advertised routes of a speaker depend on, in a fixed number of queries."""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.bgp.routes import (
    AdvertisedFloatingIp,
    AdvertisedRouter,
    AgentGateways,
    GatewayAddress,
    InstanceAddress,
    Route,
    TenantSubnet,
    advertised_routes,
)
from neutrino.server.db import tables as t
from neutrino.server.ipam.delegated import PROVISIONAL
from neutrino.server.l3.routers import port_layout as layout
from neutrino.server.l3.scheduling.announced import FIXED_IP, select_instances

_sn, _r, _rp, _p = t.bgp_speaker_networks.c, t.routers.c, t.router_ports.c, t.ports.c
_al, _s, _pool, _f = t.ip_allocations.c, t.subnets.c, t.subnetpools.c, t.floatingips.c
_SPEAKER, _VERSION = sa.bindparam("speaker", type_=sa.String), sa.bindparam("version", type_=sa.Integer)
_NETWORKS = sa.select(_sn.network_id).where(_sn.bgp_speaker_id == _SPEAKER)

# Addresses of router ports of the speaker's IP version, with the address scopes of their subnets.
_ADDRESSES = (
    t.router_ports.join(t.routers, _r.id == _rp.router_id)
    .join(t.ports, _p.id == _rp.port_id)
    .join(t.ip_allocations, _al.port_id == _p.id)
    .join(t.subnets, _s.id == _al.subnet_id)
    .outerjoin(t.subnetpools, _pool.id == _s.subnetpool_id)
)
_GATEWAYS = (
    sa.select(_rp.router_id, _r.distributed, _p.network_id, _al.ip_address, _pool.address_scope_id)
    .select_from(_ADDRESSES)
    .where(
        _rp.port_type == layout.GATEWAY,
        _p.network_id.in_(_NETWORKS),
        _s.ip_version == _VERSION,
        _r.admin_state_up.is_(True),
    )
    .order_by(_rp.router_id, _p.network_id, _al.ip_address)
)
_gateway_port = t.ports.alias("bgp_gateway")
_router_gateway = t.router_ports.alias("bgp_router_gateway")
_WITH_GATEWAY = (
    sa.select(_router_gateway.c.router_id)
    .join(_gateway_port, _gateway_port.c.id == _router_gateway.c.port_id)
    .where(_router_gateway.c.port_type == layout.GATEWAY, _gateway_port.c.network_id.in_(_NETWORKS))
)
_SUBNETS = (
    sa.select(_rp.router_id, _p.network_id, _s.cidr, _pool.address_scope_id)
    .select_from(_ADDRESSES)
    .where(
        _rp.port_type.in_(layout.INTERFACES),
        _rp.router_id.in_(_WITH_GATEWAY),
        _s.ip_version == _VERSION,
        _s.cidr != PROVISIONAL,
        _pool.address_scope_id.is_not(None),
    )
    .order_by(_s.id)
)
_FLOATING_IPS = (
    sa.select(_f.floating_ip_address, _f.floating_network_id, _f.router_id, _p.host)
    .outerjoin(t.ports, _p.id == _f.port_id)
    .where(_f.floating_network_id.in_(_NETWORKS), _f.router_id.is_not(None))
    .order_by(_f.id)
)
_AGENT_GATEWAYS = (
    sa.select(_p.network_id, _p.host, _al.ip_address)
    .join(t.ip_allocations, _al.port_id == _p.id)
    .join(t.subnets, _s.id == _al.subnet_id)
    .where(
        _p.device_owner == layout.AGENT_GATEWAY,
        _p.network_id.in_(_NETWORKS),
        _p.host != "",
        _s.ip_version == _VERSION,
    )
    .order_by(_p.id, _al.ip_address)
)
_INSTANCES = (
    select_instances(FIXED_IP, _rp.router_id, _r.gw_network_id, _p.host, _pool.address_scope_id)
    .where(_rp.router_id.in_(_WITH_GATEWAY), _pool.address_scope_id.is_not(None), _p.host != "")
    .order_by(_rp.router_id, FIXED_IP)
)


def read_routes(connection: Connection, speaker: Any) -> tuple[Route, ...]:
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


def _routers(connection: Connection, of: dict[str, Any], *, subnets: bool) -> list[AdvertisedRouter]:
    distributed: dict[str, bool] = {}
    gateways: defaultdict[str, list[GatewayAddress]] = defaultdict(list)
    for row in connection.execute(_GATEWAYS, of):
        distributed[row.router_id] = row.distributed
        gateways[row.router_id].append(GatewayAddress(row.network_id, row.ip_address, row.address_scope_id))
    behind: defaultdict[str, list[TenantSubnet]] = defaultdict(list)
    for each in connection.execute(_SUBNETS, of) if subnets and gateways else ():
        behind[each.router_id].append(TenantSubnet(each.network_id, each.cidr, each.address_scope_id))
    return [AdvertisedRouter(key, distributed[key], found, behind[key]) for key, found in gateways.items()]


def _floating_ip(row: Any) -> AdvertisedFloatingIp:
    return AdvertisedFloatingIp(row.floating_ip_address, row.floating_network_id, row.router_id, row.host or "")


def _agent_gateways(connection: Connection, of: dict[str, Any]) -> AgentGateways:
    found: dict[tuple[str, str], str] = {}
    for row in connection.execute(_AGENT_GATEWAYS, of):
        found.setdefault((row.network_id, row.host), row.ip_address)
    return found
