"""Extensions of neutron-lib that are not advertised here, by the feature that would provide them."""

from __future__ import annotations

# Feature -> aliases.
MISSING: dict[str, str] = {
    "supervision of a router's next hops": "enable-default-route-bfd",
    "what Neutron has for OVN alone": "pvlan floating-ip-distributed l3-agent-scheduler-ha-chassis-priority ecmp_routes",
    # Its definition has no attribute, parameter or action, so a client cannot ask for it: a plugin that advertises it
    # deletes the ports of every deleted network. Neutron's ML2 plugin does not, and answers NetworkInUse.
    "ports deleted with every deleted network, without a way to ask for it; ML2 refuses": "network-cascade-delete",
}

# Provided by other projects of OpenStack.
OTHERS = """
    bgpvpn bgpvpn-routes-control bgpvpn-vni rbac-bgpvpn standard-attr-bgpvpn
    standard-attr-bgpvpn-network-association standard-attr-bgpvpn-port-association
    standard-attr-bgpvpn-router-association evpn ovn-bgp flow_classifier sfc
"""
