"""VPN services, their policies, endpoint groups and IPsec site connections.

These objects have neither timestamps nor tags in the API. `revision_number` is not shown: concurrent changes of an object
exclude each other by it.
"""

import sqlalchemy as sa

from neutrino.server.db.columns import (
    History,
    flags,
    integers,
    json,
    optional_ids,
    owner,
    primary_id,
    reference,
    table,
    text,
)
from neutrino.server.db.sql import Columns


def _object(name: str, kind: str, *parts: Columns | sa.schema.SchemaItem) -> sa.Table:
    return table(
        name,
        primary_id(),
        text(255, "project_id", index=True),
        text(255, "name", "description", default=""),
        integers("revision_number", default=0),
        *parts,
        history=History(kind, secrets=frozenset({"psk"})),
        quota=kind,
    )


ikepolicies = _object(
    "ikepolicies",
    "ikepolicy",
    text(32, "auth_algorithm", "encryption_algorithm", "phase1_negotiation_mode", "ike_version", "pfs"),
    json("lifetime", empty="{}"),
)

ipsecpolicies = _object(
    "ipsecpolicies",
    "ipsecpolicy",
    text(32, "transform_protocol", "auth_algorithm", "encryption_algorithm", "encapsulation_mode", "pfs"),
    json("lifetime", empty="{}"),
)

vpn_endpoint_groups = _object("vpn_endpoint_groups", "endpoint_group", text(16, "type"), json("endpoints"))

# The same endpoints as rows, for those that are subnets: a subnet of a group cannot be deleted.
vpn_endpoint_subnets = table(
    "vpn_endpoint_subnets",
    owner("endpoint_group_id", "vpn_endpoint_groups"),
    reference("subnet_id", "subnets", primary_key=True),
)

vpnservices = _object(
    "vpnservices",
    "vpnservice",
    reference("router_id", "routers"),
    reference("subnet_id", "subnets", nullable=True),
    optional_ids("flavor_id"),
    flags("admin_state_up", default=True),
    text(16, "status"),
)

ipsec_site_connections = _object(
    "ipsec_site_connections",
    "ipsec_site_connection",
    reference("vpnservice_id", "vpnservices"),
    reference("ikepolicy_id", "ikepolicies"),
    reference("ipsecpolicy_id", "ipsecpolicies"),
    reference("local_ep_group_id", "vpn_endpoint_groups", nullable=True),
    reference("peer_ep_group_id", "vpn_endpoint_groups", nullable=True),
    text(255, "peer_address", "peer_id", "local_id", "psk"),
    json("peer_cidrs"),
    json("dpd", empty="{}"),
    integers("mtu"),
    text(16, "initiator", "auth_mode", "route_mode", "status"),
    flags("admin_state_up", default=True),
)
