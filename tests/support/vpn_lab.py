"""Two sites in a lab, each a router with a network and an instance, and IPsec connections between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.capture import Capture
from tests.support.lab import address, open_group
from tests.support.lab_control import Lab
from tests.support.routing_lab import SOON, gateway_address, make_router, tenant_network

KEY = "s3cret 'key\""
SERVICES, CONNECTIONS = "/v2.0/vpn/vpnservices", "/v2.0/vpn/ipsec-site-connections"


def made(lab: Lab, path: str, kind: str, **values: Any) -> Object:
    return dict(lab.api.request("POST", f"/v2.0/vpn/{path}", {kind: values})[kind])


@dataclasses.dataclass(frozen=True)
class Site:
    lab: Lab
    name: str
    router: Object
    subnet: Object
    service: Object
    host: str
    subnet6: Object

    @property
    def external(self) -> str:
        return gateway_address(self.lab, self.router)

    @property
    def instance(self) -> str:
        return address(self.lab, self.name)

    @property
    def instance6(self) -> str:
        return address(self.lab, self.name, 6)

    def connect(self, other: Site, ike: Object, ipsec: Object, **values: Any) -> Object:
        wanted = {
            "vpnservice_id": self.service["id"],
            "ikepolicy_id": ike["id"],
            "ipsecpolicy_id": ipsec["id"],
            "peer_address": other.external,
            "peer_id": other.external,
            "peer_cidrs": [other.subnet["cidr"]],
            "psk": KEY,
        }
        return made(self.lab, "ipsec-site-connections", "ipsec_site_connection", **{**wanted, **values})

    def update(self, connection: Object, **values: Any) -> None:
        self.lab.api.request("PUT", f"{CONNECTIONS}/{connection['id']}", {"ipsec_site_connection": values})

    def wait_for(self, connection: Object, status: str) -> None:
        def has_it() -> bool:
            found = self.lab.api.request("GET", f"{CONNECTIONS}/{connection['id']}")["ipsec_site_connection"]
            return bool(found["status"] == status)

        wait_until(has_it, SOON, f"connection of {self.name} not {status}")

    @property
    def status(self) -> str:
        return str(self.lab.api.request("GET", f"{SERVICES}/{self.service['id']}")["vpnservice"]["status"])

    def run(self, *argv: str, check: bool = True) -> str:
        """A command where the gateway is."""
        namespace = ("snat-" if self.router["distributed"] else "qrouter-") + self.router["id"]
        return str(self.lab.run(self.host, ["ip", "netns", "exec", namespace, *argv], check=check).stdout)

    def wire(self) -> Capture:
        """Packets that leave by the gateway's device: those that the kernel decrypts are seen there once more, in clear."""
        (port,) = self.lab.api.list("port", device_id=self.router["id"], device_owner="network:router_gateway")
        namespace = ("snat-" if self.router["distributed"] else "qrouter-") + self.router["id"]

        def start(argv: Any) -> Any:
            return self.lab.popen(self.host, ["ip", "netns", "exec", namespace, *argv])

        return Capture(start, f"qg-{port['id']}"[:14], "ip", direction="out")


def make_site(
    lab: Lab, out: Object, name: str, number: int, host: str | Callable[[Object], str], **router: Any
) -> Site:
    """`host`: of the instance; or a function that chooses it when the router is there."""
    network = tenant_network(lab, name, number)
    made_router = make_router(lab, out, network, name=name, **router)
    subnet = network["by_version"][4]
    chosen = host if isinstance(host, str) else host(made_router)
    lab.vm(name, network=network["id"], host=chosen, security_groups=[open_group(lab)])
    service = made(lab, "vpnservices", "vpnservice", router_id=made_router["id"], subnet_id=subnet["id"])
    return Site(lab, name, made_router, subnet, service, chosen, network["by_version"][6])
