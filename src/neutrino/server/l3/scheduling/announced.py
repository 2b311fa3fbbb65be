"""Subnets behind distributed routers that BGP speakers announce: their packets pass each instance's own host.

A speaker announces the address of an instance with its host's own port on the external network as next hop. So such a host
needs that port (`DvrHosts.settle`), and its router routes these subnets by it in both directions, without translation
(`Router.direct_prefixes`). The subnets are of IPv4, as Neutron's routes of fixed IPs are, and in the address scope of
the external network.
"""

from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.routing import Router
from neutrino.server.db import tables as t
from neutrino.server.l3.routers.port_layout import INTERFACES
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND

_p, _a, _rp, _r, _g = t.ports.c, t.ip_allocations.c, t.router_ports.c, t.routers.c, t.agents.c
_s, _pool, _sp, _sn = t.subnets.c, t.subnetpools.c, t.bgp_speakers.c, t.bgp_speaker_networks.c
_fixed = t.ip_allocations.alias("announced_allocations")
_outer, _outer_pool = t.subnets.alias("announced_outer"), t.subnetpools.alias("announced_outer_pool")
# Ports whose addresses are announced: as by Neutron, those of instances, on a host that has bound them.
_IS_INSTANCE = sa.and_(_p.device_owner.like("compute:%"), _p.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]))
NETWORKS = (
    sa.select(_sn.network_id)
    .join(t.bgp_speakers, _sp.id == _sn.bgp_speaker_id)
    .where(_sp.ip_version == 4, _sp.advertise_tenant_networks.is_(True))
)
_SAME_SCOPE = sa.exists().where(
    _outer.c.network_id == _r.gw_network_id,
    _outer.c.ip_version == 4,
    _outer_pool.c.id == _outer.c.subnetpool_id,
    _outer_pool.c.address_scope_id == _pool.address_scope_id,
)
FIXED_IP = _fixed.c.ip_address  # of an instance, in `select_instances`


def select_instances(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """IPv4 addresses of instances behind distributed routers, on subnets of subnet pools.

    Columns are those of the router, of the subnet with its pool, and of the instance's port with its FIXED_IP.
    """
    return (
        sa.select(*columns)
        .select_from(
            t.routers.join(t.router_ports, _rp.router_id == _r.id)
            .join(t.ip_allocations, _a.port_id == _rp.port_id)
            .join(t.subnets, _s.id == _a.subnet_id)
            .join(t.subnetpools, _pool.id == _s.subnetpool_id)
            .join(_fixed, _fixed.c.subnet_id == _s.id)
            .join(t.ports, _p.id == _fixed.c.port_id)
        )
        .where(_rp.port_type.in_(INTERFACES), _r.distributed.is_(True), _s.ip_version == 4, _IS_INSTANCE)
    )


# The hosts of instances, with their L3 agents, and the external networks of the routers that they are behind.
_HOSTS = (
    select_instances(_r.gw_network_id, _p.host, _g.configurations)
    .join(t.agents, sa.and_(_g.host == _p.host, _g.agent_type == words.L3, _g.admin_state_up.is_(True)))
    .where(_r.gw_network_id.in_(NETWORKS), _r.admin_state_up.is_(True), _SAME_SCOPE)
    .distinct()
)


def hosts_of_instances(connection: Connection) -> Iterator[Any]:
    """Rows with gw_network_id, host and the configurations of the host's L3 agent."""
    yield from connection.execute(_HOSTS)


def announced_networks(connection: Connection, networks: Collection[str]) -> frozenset[str]:
    """Those of these external networks on which speakers announce the subnets of tenants."""
    if not networks:
        return frozenset()
    return frozenset(connection.execute(NETWORKS.where(_sn.network_id.in_(sorted(networks)))).scalars())


def direct_prefixes(router: Router) -> tuple[str, ...]:
    """The IPv4 subnets of a router in the address scope of its first gateway's network. Pure."""
    gateway = router.gateway.addresses if router.gateway is not None else ()
    scope = next((each.address_scope_id for each in gateway if each.version == 4), None)
    own = (each for port in router.interfaces if port.admin_state_up for each in port.addresses)
    return tuple(sorted(each.cidr for each in own if each.version == 4 and scope and each.address_scope_id == scope))
