"""Address scopes, subnet pools and subnets."""

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.ipam.delegated import POOL
from neutrino.takeover.family import (
    TAGS,
    Chunk,
    Family,
    Owned,
    Shown,
    flag,
    paired,
    pairs,
    standard,
    tagged,
    unpaired,
    untagged,
)
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_POOL = (
    *pairs("ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen", "default_quota", "address_scope_id"),
    *pairs("is_default", default=False),
)
_SUBNET = (
    *pairs("network_id", "ip_version", "cidr", "gateway_ip", "ipv6_ra_mode", "ipv6_address_mode", "segment_id"),
    *pairs("enable_dhcp", default=False),
)


_SCOPE = pairs("ip_version")
_SHARED = frozenset({"shared"})  # a column that Neutron itself does not read any more: policies share


def _scopes(chunk: Chunk) -> None:
    tagged(chunk, t.address_scopes, _SCOPE)


def _pools(chunk: Chunk) -> None:
    tags, prefixes = chunk.tags(), chunk.children("subnetpoolprefixes", "subnetpool_id")
    for row in chunk.rows:
        labels = tags.get(row.get("standard_attr_id"), [])
        values = {
            **standard(row, chunk.deviations, "subnetpools"),
            **paired(row, _POOL),
            "prefixes": sorted(one["cidr"] for one in prefixes.get(row["id"], ())),
            "tags": labels,
        }
        chunk.add(t.subnetpools, values)
        chunk.add_tags(row["id"], labels)


def _subnets(chunk: Chunk) -> None:
    tags = chunk.tags()
    pools = chunk.children("ipallocationpools", "subnet_id")
    servers = chunk.children("dnsnameservers", "subnet_id")
    routes = chunk.children("subnetroutes", "subnet_id")
    types = chunk.children("subnet_service_types", "subnet_id")
    published = chunk.first("subnet_dns_publish_fixed_ips", "subnet_id")
    for row in chunk.rows:
        key, pool = row["id"], row["subnetpool_id"]
        labels = tags.get(row.get("standard_attr_id"), [])
        values = {
            **standard(row, chunk.deviations, "subnets"),
            **paired(row, _SUBNET),
            "subnetpool_id": None if pool == POOL else pool,
            "prefix_delegated": pool == POOL,
            "dns_publish_fixed_ip": flag(published.get(key), "dns_publish_fixed_ip", False),
            "allocation_pools": [{"start": one["first_ip"], "end": one["last_ip"]} for one in pools.get(key, ())],
            "dns_nameservers": [one["address"] for one in sorted(servers.get(key, ()), key=_order)],
            "host_routes": [{name: one[name] for name in ("destination", "nexthop")} for one in routes.get(key, ())],
            "service_types": sorted(one["service_type"] for one in types.get(key, ())),
            "tags": labels,
        }
        chunk.add(t.subnets, values)
        chunk.add_tags(key, labels)


def _order(row: Object) -> tuple[int, str]:
    return row["order"], row["address"]


def _their_pools(parts: Parts) -> None:
    for row in parts.rows[t.subnetpools]:
        parts.add("subnetpools", {**standard_columns(row), **unpaired(row, _POOL), "shared": False})
        for cidr in row["prefixes"]:
            parts.add("subnetpoolprefixes", {"subnetpool_id": row["id"], "cidr": cidr})


def _their_subnets(parts: Parts) -> None:
    for row in parts.rows[t.subnets]:
        key = row["id"]
        pool = POOL if row["prefix_delegated"] else row["subnetpool_id"]
        parts.add("subnets", {**standard_columns(row), **unpaired(row, _SUBNET), "subnetpool_id": pool})
        for one in row["allocation_pools"]:
            parts.add("ipallocationpools", {"subnet_id": key, "first_ip": one["start"], "last_ip": one["end"]})
        for order, address in enumerate(row["dns_nameservers"]):
            parts.add("dnsnameservers", {"subnet_id": key, "address": address, "order": order})
        for one in row["host_routes"]:
            parts.add("subnetroutes", {"subnet_id": key, **one})
        for service_type in row["service_types"]:
            parts.add("subnet_service_types", {"subnet_id": key, "service_type": service_type})
        if row["dns_publish_fixed_ip"]:
            parts.add("subnet_dns_publish_fixed_ips", {"subnet_id": key, "dns_publish_fixed_ip": True})


FAMILIES = (
    Family(
        name="address scopes",
        source="address_scopes",
        tables=(Owned(t.address_scopes), TAGS),
        shown=(Shown("address-scopes", "address_scopes"),),
        compose=_scopes,
        theirs=(Theirs("address_scopes", once=_SHARED),),
        decompose=untagged(t.address_scopes, "address_scopes", _SCOPE, shared=False),
    ),
    Family(
        name="subnet pools",
        source="subnetpools",
        tables=(Owned(t.subnetpools), TAGS),
        shown=(Shown("subnetpools"),),
        compose=_pools,
        theirs=(Theirs("subnetpools", once=_SHARED), Theirs("subnetpoolprefixes", "subnetpool_id")),
        decompose=_their_pools,
        reads=("subnetpoolprefixes",),
        after=("address scopes",),
    ),
    Family(
        name="subnets",
        source="subnets",
        tables=(Owned(t.subnets), TAGS),
        shown=(Shown("subnets"),),
        compose=_subnets,
        theirs=(
            Theirs("subnets"),
            Theirs("ipallocationpools", "subnet_id", identity=("subnet_id", "first_ip", "last_ip")),
            *(Theirs(name, "subnet_id") for name in ("dnsnameservers", "subnetroutes", "subnet_service_types")),
            Theirs("subnet_dns_publish_fixed_ips", "subnet_id"),
        ),
        decompose=_their_subnets,
        reads=(
            *("ipallocationpools", "dnsnameservers", "subnetroutes", "subnet_service_types"),
            "subnet_dns_publish_fixed_ips",
        ),
        after=("networks", "subnet pools"),
    ),
)
