"""What a trace reads of routers and floating IPs: the feature that has them is asked, here there are none."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy.engine import Connection

from neutrino.server.trace.values import TracedFloatingIp, TracedForwarding, TracedRouter


class PublicAddress(NamedTuple):
    """By what the outside reaches a port."""

    address: str
    network_id: str  # the external network
    port: int | None


class Routing:
    def read(self, connection: Connection, router_ids: Collection[str]) -> Mapping[str, TracedRouter]:
        return {}

    def routers_on(self, connection: Connection, network_ids: Collection[str]) -> set[str]:
        """The routers with a port on one of the networks."""
        return set()

    def routers_of(self, connection: Connection, port_ids: Collection[str]) -> Mapping[str, str]:
        """The routers of those of the ports that are a router's."""
        return {}

    def ports_of(self, connection: Connection, router_ids: Collection[str]) -> set[str]:
        return set()

    def networks_of(self, connection: Connection, router_ids: Collection[str]) -> set[str]:
        """The networks that the routers have a port on."""
        return set()

    def network_outside(self, connection: Connection, subnet_ids: Collection[str]) -> str:
        """The external network of a router with an interface on one of the subnets; empty: there is none."""
        return ""

    def floating_ips(
        self,
        connection: Connection,
        *,
        addresses: Collection[str] = (),
        port_ids: Collection[str] = (),
        router_ids: Collection[str] = (),
    ) -> Mapping[str, TracedFloatingIp]:
        """The floating IPs with these addresses, of these ports and of these routers."""
        return {}

    def forwardings(self, connection: Connection, floating_ip_ids: Collection[str]) -> Mapping[str, TracedForwarding]:
        """The port forwardings of floating IPs."""
        return {}

    def forwarded(self, connection: Connection, port_id: str, protocol: int, port: int) -> PublicAddress | None:
        """By what the outside reaches a port of an instance through a port forwarding."""
        return None


NO_ROUTING = Routing()
