"""What tests of VPN services need: a router with a gateway and a subnet, policies, a service and a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neutrino.model.objects import Object
from tests.api.client import Api
from tests.api.l3 import attach, gateway, inside, outside

CONNECTIONS, SERVICES, GROUPS = "/vpn/ipsec-site-connections", "/vpn/vpnservices", "/vpn/endpoint-groups"
IKE, IPSEC = "/vpn/ikepolicies", "/vpn/ipsecpolicies"


@dataclass(frozen=True)
class Site:
    api: Api
    external: Object
    router: Object
    subnet: Object

    def service(self, **values: Any) -> Object:
        return self.api.make("vpnservice", router_id=self.router["id"], **{"subnet_id": self.subnet["id"], **values})

    def connection(self, service: Object, **values: Any) -> Object:
        """The body of a connection."""
        ike, ipsec = self.api.make("ikepolicy"), self.api.make("ipsecpolicy")
        wanted = {
            "vpnservice_id": service["id"],
            "ikepolicy_id": ike["id"],
            "ipsecpolicy_id": ipsec["id"],
            "peer_address": "198.51.100.7",
            "peer_id": "198.51.100.7",
            "peer_cidrs": ["10.9.0.0/24"],
            "psk": "s3cret",
        }
        return {**wanted, **values}


def site(admin: Api, member: Api, cidr: str = "10.0.0.0/24", external: Object | None = None) -> Site:
    """A router of a project with a gateway and a subnet."""
    external = external or outside(admin)
    router = member.make("router", external_gateway_info=gateway(external))
    _, subnet = inside(member, cidr)
    attach(member, router, subnet_id=subnet["id"]).expect(200)
    return Site(member, external, router, subnet)
