"""Subnets behind distributed routers that BGP speakers announce: their packets pass each instance's own host.

A speaker announces the address of an instance with its host's own port on the external network as next hop. So such a host
needs that port (`GATEWAY_HOSTS`), and its router routes these subnets by it in both directions, without translation
(`Router.direct_prefixes`). The subnets are of IPv4, as Neutron's routes of fixed IPs are, and in the address scope of
the external network.
"""

from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.bgp.tables import bgp_speaker_networks, bgp_speakers
from neutrino.features.router.tables import router_ports, routers
from neutrino.model.device_owners import GATEWAY, INTERFACES
from neutrino.model.objects import Values
from neutrino.server.db.sql import Expression, Selection
from neutrino.server.db.tables import ip_allocations, ports, subnetpools, subnets
from neutrino.server.feed.declarations import Ids
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND

_fixed = ip_allocations.alias("announced_allocations")
_outer, _outer_pool = subnets.alias("announced_outer"), subnetpools.alias("announced_outer_pool")
_gateway, _gateway_address = router_ports.alias("announced_gateway"), ip_allocations.alias("announced_gateway_address")
# Ports whose addresses are announced: as by Neutron, those of instances, on a host that has bound them.
_IS_INSTANCE = sa.and_(ports.c.device_owner.like("compute:%"), ports.c.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]))
# External networks on which speakers announce the subnets of tenants.
_NETWORKS = (
    sa.select(bgp_speaker_networks.c.network_id)
    .join(bgp_speakers, bgp_speakers.c.id == bgp_speaker_networks.c.bgp_speaker_id)
    .where(bgp_speakers.c.ip_version == 4, bgp_speakers.c.advertise_tenant_networks.is_(True))
)
_IN_SCOPE_OF_NETWORK = (
    _outer.c.network_id == routers.c.gw_network_id,
    _outer.c.ip_version == 4,
    _outer_pool.c.id == _outer.c.subnetpool_id,
    _outer_pool.c.address_scope_id == subnetpools.c.address_scope_id,
)
_IN_SCOPE_OF_GATEWAY = (
    *_IN_SCOPE_OF_NETWORK,
    _gateway.c.router_id == routers.c.id,
    _gateway.c.port_type == GATEWAY,
    _gateway_address.c.port_id == _gateway.c.port_id,
    _gateway_address.c.subnet_id == _outer.c.id,
)
FIXED_IP = _fixed.c.ip_address  # of an instance, in `select_instances`
_INNER_SUBNETS = (
    routers.join(router_ports, router_ports.c.router_id == routers.c.id)
    .join(ip_allocations, ip_allocations.c.port_id == router_ports.c.port_id)
    .join(subnets, subnets.c.id == ip_allocations.c.subnet_id)
    .join(subnetpools, subnetpools.c.id == subnets.c.subnetpool_id)
)
_IS_INNER = router_ports.c.port_type.in_(INTERFACES), routers.c.distributed.is_(True), subnets.c.ip_version == 4


def select_instances(*columns: Expression) -> Selection:
    """IPv4 addresses of instances behind distributed routers, on subnets of subnet pools.

    Columns are those of the router, of the subnet with its pool, and of the instance's port with its FIXED_IP.
    """
    of_instances = _INNER_SUBNETS.join(_fixed, _fixed.c.subnet_id == subnets.c.id).join(
        ports, ports.c.id == _fixed.c.port_id
    )
    return sa.select(*columns).select_from(of_instances).where(*_IS_INNER, _IS_INSTANCE)


# The external networks of routers, with the hosts of the announced instances behind them.
GATEWAY_HOSTS = (
    select_instances(routers.c.gw_network_id.label("network_id"), ports.c.host.label("host"))
    .where(
        routers.c.gw_network_id.in_(_NETWORKS),
        routers.c.admin_state_up.is_(True),
        sa.exists().where(*_IN_SCOPE_OF_NETWORK),
    )
    .distinct()
)
_ANNOUNCED_SUBNETS = (
    sa.select(routers.c.id, subnets.c.cidr)
    .select_from(_INNER_SUBNETS.join(ports, ports.c.id == router_ports.c.port_id))
    .where(
        *_IS_INNER,
        ports.c.admin_state_up.is_(True),
        routers.c.gw_network_id.in_(_NETWORKS),
        sa.exists().where(*_IN_SCOPE_OF_GATEWAY),
    )
)


def read_direct_prefixes(connection: Connection, ids: Ids) -> Mapping[str, Values]:
    """The announced subnets of distributed routers, as a part of the router."""
    prefixes: defaultdict[str, set[str]] = defaultdict(set)
    for row in read_rows(connection, _ANNOUNCED_SUBNETS, routers.c.id, ids):
        prefixes[row.id].add(row.cidr)
    return {router_id: {"direct_prefixes": tuple(sorted(cidrs))} for router_id, cidrs in prefixes.items()}
