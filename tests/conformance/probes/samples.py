"""One object of every kind, with all attributes that can be set together: what the extensions show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neutrino.model.agents import DHCP, AgentState
from neutrino.model.objects import Object
from tests.conformance.probes.asking import Shown, bindings_of, by_own_id
from tests.conformance.server import LiveServer

QOS_RULES: dict[str, Object] = {
    "bandwidth_limit": {"max_kbps": 1000},
    "dscp_marking": {"dscp_mark": 26},
    "minimum_bandwidth": {"min_kbps": 10},
    "packet_rate_limit": {"max_kpps": 10},
    "minimum_packet_rate": {"min_kpps": 1},
}
ALIASED = ("bandwidth_limit", "dscp_marking", "minimum_bandwidth", "minimum_packet_rate")


def sample_objects(server: LiveServer) -> Shown:
    """One object of each collection, as shown to an administrator."""
    server.report_agents([AgentState(DHCP, "neutron-dhcp-agent", "host-1", "dhcp_agent", "zone-1", start_flag=True)])

    def made(path: str, resource: str, /, **values: Any) -> Object:
        key = server.ask("POST", f"/v2.0/{path}", {resource: values})[resource]["id"]
        found: Object = server.ask("GET", f"/v2.0/{path}/{key}")[resource]
        return found

    scope = made("address-scopes", "address_scope", name="scope", ip_version=4)
    pool = made(
        "subnetpools", "subnetpool", name="pool", prefixes=["10.64.0.0/16"], default_prefixlen=24, is_default=True
    )
    network = made("networks", "network", name="net")
    subnet = made(
        "subnets", "subnet", network_id=network["id"], ip_version=4, use_default_subnetpool=True, prefixlen=24
    )
    group = made("security-groups", "security_group", name="group")
    addresses = made("address-groups", "address_group", name="addresses", addresses=["192.0.2.0/24"])
    rule = made(
        *("security-group-rules", "security_group_rule"),
        security_group_id=group["id"],
        direction="ingress",
        remote_address_group_id=addresses["id"],
    )
    port = made("ports", "port", network_id=network["id"], security_groups=[group["id"]])
    policy = made(
        *("rbac-policies", "rbac_policy"),
        object_type="network",
        object_id=network["id"],
        action="access_as_shared",
        target_tenant="bb" * 16,
    )
    several = made(
        *("networks", "network"),
        segments=[
            {"provider:network_type": "vlan", "provider:physical_network": "physnet1"},
            {"provider:network_type": "vxlan"},
        ],
    )
    outside = made("networks", "network", name="outside", is_default=True, **{"router:external": True})
    made("subnets", "subnet", network_id=outside["id"], ip_version=4, cidr="192.0.2.0/24")
    router = made("routers", "router", name="router", external_gateway_info={"network_id": outside["id"]})
    server.ask("PUT", f"/v2.0/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]})
    floating = made("floatingips", "floatingip", floating_network_id=outside["id"])
    path = f"floatingips/{floating['id']}/port_forwardings"
    forwarding = made(
        *(path, "port_forwarding"),
        internal_port_id=port["id"],
        internal_ip_address=port["fixed_ips"][0]["ip_address"],
        internal_port=80,
        external_port=8080,
        protocol="tcp",
    )
    helper = made(
        f"routers/{router['id']}/conntrack_helpers", "conntrack_helper", protocol="udp", port=69, helper="tftp"
    )
    profile = made("service_profiles", "service_profile", metainfo="{}")
    flavor = made("flavors", "flavor", name="flavor", service_type="L3_ROUTER_NAT", service_profiles=[profile["id"]])
    qos = made("qos/policies", "policy", name="gold")
    qos_rules = {
        type_: made(f"qos/policies/{qos['id']}/{type_}_rules", f"{type_}_rule", **values)
        for type_, values in QOS_RULES.items()
    }
    bound = made("ports", "port", network_id=network["id"], device_owner="compute:z", **{"binding:host_id": "host-1"})
    agent = server.ask("GET", "/v2.0/agents")["agents"][0]
    firewall_rule = made("fwaas/firewall_rules", "firewall_rule", action="allow", protocol="tcp")
    firewall_policy = made("fwaas/firewall_policies", "firewall_policy", firewall_rules=[firewall_rule["id"]])
    firewall_group = made(
        *("fwaas/firewall_groups", "firewall_group"),
        ingress_firewall_policy_id=firewall_policy["id"],
        ports=[bound["id"]],
    )
    template = made(
        *("default-security-group-rules", "default_security_group_rule"),
        direction="ingress",
        protocol="icmp",
        used_in_default_sg=False,
        used_in_non_default_sg=False,
    )
    setting = made("security-groups-default-statefulness", "security_group_default_statefulness", project_id="ab" * 16)
    parent, subport = (made("ports", "port", network_id=network["id"]) for _ in range(2))
    carried = {"port_id": subport["id"], "segmentation_type": "vlan", "segmentation_id": 10}
    trunk = made("trunks", "trunk", name="trunk", port_id=parent["id"], sub_ports=[carried])
    details = server.ask("GET", f"/v2.0/ports/{parent['id']}")["port"]["trunk_details"]
    log = made("log/logs", "log", resource_type="security_group", resource_id=group["id"])
    local_ip = made("local-ips", "local_ip", network_id=network["id"])
    associated = {"port_association": {"fixed_port_id": port["id"]}}
    associations = f"/v2.0/local_ips/{local_ip['id']}/port_associations"
    association = server.ask("POST", associations, associated)["port_association"]
    segment = server.ask("GET", f"/v2.0/segments?network_id={network['id']}")["segments"][0]
    segment_range = made(
        *("network-segment-ranges", "network_segment_range"), network_type="vxlan", minimum=70000, maximum=70001
    )
    label = made("metering/metering-labels", "metering_label", name="label")
    label_rule = made(
        *("metering/metering-label-rules", "metering_label_rule"),
        metering_label_id=label["id"],
        direction="ingress",
        source_ip_prefix="192.0.2.0/24",
    )
    service = made("taas/tap_services", "tap_service", port_id=port["id"])
    flow = {"tap_service_id": service["id"], "source_port": parent["id"], "direction": "IN", "vlan_filter": "9,18-20"}
    tap = made("taas/tap_flows", "tap_flow", **flow)
    collector = {"remote_ip": "192.0.2.9", "mirror_type": "gre"}
    mirror = made("taas/tap_mirrors", "tap_mirror", port_id=port["id"], directions={"IN": 1, "OUT": 2}, **collector)
    return {
        "networks": {**network, "segments": several["segments"]},
        "subnets": subnet,
        "ports": {**port, "trunk_details": details},  # of parents alone
        "trunks": trunk,
        "bindings": bindings_of(server, bound["id"])[0],
        "subnetpools": pool,
        "address_scopes": scope,
        "address_groups": addresses,
        "security_groups": group,
        "security_group_rules": rule,
        "default_security_group_rules": template,
        "security_groups_default_statefulness": setting,
        "rbac_policies": policy,
        "routers": router,
        "floatingips": floating,
        "port_forwardings": forwarding,
        "conntrack_helpers": helper,
        "firewall_rules": firewall_rule,
        "firewall_policies": firewall_policy,
        "firewall_groups": firewall_group,
        "logs": log,
        "loggable_resources": server.ask("GET", "/v2.0/log/loggable-resources")["loggable_resources"][0],
        "local_ips": local_ip,
        "port_associations": association,
        "segments": segment,
        "network_segment_ranges": segment_range,
        "metering_labels": label,
        "metering_label_rules": label_rule,
        "tap_services": service,
        "tap_flows": tap,
        "tap_mirrors": mirror,
        "bgp_speakers": made("bgp-speakers", "bgp_speaker", name="speaker", local_as=64512, ip_version=4),
        "bgp_peers": made("bgp-peers", "bgp_peer", peer_ip="192.0.2.9", remote_as=65000, auth_type="none"),
        "ndp_proxies": ndp_proxy(server, made),
        **vpn(server, made),
        "flavors": flavor,
        "service_profiles": profile,
        "service_providers": server.ask("GET", "/v2.0/service-providers")["service_providers"][0],
        "floatingip_pools": server.ask("GET", "/v2.0/floatingip_pools")["floatingip_pools"][0],
        "auto_allocated_topologies": server.ask("GET", "/v2.0/auto-allocated-topology/None")["auto_allocated_topology"],
        "agents": server.ask("GET", f"/v2.0/agents/{agent['id']}")["agent"],
        "policies": qos,
        **{f"{type_}_rules": one for type_, one in qos_rules.items()},
        **{f"alias_{type_}_rules": by_own_id(server, type_, qos_rules[type_]["id"]) for type_ in ALIASED},
        "rule_types": server.ask("GET", "/v2.0/qos/rule-types/dscp_marking")["rule_type"],
        "dhcp-agents": server.ask("GET", f"/v2.0/networks/{network['id']}/dhcp-agents")["agents"][0],
        "dhcp-networks": {"network_id": server.ask("GET", f"/v2.0/agents/{agent['id']}/dhcp-networks")["networks"]},
        "availability_zones": server.ask("GET", "/v2.0/availability_zones")["availability_zones"][0],
        "network_ip_availabilities": server.ask("GET", f"/v2.0/network-ip-availabilities/{network['id']}")[
            "network_ip_availability"
        ],
    }


def ndp_proxy(server: LiveServer, made: Callable[..., Object]) -> Object:
    """An NDP proxy, with a router and networks of its own in one IPv6 address scope."""
    scope = made("address-scopes", "address_scope", name="six", ip_version=6)
    pool = made("subnetpools", "subnetpool", name="six", prefixes=["2001:db8::/48"], address_scope_id=scope["id"])
    out = made("networks", "network", name="out6", **{"router:external": True})
    inside = made("networks", "network", name="in6")
    subnets = [
        made("subnets", "subnet", network_id=network["id"], ip_version=6, subnetpool_id=pool["id"], prefixlen=64)
        for network in (out, inside)
    ]
    gateway = {"network_id": out["id"]}
    router = made("routers", "router", name="six", external_gateway_info=gateway, enable_ndp_proxy=True)
    server.ask("PUT", f"/v2.0/routers/{router['id']}/add_router_interface", {"subnet_id": subnets[1]["id"]})
    port = made("ports", "port", network_id=inside["id"])
    return made("ndp_proxies", "ndp_proxy", router_id=router["id"], port_id=port["id"])


def vpn(server: LiveServer, made: Callable[..., Object]) -> dict[str, Object]:
    """A VPN connection with its policies and its service, on a router of its own."""
    out = made("networks", "network", name="out-vpn", **{"router:external": True})
    made("subnets", "subnet", network_id=out["id"], ip_version=4, cidr="198.19.0.0/24")
    inside = made("networks", "network", name="in-vpn")
    subnet = made("subnets", "subnet", network_id=inside["id"], ip_version=4, cidr="10.98.0.0/24")
    router = made("routers", "router", name="vpn", external_gateway_info={"network_id": out["id"]})
    server.ask("PUT", f"/v2.0/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]})
    ike, ipsec = made("vpn/ikepolicies", "ikepolicy"), made("vpn/ipsecpolicies", "ipsecpolicy")
    service = made("vpn/vpnservices", "vpnservice", router_id=router["id"], subnet_id=subnet["id"])
    policies = {"ikepolicy_id": ike["id"], "ipsecpolicy_id": ipsec["id"], "vpnservice_id": service["id"]}
    peer = {"peer_address": "192.0.2.7", "peer_id": "192.0.2.7", "peer_cidrs": ["10.99.0.0/24"], "psk": "key"}
    return {
        "ikepolicies": ike,
        "ipsecpolicies": ipsec,
        "vpnservices": service,
        "ipsec_site_connections": made("vpn/ipsec-site-connections", "ipsec_site_connection", **policies, **peer),
        "endpoint_groups": made("vpn/endpoint-groups", "endpoint_group", type="cidr", endpoints=["10.99.0.0/24"]),
    }
