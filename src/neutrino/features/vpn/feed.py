"""Reads the VPN services of routers with their connections. Changes are logged with the router."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.vpn.checks import networks
from neutrino.features.vpn.resources import BI_DIRECTIONAL
from neutrino.features.vpn.tables import (
    ikepolicies,
    ipsec_site_connections,
    ipsecpolicies,
    vpn_endpoint_groups,
    vpn_endpoint_subnets,
    vpnservices,
)
from neutrino.model.fields import is_peer
from neutrino.model.objects import Object
from neutrino.model.routing import Router
from neutrino.model.vpn import IkePolicy, IpsecPolicy, VpnConnection, VpnService
from neutrino.server.db import tables as t
from neutrino.server.db.sql import Expression, NamedRow
from neutrino.server.feed.declarations import Feed, Part, Placed
from neutrino.server.feed.readers.rows import Ids, grouped, read_rows, texts
from neutrino.server.feed.records import RouterRecord
from neutrino.server.feed.reports.rules import UP_OR_DOWN, ReportedStatus

_v, _c, _ike, _ipsec = vpnservices.c, ipsec_site_connections.c, ikepolicies.c, ipsecpolicies.c


def _labelled(table: sa.Table, prefix: str) -> Iterable[Expression]:
    return (column.label(f"{prefix}_{column.name}") for column in table.c)


_SERVICES = (
    sa.select(_v.id, _v.router_id, _v.admin_state_up, t.subnets.c.cidr)
    .outerjoin(t.subnets, t.subnets.c.id == _v.subnet_id)
    .order_by(_v.id)
)
_CONNECTIONS = (
    sa.select(ipsec_site_connections, vpn_endpoint_groups.c.endpoints.label("peer_endpoints"))
    .add_columns(*_labelled(ikepolicies, "ike"), *_labelled(ipsecpolicies, "ipsec"))
    .join(ikepolicies, _ike.id == _c.ikepolicy_id)
    .join(ipsecpolicies, _ipsec.id == _c.ipsecpolicy_id)
    .outerjoin(vpn_endpoint_groups, vpn_endpoint_groups.c.id == _c.peer_ep_group_id)
    .order_by(_c.id)
)
_LOCAL_CIDRS = (
    sa.select(vpn_endpoint_subnets.c.endpoint_group_id, t.subnets.c.cidr)
    .join(t.subnets, t.subnets.c.id == vpn_endpoint_subnets.c.subnet_id)
    .order_by(t.subnets.c.cidr)
)
_dictionary = msgspec.json.Decoder(Object)


def read_vpn(connection: Connection, routers: Ids) -> Mapping[str, tuple[VpnService, ...]]:
    """The VPN services of these routers; of a router without any, an empty tuple."""
    found: defaultdict[str, tuple[VpnService, ...]] = defaultdict(tuple)
    services = list(read_rows(connection, _SERVICES, _v.router_id, routers))
    if not services:
        return found
    rows = grouped(connection, _CONNECTIONS, _c.vpnservice_id, [row.id for row in services], lambda row: row)
    groups = sorted({row.local_ep_group_id for each in rows.values() for row in each} - {None})
    local = grouped(connection, _LOCAL_CIDRS, vpn_endpoint_subnets.c.endpoint_group_id, groups, lambda row: row.cidr)
    for service in services:
        # Without rows of before this check: an invalid connection would be a fault of the whole router.
        valid = [row for row in rows[service.id] if is_peer(row.peer_address)]
        connections = tuple(_connection(row, service, local) for row in valid)
        found[service.router_id] += (VpnService(id=service.id, connections=connections),)
    return found


def _connection(row: NamedRow, service: NamedRow, local: Mapping[str, list[str]]) -> VpnConnection:
    in_group = row.local_ep_group_id is not None
    dpd = _dictionary.decode(row.dpd)
    return VpnConnection(
        id=row.id,
        peer_address=row.peer_address,
        peer_id=row.peer_id or row.peer_address,
        local_id=row.local_id,
        psk=row.psk,
        local_cidrs=tuple(local[row.local_ep_group_id]) if in_group else (service.cidr,),
        peer_cidrs=networks(texts.decode(row.peer_endpoints if in_group else row.peer_cidrs)),
        initiates=row.initiator == BI_DIRECTIONAL,
        dpd_action=dpd["action"],
        dpd_interval=dpd["interval"],
        dpd_timeout=dpd["timeout"],
        admin_state_up=row.admin_state_up and service.admin_state_up,
        ike=IkePolicy(
            auth_algorithm=row.ike_auth_algorithm,
            encryption_algorithm=row.ike_encryption_algorithm,
            pfs=row.ike_pfs,
            lifetime=_dictionary.decode(row.ike_lifetime)["value"],
            version=2 if row.ike_ike_version == "v2" else 1,
            aggressive=row.ike_phase1_negotiation_mode == "aggressive",
        ),
        ipsec=IpsecPolicy(
            auth_algorithm=row.ipsec_auth_algorithm,
            encryption_algorithm=row.ipsec_encryption_algorithm,
            pfs=row.ipsec_pfs,
            lifetime=_dictionary.decode(row.ipsec_lifetime)["value"],
            protocol=row.ipsec_transform_protocol,
            mode=row.ipsec_encapsulation_mode,
        ),
    )


def _without_keys(router: Router) -> Router:
    """The router without pre-shared keys, for hosts that have a part of it, but not the one that ends its tunnels."""
    services = tuple(
        msgspec.structs.replace(
            service, connections=tuple(msgspec.structs.replace(tunnel, psk="") for tunnel in service.connections)
        )
        for service in router.vpn_services
    )
    return msgspec.structs.replace(router, vpn_services=services)


def read_part(connection: Connection, ids: Ids) -> dict[str, dict[str, tuple[VpnService, ...]]]:
    return {key: {"vpn_services": services} for key, services in read_vpn(connection, ids).items()}


def keep_keys_central(_connection: Connection, _ids: Ids) -> Callable[[RouterRecord, Router], RouterRecord]:
    """Keys of a distributed router's tunnels are only on the hosts that end them."""

    def place(record: RouterRecord, base: Router) -> RouterRecord:
        if not base.vpn_services or not base.distributed:
            return record
        return {host: router if router.centralized else _without_keys(router) for host, router in record.items()}

    return place


FEED = Feed(
    parts=(Part(of="router", defaults={"vpn_services": ()}, read=read_part),),
    placed=(Placed(of="router", read=keep_keys_central),),
    statuses=dict.fromkeys(("vpnservice", "ipsec_site_connection"), ReportedStatus(UP_OR_DOWN)),
)
