"""Extensions of neutron-lib that are not advertised here, by the feature that would provide them."""

from __future__ import annotations

# Feature -> aliases.
MISSING: dict[str, str] = {
    "what Neutron has for OVN alone": "pvlan floating-ip-distributed l3-agent-scheduler-ha-chassis-priority ecmp_routes",
}

# Provided by other projects of OpenStack. Reason -> aliases.
OTHER_PROJECTS: dict[str, str] = {
    "BGP VPNs are networking-bgpvpn's, whose routers and agents are its own drivers'": """
        bgpvpn bgpvpn-routes-control bgpvpn-vni rbac-bgpvpn standard-attr-bgpvpn standard-attr-bgpvpn-network-association
        standard-attr-bgpvpn-port-association standard-attr-bgpvpn-router-association
    """,
    "they are drivers of OVN": "evpn ovn-bgp",
    "service chaining is networking-sfc's, with drivers and an agent extension of its own": "flow_classifier sfc",
}
