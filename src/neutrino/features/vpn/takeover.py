"""VPN services, policies and connections of neutron-vpnaas in Neutron's database."""

from neutrino.features.router.tables import routers
from neutrino.features.vpn.tables import (
    ikepolicies,
    ipsec_site_connections,
    ipsecpolicies,
    vpn_endpoint_groups,
    vpn_endpoint_subnets,
    vpnservices,
)
from neutrino.model.objects import Object
from neutrino.server.db.tables import ports
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, unpaired
from neutrino.takeover.inverse import Parts, Theirs

_COMMON = (*pairs("id"), *pairs("project_id", "name", "description", default=""))
_IKE = (*_COMMON, *pairs("auth_algorithm", "encryption_algorithm", "phase1_negotiation_mode", "ike_version", "pfs"))
_IPSEC = (
    *_COMMON,
    *pairs("transform_protocol", "auth_algorithm", "encryption_algorithm", "encapsulation_mode", "pfs"),
)
_SERVICE = (*_COMMON, *pairs("router_id", "subnet_id", "flavor_id", "status"), *pairs("admin_state_up", default=True))
_CONNECTION = (
    *_COMMON,
    *pairs("vpnservice_id", "ikepolicy_id", "ipsecpolicy_id", "local_ep_group_id", "peer_ep_group_id", "peer_address"),
    *pairs("peer_id", "psk", "mtu", "initiator", "auth_mode", "route_mode", "status"),
    *pairs("local_id", default=""),
    *pairs("admin_state_up", default=True),
)


def _lifetime(row: Object) -> Object:
    return {"units": row["lifetime_units"], "value": row["lifetime_value"]}


def _ike(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(ikepolicies, {**paired(row, _IKE), "lifetime": _lifetime(row)})


def _ipsec(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(ipsecpolicies, {**paired(row, _IPSEC), "lifetime": _lifetime(row)})


def _groups(chunk: Chunk) -> None:
    endpoints = chunk.children("vpn_endpoints", "endpoint_group_id")
    for row in chunk.rows:
        own = sorted(one["endpoint"] for one in endpoints.get(row["id"], ()))
        chunk.add(vpn_endpoint_groups, {**paired(row, _COMMON), "type": row["endpoint_type"], "endpoints": own})
        if row["endpoint_type"] == "subnet":
            for subnet in own:
                chunk.add(vpn_endpoint_subnets, {"endpoint_group_id": row["id"], "subnet_id": subnet})


def _services(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(vpnservices, paired(row, _SERVICE))


def _connections(chunk: Chunk) -> None:
    cidrs = chunk.children("ipsecpeercidrs", "ipsec_site_connection_id")
    for row in chunk.rows:
        values = {
            **paired(row, _CONNECTION),
            "peer_cidrs": sorted(one["cidr"] for one in cidrs.get(row["id"], ())),
            "dpd": {name: row[f"dpd_{name}"] for name in ("action", "interval", "timeout")},
        }
        chunk.add(ipsec_site_connections, values)


# --- the inverse --------------------------------------------------------------------------------------------------------


def _their_lifetime(row: Object) -> Object:
    return {f"lifetime_{name}": row["lifetime"][name] for name in ("units", "value")}


def _their_ike(parts: Parts) -> None:
    for row in parts.rows[ikepolicies]:
        parts.add("ikepolicies", {**unpaired(row, _IKE), **_their_lifetime(row)})


def _their_ipsec(parts: Parts) -> None:
    for row in parts.rows[ipsecpolicies]:
        parts.add("ipsecpolicies", {**unpaired(row, _IPSEC), **_their_lifetime(row)})


def _their_groups(parts: Parts) -> None:
    for row in parts.rows[vpn_endpoint_groups]:
        parts.add("vpn_endpoint_groups", {**unpaired(row, _COMMON), "endpoint_type": row["type"]})
        for endpoint in row["endpoints"]:
            parts.add("vpn_endpoints", {"endpoint_group_id": row["id"], "endpoint": endpoint})


def _their_services(parts: Parts) -> None:
    """Neutron stores the addresses of the router's gateway, which are shown here from its port."""
    services = parts.rows[vpnservices]
    gateways = {one["id"]: one["gw_port_id"] for one in parts.among(routers, "id", {s["router_id"] for s in services})}
    found = {one["id"]: one["fixed_ips"] for one in parts.among(ports, "id", set(gateways.values()))}
    for row in services:
        addresses = [one["ip_address"] for one in found.get(gateways.get(row["router_id"]), ())]
        shown = {
            "external_v4_ip": next((one for one in addresses if ":" not in one), None),
            "external_v6_ip": next((one for one in addresses if ":" in one), None),
        }
        parts.add("vpnservices", {**unpaired(row, _SERVICE), **shown})


def _their_connections(parts: Parts) -> None:
    for row in parts.rows[ipsec_site_connections]:
        dpd = {f"dpd_{name}": row["dpd"][name] for name in ("action", "interval", "timeout")}
        parts.add("ipsec_site_connections", {**unpaired(row, _CONNECTION), **dpd})
        for cidr in row["peer_cidrs"]:
            parts.add("ipsecpeercidrs", {"ipsec_site_connection_id": row["id"], "cidr": cidr})


FAMILIES = (
    Family(
        name="IKE policies",
        source="ikepolicies",
        tables=(Owned(ikepolicies),),
        shown=(Shown("vpn/ikepolicies", "ikepolicies"),),
        compose=_ike,
        theirs=(Theirs("ikepolicies"),),
        decompose=_their_ike,
    ),
    Family(
        name="IPsec policies",
        source="ipsecpolicies",
        tables=(Owned(ipsecpolicies),),
        shown=(Shown("vpn/ipsecpolicies", "ipsecpolicies"),),
        compose=_ipsec,
        theirs=(Theirs("ipsecpolicies"),),
        decompose=_their_ipsec,
    ),
    Family(
        name="VPN endpoint groups",
        source="vpn_endpoint_groups",
        tables=(Owned(vpn_endpoint_groups), Owned(vpn_endpoint_subnets, "endpoint_group_id")),
        shown=(Shown("vpn/endpoint-groups", "endpoint_groups"),),
        compose=_groups,
        theirs=(Theirs("vpn_endpoint_groups"), Theirs("vpn_endpoints", "endpoint_group_id")),
        decompose=_their_groups,
        reads=("vpn_endpoints",),
        after=("subnets",),
    ),
    Family(
        name="VPN services",
        source="vpnservices",
        tables=(Owned(vpnservices),),
        shown=(Shown("vpn/vpnservices", "vpnservices"),),
        compose=_services,
        theirs=(Theirs("vpnservices"),),
        decompose=_their_services,
        after=("routers", "subnets"),
    ),
    Family(
        name="IPsec site connections",
        source="ipsec_site_connections",
        tables=(Owned(ipsec_site_connections),),
        shown=(Shown("vpn/ipsec-site-connections", "ipsec_site_connections"),),
        compose=_connections,
        theirs=(Theirs("ipsec_site_connections"), Theirs("ipsecpeercidrs", "ipsec_site_connection_id")),
        decompose=_their_connections,
        reads=("ipsecpeercidrs",),
        after=("VPN services", "IKE policies", "IPsec policies", "VPN endpoint groups"),
    ),
)
