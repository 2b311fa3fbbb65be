"""Router advertisements: whether the router accepts those of others. Its own are radvd's."""

from neutrino.agent.l3.devices import default_routes
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace


class RouterAdvertisements(L3Extension):
    name = "router advertisements"

    def render(self, namespace: RouterNamespace) -> Contribution:
        """A router ignores advertisements, except on a gateway device for which no IPv6 next hop is known."""
        sysctls = {"net/ipv6/conf/all/accept_ra": "0", "net/ipv6/conf/default/accept_ra": "0"}
        if namespace.router.gateway is not None:
            routes = default_routes(namespace.outside, namespace.gateway, namespace.options.ipv6_gateway)
            known = any(route.version == 6 for route in routes)
            # A standby host of an HA router must not configure an address from an advertisement: it would use it.
            accept = "0" if known or namespace.router.ha is not None else "2"  # 2: although forwarding is on
            sysctls[f"net/ipv6/conf/{namespace.outside}/accept_ra"] = accept
        return Contribution(sysctls=sysctls)
