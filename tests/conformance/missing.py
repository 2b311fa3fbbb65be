"""Extensions of neutron-lib that are not advertised here, by the feature that would provide them."""

from __future__ import annotations

# Feature -> aliases.
MISSING: dict[str, str] = {
    "what only other drivers of routers do": """
        external-gateway-multihoming enable-default-route-bfd enable-default-route-ecmp ecmp_routes
        floating-ip-distributed floating-ip-router-writable l3-port-ip-change-not-allowed
        l3-agent-scheduler-ha-chassis-priority dns-integration-domain-keywords
    """,
    "service types of routers, which flavors have replaced": "router-service-type",
    "trunks": "trunk trunk-details",
    "segments of routed networks": """
        segment standard-attr-segment segments-peer-subnet-host-routes subnet-segmentid-enforce
        subnet-segmentid-writable
    """,
    "network segment ranges": "network-segment-range",
    "logging of security groups": "logging",
    "local IPs": "local_ip",
    "default networks of projects": "project-default-networks",
    "default rules of security groups": "security-groups-default-rules security-groups-default-statefulness",
    "ports of special hardware": """
        port-device-profile port-hardware-offload-type port-hint-ovs-tx-steering port-hints port-mac-override
        port-numa-affinity-policy port-numa-affinity-policy-socket port-trusted-vif uplink-status-propagation-updatable
    """,
    "an external DNS service": "subnet-dns-publish-fixed-ip",
    "nothing planned": """
        agent_sort_key network-cascade-delete quota-check-limit-default subnet_onboard vlan-transparent qinq pvlan
    """,
}

# Provided by other projects of OpenStack.
OTHERS = """
    bgp bgp_4byte_asn bgp_dragent_scheduler bgpvpn bgpvpn-routes-control bgpvpn-vni rbac-bgpvpn standard-attr-bgpvpn
    standard-attr-bgpvpn-network-association standard-attr-bgpvpn-port-association
    standard-attr-bgpvpn-router-association evpn ovn-bgp flow_classifier sfc taas
    taas-vlan-filter tap-mirror tap-mirror-both-direction vpnaas vpn-aes-ccm-gcm vpn-aes-ctr vpn-endpoint-groups
    vpn-flavors vpn-no-sha1-3des
"""
