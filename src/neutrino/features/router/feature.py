"""Routers and floating IPs, with port forwardings, NDP proxies and conntrack helpers, and the agents that serve them."""

from neutrino.features.flavors.resources import L3_ROUTER_NAT
from neutrino.features.router import ndp_proxies, policy, port_callbacks, takeover
from neutrino.features.router import tables as router_tables
from neutrino.features.router.build import build, host_reports, start
from neutrino.features.router.extensions import EXTENSIONS
from neutrino.features.router.facts import add_facts
from neutrino.features.router.feed import FEED
from neutrino.features.router.options import OPTIONS
from neutrino.features.router.providers import PROVIDERS
from neutrino.features.router.routers import ha_networks
from neutrino.features.router.tables import routers
from neutrino.features.router.trace import TracedRouting
from neutrino.server.features import Feature
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.uses import FlavorUse, NetworkUse

FEATURES = (
    Feature(
        name="router",
        neutron_plugin="neutron.services.l3_router.l3_router_plugin.L3RouterPlugin",
        requires=("flavors",),
        extensions=EXTENSIONS,
        takeover=takeover.FAMILIES,
        build=build,
        policy=policy.DEFAULTS,
        deprecated_policy=policy.DEPRECATED,
        earlier_policy_names=policy.EARLIER_NAMES,
        # Neutron's defaults; that of port forwardings bounds the nft elements that a project costs its hosts.
        quotas={"router": 10, "floatingip": 50, "router_route": 30, "port_forwarding": 100},
        options={None: OPTIONS},
        start=start,
        ports=(
            PortUse(port_callbacks.REFERENCES, port_callbacks.check_delete, port_callbacks.port_changes),
            PortUse((router_tables.ndp_proxies.c.port_id,), changes=ndp_proxies.port_changes),
        ),
        networks=(
            NetworkUse(ha_networks.check_network, ha_networks.record_network, users=ha_networks.routers_on),
            NetworkUse(find_unused=port_callbacks.find_unused, external_users=port_callbacks.EXTERNAL_USERS),
        ),
        flavors=(FlavorUse(L3_ROUTER_NAT, tuple(each.name for each in PROVIDERS), routers.c.flavor_id),),
        feed=FEED,
        host_reports=host_reports,
        routing=TracedRouting(),
        facts=add_facts,
    ),
)
