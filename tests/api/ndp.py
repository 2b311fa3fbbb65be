"""What tests of NDP proxies need: an external network and networks behind a router, in one IPv6 address scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neutrino.model.objects import Object
from tests.api.client import Api
from tests.api.l3 import attach, gateway

OUTSIDE, INSIDE = "2001:db8:0:1::/64", "2001:db8:0:2::/64"


@dataclass(frozen=True)
class Scoped:
    """The objects of a project `api` behind a router with NDP proxies enabled."""

    api: Api
    pool: Object
    external: Object
    network: Object
    subnet: Object
    router: Object


def scoped_pool(api: Api, prefix: str = "2001:db8::/48") -> Object:
    scope = api.make("address_scope", name="scope", ip_version=6)
    return api.make("subnetpool", name="pool", prefixes=[prefix], address_scope_id=scope["id"], default_prefixlen=64)


def external_network(api: Api, pool: Object | None, cidr: str = OUTSIDE) -> Object:
    """With an IPv4 and an IPv6 subnet, the latter of the pool."""
    admin = api.as_admin()
    network = admin.network(router__external=True)
    admin.subnet(network, "172.24.0.0/24", enable_dhcp=False)
    admin.subnet(network, cidr, enable_dhcp=False, **({"subnetpool_id": pool["id"]} if pool else {}))
    return network


def scoped(api: Api, **router: Any) -> Scoped:
    pool = scoped_pool(api)
    external = external_network(api, pool)
    network = api.network()
    subnet = api.subnet(network, INSIDE, subnetpool_id=pool["id"])
    made = api.make("router", **{"external_gateway_info": gateway(external), "enable_ndp_proxy": True, **router})
    attach(api, made, subnet_id=subnet["id"]).expect(200)
    return Scoped(api, pool, external, network, subnet, made)
