"""The extension list is true: for every advertised alias, a feature of it is used on a live server."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest

from neutrino.model.agents import BGP, DHCP, L3, AgentState
from tests.conformance.facts import CORE, aliases_of_lib, of_neutron
from tests.conformance.neutron_facts import NEUTRON
from tests.conformance.server import PROJECT, ROLES, LiveServer

Object = dict[str, Any]
Shown = dict[str, Object]
Probe = Callable[[LiveServer, Shown], None]

# Extensions that clients and other services check for.
_NEEDED = """
    project-id standard-attr-timestamp standard-attr-revisions standard-attr-description standard-attr-tag
    revision-if-match pagination sorting filter-validation empty-string-filtering binding binding-extended provider
    multi-provider external-net net-mtu net-mtu-writable security-group stateful-security-group port-security
    allowed-address-pairs extra_dhcp_opt dns-integration subnet_allocation default-subnetpools subnet-service-types
    address-scope address-group security-groups-remote-address-group security-groups-shared-filtering
    security-groups-normalized-cidr port-security-groups-filtering ip-substring-filtering rbac-policies
    rbac-security-groups rbac-address-scope rbac-subnetpool rbac-address-group quotas quota_details quota-check-limit
    agent availability_zone network_availability_zone dhcp_agent_scheduler network-ip-availability
    port-mac-address-regenerate ip_allocation l2_adjacency uplink-status-propagation data-plane-status
    tag-ports-during-bulk-creation router ext-gw-mode extraroute extraroute-atomic dvr l3-ha l3_agent_scheduler
    router_availability_zone fip-port-details floating-ip-port-forwarding floating-ip-port-forwarding-detail
    floating-ip-port-forwarding-port-ranges floating-ip-port-forwarding-description expose-port-forwarding-in-fip
    l3-conntrack-helper router-admin-state-down-before-update auto-allocated-topology flavors l3-flavors service-type
    network_ha floatingip-pools qos qos-bw-limit-direction qos-bw-minimum-ingress qos-default qos-fip
    qos-fip-network-policy qos-gateway-ip qos-port-network-policy qos-pps qos-pps-minimum qos-pps-minimum-rule-alias
    qos-rule-type-details qos-rule-type-filter qos-rules-alias port-resource-request port-resource-request-groups
    agent-resources-synced fwaas_v2 standard-attr-fwaas-v2 uplink-status-propagation-updatable port-device-profile
    port-hardware-offload-type port-hints port-hint-ovs-tx-steering port-mac-override port-numa-affinity-policy
    port-numa-affinity-policy-socket port-trusted-vif vlan-transparent qinq security-groups-default-rules
    security-groups-default-statefulness subnet_onboard floating-ip-router-writable l3-port-ip-change-not-allowed
    agent_sort_key quota-check-limit-default subnet-dns-publish-fixed-ip dns-integration-domain-keywords trunk
    trunk-details logging local_ip segment standard-attr-segment segments-peer-subnet-host-routes
    subnet-segmentid-writable subnet-segmentid-enforce network-segment-range metering
    metering_source_and_destination_fields l3-ndp-proxy l3-ext-ndp-proxy taas taas-vlan-filter tap-mirror
    tap-mirror-both-direction bgp bgp_4byte_asn bgp_dragent_scheduler
"""
NEEDED = _NEEDED.split()

QOS_RULES: dict[str, Object] = {
    "bandwidth_limit": {"max_kbps": 1000},
    "dscp_marking": {"dscp_mark": 26},
    "minimum_bandwidth": {"min_kbps": 10},
    "packet_rate_limit": {"max_kpps": 10},
    "minimum_packet_rate": {"min_kpps": 1},
}
ALIASED = ("bandwidth_limit", "dscp_marking", "minimum_bandwidth", "minimum_packet_rate")

# Advertising one of these would make clients use a missing feature.
NOT_HERE = ("bgpvpn", "vpnaas")


@pytest.fixture(scope="module")
def advertised(server: LiveServer) -> list[Object]:
    extensions: list[Object] = server.ask("GET", "/v2.0/extensions")["extensions"]
    return extensions


@pytest.fixture(scope="module")
def shown(server: LiveServer) -> Shown:
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


def by_own_id(server: LiveServer, type_: str, key: str) -> Object:
    found: Object = server.ask("GET", f"/v2.0/qos/alias_{type_}_rules/{key}")[f"alias_{type_}_rule"]
    return found


def bindings_of(server: LiveServer, port_id: str) -> list[Object]:
    status, answer = server.exchange("GET", f"/v2.0/ports/{port_id}/bindings", headers={"X-Roles": "service"})
    assert status == 200, answer
    found: list[Object] = answer["bindings"]
    return found


# --- what an alias adds to the attributes that are shown --------------------------------------------------------------


def refused(server: LiveServer, method: str, path: str, body: Any = None, status: int = 400) -> None:
    got, answer = server.exchange(method, path, body)
    assert got == status, answer
    assert answer["NeutronError"]["message"]


def ids(server: LiveServer, path: str) -> list[str]:
    (listed,) = (value for key, value in server.ask("GET", f"/v2.0/{path}").items() if not key.endswith("_links"))
    return [item["id"] for item in listed]


def both_names(server: LiveServer, shown: Shown) -> None:
    assert shown["networks"]["project_id"] == shown["networks"]["tenant_id"] == PROJECT


def if_match(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/security-groups/{shown['security_groups']['id']}"
    body = {"security_group": {"description": "x"}}
    assert server.exchange("PUT", path, body, {"If-Match": "revision_number=9999"})[0] == 412


def pages(server: LiveServer, shown: Shown) -> None:
    answer = server.ask("GET", "/v2.0/networks?limit=1&sort_key=id&sort_dir=asc")
    assert len(answer["networks"]) == 1
    assert {link["rel"] for link in answer["networks_links"]} >= {"next"}


def order(server: LiveServer, shown: Shown) -> None:
    up, down = (ids(server, f"networks?sort_key=id&sort_dir={direction}") for direction in ("asc", "desc"))
    assert up == sorted(up) == down[::-1]


def empty_name(server: LiveServer, shown: Shown) -> None:
    assert shown["subnets"]["id"] in ids(server, "subnets?name=")
    assert shown["networks"]["id"] not in ids(server, "networks?name=")


def bindings(server: LiveServer, shown: Shown) -> None:
    body = {"network_id": shown["networks"]["id"], "device_owner": "compute:z", "binding:host_id": "h"}
    key = server.ask("POST", "/v2.0/ports", {"port": body})["port"]["id"]
    assert [binding["host"] for binding in bindings_of(server, key)] == ["h"]


def by_group(server: LiveServer, shown: Shown) -> None:
    assert ids(server, f"ports?security_groups={shown['security_groups']['id']}") == [shown["ports"]["id"]]


def by_part_of_address(server: LiveServer, shown: Shown) -> None:
    address = shown["ports"]["fixed_ips"][0]["ip_address"]
    assert shown["ports"]["id"] in ids(server, f"ports?fixed_ips=ip_address_substr%3D{address[:-1]}")


def quotas(server: LiveServer, shown: Shown) -> None:
    assert server.ask("PUT", f"/v2.0/quotas/{'cc' * 16}", {"quota": {"port": 7}})["quota"]["port"] == 7
    assert server.ask("GET", f"/v2.0/quotas/{'cc' * 16}/default")["quota"]["port"] == 500
    server.ask("DELETE", f"/v2.0/quotas/{'cc' * 16}")


def quota_details(server: LiveServer, shown: Shown) -> None:
    details = server.ask("GET", f"/v2.0/quotas/{PROJECT}/details.json")["quota"]
    assert details["port"]["used"] >= 1
    assert details["port"]["limit"] == 500


def quota_below_use(server: LiveServer, shown: Shown) -> None:
    body = {"quota": {"port": 0, "check_limit": True}}
    refused(server, "PUT", f"/v2.0/quotas/{PROJECT}", body, status=400)


def from_pool(server: LiveServer, shown: Shown) -> None:
    assert shown["subnets"]["subnetpool_id"] == shown["subnetpools"]["id"]
    assert shown["subnets"]["cidr"].startswith("10.64.")


def prefixes(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/subnetpools/{shown['subnetpools']['id']}"
    assert "10.80.0.0/16" in server.ask("PUT", f"{path}/add_prefixes", {"prefixes": ["10.80.0.0/16"]})["prefixes"]
    assert (
        "10.80.0.0/16" not in server.ask("PUT", f"{path}/remove_prefixes", {"prefixes": ["10.80.0.0/16"]})["prefixes"]
    )


def sharing(kind: str, collection: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        body = {
            "object_type": kind,
            "object_id": shown[collection]["id"],
            "action": "access_as_shared",
            "target_tenant": "bb" * 16,
        }
        policy = server.ask("POST", "/v2.0/rbac-policies", {"rbac_policy": body})["rbac_policy"]
        path = f"/v2.0/{collection.replace('_', '-')}/{shown[collection]['id']}"
        assert server.exchange("GET", path, headers={"X-Project-Id": "bb" * 16, "X-Roles": "member,reader"})[0] == 200
        server.ask("DELETE", f"/v2.0/rbac-policies/{policy['id']}")

    return probe


def zones(server: LiveServer, shown: Shown) -> None:
    assert server.ask("GET", "/v2.0/availability_zones?name=zone-1")["availability_zones"]
    assert server.ask("GET", "/v2.0/availability_zones?name=zone-2")["availability_zones"] == []


def scheduling(server: LiveServer, shown: Shown) -> None:
    network, agent = shown["networks"]["id"], shown["agents"]["id"]
    server.ask("DELETE", f"/v2.0/agents/{agent}/dhcp-networks/{network}")
    assert server.ask("GET", f"/v2.0/networks/{network}/dhcp-agents")["agents"] == []
    server.ask("POST", f"/v2.0/agents/{agent}/dhcp-networks", {"network_id": network})
    assert network in ids(server, f"agents/{agent}/dhcp-networks")


def no_second_default(server: LiveServer, shown: Shown) -> None:
    refused(server, "POST", "/v2.0/security-groups", {"security_group": {"name": "default"}}, status=409)


def tags(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/networks/{shown['networks']['id']}/tags"
    server.ask("PUT", path, {"tags": ["red"]})
    assert ids(server, "networks?tags=red") == [shown["networks"]["id"]]
    server.ask("DELETE", f"{path}/red")


def several_tags(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/subnets/{shown['subnets']['id']}/tags"
    server.ask("POST", path, {"tags": ["a", "b"]})
    assert server.ask("GET", path)["tags"] == ["a", "b"]


def tagged_from_the_start(server: LiveServer, shown: Shown) -> None:
    network = shown["networks"]["id"]
    body = {"ports": [{"network_id": network, "tags": ["t2", "t1"]}, {"network_id": network}]}
    first, second = server.ask("POST", "/v2.0/ports", body)["ports"]
    assert (first["tags"], second["tags"]) == (["t1", "t2"], [])
    assert ids(server, "ports?tags=t1,t2") == [first["id"]]
    refused(server, "POST", "/v2.0/ports", {"port": {"network_id": network, "tags": ["x", "x"]}})


def new_mac(server: LiveServer, shown: Shown) -> None:
    port = shown["ports"]
    changed = server.ask("PUT", f"/v2.0/ports/{port['id']}", {"port": {"mac_address": None}})["port"]
    assert changed["mac_address"] not in (None, port["mac_address"])


def no_multicast_pair(server: LiveServer, shown: Shown) -> None:
    pair = {"ip_address": "224.0.0.18"}
    body = {"port": {"network_id": shown["networks"]["id"], "allowed_address_pairs": [pair]}}
    refused(server, "POST", "/v2.0/ports", body)


def writable_mtu(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/networks/{shown['networks']['id']}"
    assert server.ask("PUT", path, {"network": {"mtu": 1400}})["network"]["mtu"] == 1400


def external_subnets(server: LiveServer, shown: Shown) -> None:
    assert shown["subnets"]["id"] in ids(server, "subnets?router:external=false")
    assert shown["subnets"]["id"] not in ids(server, "subnets?router:external=true")


def single_routes(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/routers/{shown['routers']['id']}"
    hop = {"destination": "198.51.100.0/24", "nexthop": str(ipaddress.ip_network(shown["subnets"]["cidr"])[250])}
    assert server.ask("PUT", f"{path}/add_extraroutes", {"router": {"routes": [hop]}})["router"]["routes"] == [hop]
    assert server.ask("PUT", f"{path}/remove_extraroutes", {"router": {"routes": [hop]}})["router"]["routes"] == []


def several_gateways(server: LiveServer, shown: Shown) -> None:
    router = server.ask("POST", "/v2.0/routers", {"router": {}})["router"]
    gateways = []
    for i in (1, 2):
        network = {"network": {"router:external": True}}
        made = server.ask("POST", "/v2.0/networks", network)["network"]["id"]
        subnet = {"network_id": made, "ip_version": 4, "cidr": f"198.18.{i}.0/24"}
        server.ask("POST", "/v2.0/subnets", {"subnet": subnet})
        gateways.append({"network_id": made})
    path, body = f"/v2.0/routers/{router['id']}", {"router": {"external_gateways": gateways}}
    added = server.ask("PUT", f"{path}/add_external_gateways", body)["router"]
    assert [each["network_id"] for each in added["external_gateways"]] == [each["network_id"] for each in gateways]
    body = {"router": {"external_gateways": gateways[::-1]}}
    updated = server.ask("PUT", f"{path}/update_external_gateways", body)["router"]
    assert updated["external_gateways"] == added["external_gateways"][::-1]
    assert server.ask("PUT", f"{path}/remove_external_gateways", body)["router"]["external_gateways"] == []
    server.ask("DELETE", path)


def default_routes_over_all(server: LiveServer, shown: Shown) -> None:
    body = {"router": {"enable_default_route_ecmp": True}}
    router = server.ask("POST", "/v2.0/routers", body)["router"]
    assert router["enable_default_route_ecmp"] is True
    server.ask("DELETE", f"/v2.0/routers/{router['id']}")


def typed_router(server: LiveServer, shown: Shown) -> None:
    service_type = shown["flavors"]["id"]
    body = {"router": {"service_type_id": service_type}}
    router = server.ask("POST", "/v2.0/routers", body)["router"]
    path = f"/v2.0/routers/{router['id']}"
    assert server.ask("GET", path)["router"]["service_type_id"] == service_type
    refused(server, "PUT", path, body)
    server.ask("DELETE", path)


def routers_of_agents(server: LiveServer, shown: Shown) -> None:
    server.report_agents([AgentState(L3, "neutron-l3-agent", "host-1", "l3_agent", "zone-1", start_flag=True)])
    agent = server.ask("GET", "/v2.0/agents?agent_type=L3%20agent")["agents"][0]["id"]
    router = shown["routers"]["id"]
    server.ask("POST", f"/v2.0/agents/{agent}/l3-routers", {"router_id": router})
    assert router in ids(server, f"agents/{agent}/l3-routers")
    assert [a["id"] for a in server.ask("GET", f"/v2.0/routers/{router}/l3-agents")["agents"]] == [agent]
    server.ask("DELETE", f"/v2.0/agents/{agent}/l3-routers/{router}")
    assert server.ask("GET", f"/v2.0/routers/{router}/l3-agents")["agents"] == []


def kind_while_up(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/routers/{shown['routers']['id']}"
    refused(server, "PUT", path, {"router": {"distributed": True}})


def unused_go(server: LiveServer, shown: Shown) -> None:
    body = {"network": {"name": "turned", "router:external": True}}
    network = server.ask("POST", "/v2.0/networks", body)["network"]["id"]
    server.ask("POST", "/v2.0/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}})
    floating = server.ask("POST", "/v2.0/floatingips", {"floatingip": {"floating_network_id": network}})["floatingip"]
    server.ask("PUT", f"/v2.0/networks/{network}", {"network": {"router:external": False}})
    assert floating["id"] not in ids(server, "floatingips")


def ids_of_forwardings(server: LiveServer, shown: Shown) -> None:
    found = server.ask("GET", f"/v2.0/floatingips/{shown['floatingips']['id']}")["floatingip"]["port_forwardings"]
    wanted = {name: shown["port_forwardings"][name] for name in ("id", "internal_port_id")}
    assert [{name: one[name] for name in wanted} for one in found] == [wanted]


def ha_networks(server: LiveServer, shown: Shown) -> None:
    body = {"network": {"name": "meeting", "ha": True, "project_id": "dd" * 16}}
    assert "ha" not in server.ask("POST", "/v2.0/networks", body)["network"]
    refused(server, "POST", "/v2.0/networks", body, status=409)


def firewall_revisions(server: LiveServer, shown: Shown) -> None:
    rule = shown["firewall_rules"]
    changed = server.ask("PUT", f"/v2.0/fwaas/firewall_rules/{rule['id']}", {"firewall_rule": {"description": "x"}})
    assert changed["firewall_rule"]["revision_number"] > rule["revision_number"]
    for collection in ("firewall_rules", "firewall_policies", "firewall_groups"):
        assert shown[collection].keys() >= {"description", "created_at", "updated_at", "revision_number", "tags"}


def logged_port(server: LiveServer, shown: Shown) -> None:
    about = {"resource_type": "security_group", "target_id": shown["ports"]["id"]}
    made = server.ask("POST", "/v2.0/log/logs", {"log": {**about, "event": "DROP"}})["log"]
    path = f"/v2.0/log/logs/{made['id']}"
    assert server.ask("PUT", path, {"log": {"enabled": False}})["log"]["enabled"] is False
    server.ask("DELETE", path)
    refused(server, "POST", "/v2.0/log/logs", {"log": {"resource_type": "router"}})


def local_address(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/local_ips/{shown['local_ips']['id']}/port_associations"
    assert server.ask("GET", path)["port_associations"] == [shown["port_associations"]]
    refused(server, "DELETE", f"/v2.0/local-ips/{shown['local_ips']['id']}", status=409)


def tapped_port(server: LiveServer, shown: Shown) -> None:
    flow = shown["tap_flows"]
    path = f"/v2.0/taas/tap_flows/{flow['id']}"
    assert server.ask("PUT", path, {"tap_flow": {"name": "x"}})["tap_flow"]["name"] == "x"
    server.ask("PUT", path, {"tap_flow": {"name": flow["name"]}})
    refused(server, "PUT", path, {"tap_flow": {"direction": "OUT"}})


def filtered_vlans(server: LiveServer, shown: Shown) -> None:
    assert shown["tap_flows"]["vlan_filter"] == "9,18-20"
    names = ("tap_service_id", "source_port", "direction")
    flow = {name: shown["tap_flows"][name] for name in names}
    refused(server, "POST", "/v2.0/taas/tap_flows", {"tap_flow": {**flow, "vlan_filter": "4096"}})


def mirrored_port(server: LiveServer, shown: Shown) -> None:
    mirror = {name: shown["tap_mirrors"][name] for name in ("port_id", "directions", "remote_ip", "mirror_type")}
    refused(server, "POST", "/v2.0/taas/tap_mirrors", {"tap_mirror": mirror}, status=409)


def mirrored_both_ways(server: LiveServer, shown: Shown) -> None:
    mirror = {name: shown["tap_mirrors"][name] for name in ("port_id", "remote_ip", "mirror_type")}
    body = {"tap_mirror": {**mirror, "directions": {"BOTH": 3}}}
    made = server.ask("POST", "/v2.0/taas/tap_mirrors", body)["tap_mirror"]
    assert made["directions"] == {"BOTH": 3}
    server.ask("DELETE", f"/v2.0/taas/tap_mirrors/{made['id']}")


def speaker_with_peer_and_network(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/bgp-speakers/{shown['bgp_speakers']['id']}"
    peer, network = shown["bgp_peers"]["id"], shown["networks"]["id"]
    assert server.ask("PUT", f"{path}/add_bgp_peer", {"bgp_peer_id": peer}) == {"bgp_peer_id": peer}
    assert server.ask("PUT", f"{path}/add_gateway_network", {"network_id": network}) == {"network_id": network}
    found = server.ask("GET", path)["bgp_speaker"]
    assert (found["peers"], found["networks"]) == ([peer], [network])
    assert server.ask("GET", f"{path}/get_advertised_routes") == {"advertised_routes": []}
    refused(server, "PUT", f"{path}/add_bgp_peer", {"bgp_peer_id": peer}, status=409)
    server.ask("PUT", f"{path}/remove_bgp_peer", {"bgp_peer_id": peer})
    server.ask("PUT", f"{path}/remove_gateway_network", {"network_id": network})


def long_as_numbers(server: LiveServer, shown: Shown) -> None:
    given = {"local_as": 4294967295, "ip_version": 6}
    made = server.ask("POST", "/v2.0/bgp-speakers", {"bgp_speaker": given})["bgp_speaker"]
    assert made["local_as"] == 4294967295
    refused(server, "POST", "/v2.0/bgp-speakers", {"bgp_speaker": {**given, "local_as": 4294967296}})
    server.ask("DELETE", f"/v2.0/bgp-speakers/{made['id']}")


def speakers_of_agents(server: LiveServer, shown: Shown) -> None:
    server.report_agents([AgentState(BGP, "neutron-bgp-dragent", "host-b", "bgp_dragent", start_flag=True)])
    (agent,) = server.ask("GET", "/v2.0/agents?host=host-b")["agents"]
    speaker = shown["bgp_speakers"]["id"]
    path, hosting = f"/v2.0/agents/{agent['id']}/bgp-drinstances", f"/v2.0/bgp-speakers/{speaker}/bgp-dragents"
    server.ask("POST", path, {"bgp_speaker_id": speaker})
    assert [each["id"] for each in server.ask("GET", path)["bgp_speakers"]] == [speaker]
    assert [each["id"] for each in server.ask("GET", hosting)["agents"]] == [agent["id"]]
    refused(server, "POST", path, {"bgp_speaker_id": speaker}, status=409)
    server.ask("DELETE", f"{path}/{speaker}")
    assert server.ask("GET", hosting) == {"agents": []}


def segment_revisions(server: LiveServer, shown: Shown) -> None:
    segment = shown["segments"]
    changed = server.ask("PUT", f"/v2.0/segments/{segment['id']}", {"segment": {"name": "x"}})["segment"]
    assert changed["revision_number"] == segment["revision_number"] + 1
    assert set(changed) >= {"created_at", "updated_at", "description"}


def routed_network(server: LiveServer) -> tuple[list[Object], list[Object]]:
    """The segments and subnets of a network whose two subnets are on two segments."""
    provider = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    network = server.ask("POST", "/v2.0/networks", {"network": provider})["network"]
    more = {"network_id": network["id"], "network_type": "vlan", "physical_network": "physnet1"}
    server.ask("POST", "/v2.0/segments", {"segment": more})
    found = server.ask("GET", f"/v2.0/segments?network_id={network['id']}&sort_key=created_at")["segments"]
    subnets = []
    for number, segment in enumerate(found):
        values = {"network_id": network["id"], "ip_version": 4, "cidr": f"10.{number}.0.0/24"}
        values |= {"segment_id": segment["id"], "gateway_ip": f"10.{number}.0.1"}
        subnets.append(server.ask("POST", "/v2.0/subnets", {"subnet": values})["subnet"])
    return found, subnets


def peer_routes(server: LiveServer, shown: Shown) -> None:
    _, (first, second) = routed_network(server)
    routes = server.ask("GET", f"/v2.0/subnets/{first['id']}")["subnet"]["host_routes"]
    assert routes == [{"destination": second["cidr"], "nexthop": first["gateway_ip"]}]


def set_segment(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]
    values = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}
    subnet = server.ask("POST", "/v2.0/subnets", {"subnet": values})["subnet"]
    (segment,) = server.ask("GET", f"/v2.0/segments?network_id={network['id']}")["segments"]
    body = {"subnet": {"segment_id": segment["id"]}}
    status, _ = server.exchange("PUT", f"/v2.0/subnets/{subnet['id']}", body, headers={"X-Roles": "member,reader"})
    assert status == 403
    changed = server.ask("PUT", f"/v2.0/subnets/{subnet['id']}", body)["subnet"]
    assert changed["segment_id"] == segment["id"]


def both_directions(type_: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        path = f"/v2.0/qos/policies/{shown['policies']['id']}/{type_}_rules"
        body = {f"{type_}_rule": {**QOS_RULES[type_], "direction": "ingress"}}
        made = server.ask("POST", path, body)[f"{type_}_rule"]
        assert (shown[f"{type_}_rules"]["direction"], made["direction"]) == ("egress", "ingress")
        server.ask("DELETE", f"{path}/{made['id']}")

    return probe


def default_policy(server: LiveServer, shown: Shown) -> None:
    policy = server.ask("POST", "/v2.0/qos/policies", {"policy": {"is_default": True}})["policy"]
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]
    server.ask("DELETE", f"/v2.0/networks/{network['id']}")
    server.ask("DELETE", f"/v2.0/qos/policies/{policy['id']}")
    assert network["qos_policy_id"] == policy["id"]


def gateway_policy(server: LiveServer, shown: Shown) -> None:
    path, policy = f"/v2.0/routers/{shown['routers']['id']}", shown["policies"]["id"]
    network = shown["routers"]["external_gateway_info"]["network_id"]

    def policy_after(value: str | None) -> Any:
        info = {"network_id": network, "qos_policy_id": value}
        changed = server.ask("PUT", path, {"router": {"external_gateway_info": info}})["router"]
        return changed["external_gateway_info"].get("qos_policy_id")

    assert policy_after(policy) == policy
    assert policy_after(None) is None


def all_rule_types(server: LiveServer, shown: Shown) -> None:
    for query in ("all_rules=true", "all_supported=true"):
        found = server.ask("GET", f"/v2.0/qos/rule-types?{query}")["rule_types"]
        assert {one["type"] for one in found} == set(QOS_RULES)


def request_groups(server: LiveServer, shown: Shown) -> None:
    body = {"port": {"network_id": shown["networks"]["id"], "qos_policy_id": shown["policies"]["id"]}}
    port = server.ask("POST", "/v2.0/ports", body)["port"]
    server.ask("DELETE", f"/v2.0/ports/{port['id']}")
    groups = port["resource_request"]["request_groups"]
    assert len(groups) == 2
    assert port["resource_request"]["same_subtree"] == [group["id"] for group in groups]


def created_port(server: LiveServer, shown: Shown, **values: Any) -> Object:
    """A new port as it is shown; it is deleted again."""
    body = {"port": {"network_id": shown["networks"]["id"], **values}}
    status, answer = server.exchange("POST", "/v2.0/ports", body, {"X-Roles": f"{ROLES},service"})
    assert status == 201, answer
    port: Object = server.ask("GET", f"/v2.0/ports/{answer['port']['id']}")["port"]
    server.ask("DELETE", f"/v2.0/ports/{port['id']}")
    return port


def given_to_a_port(name: str, value: Any, profile: Object | None = None) -> Probe:
    """An attribute of a new port, with what it adds to the binding profile."""

    def probe(server: LiveServer, shown: Shown) -> None:
        port = created_port(server, shown, **{name: value})
        assert (port[name], port["binding:profile"]) == (value, profile or {})

    return probe


def changed_uplink_status(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/ports/{shown['ports']['id']}"
    for value in (False, True):
        changed = server.ask("PUT", path, {"port": {"propagate_uplink_status": value}})["port"]
        assert changed["propagate_uplink_status"] is value


def mac_of_card(server: LiveServer, shown: Shown) -> None:
    card = {"binding:vnic_type": "direct-physical", "binding:profile": {"device_mac_address": "3c:fd:fe:00:00:09"}}
    assert created_port(server, shown, **card)["mac_address"] == "3c:fd:fe:00:00:09"


def tagging_network(name: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        made = server.ask("POST", "/v2.0/networks", {"network": {name: True}})["network"]
        assert ids(server, f"networks?{name}=true") == [made["id"]]
        server.ask("DELETE", f"/v2.0/networks/{made['id']}")
        refused(server, "POST", "/v2.0/networks", {"network": {name: True, "provider:network_type": "flat"}})

    return probe


def traced_packet(server: LiveServer, shown: Shown) -> None:
    port = server.ask("POST", "/v2.0/ports", {"port": {"network_id": shown["networks"]["id"]}})["port"]
    body = {"trace": {"source_port_id": port["id"], "destination_address": "198.51.100.1"}}
    made = server.ask("POST", "/v2.0/traces", body)["trace"]
    server.ask("DELETE", f"/v2.0/ports/{port['id']}")
    assert (made["verdict"], made["cause"]) == ("dropped", "port-unbound")


def templates_of_rules(server: LiveServer, shown: Shown) -> None:
    path = "/v2.0/default-security-group-rules"
    used = {"used_in_default_sg": False, "used_in_non_default_sg": True}
    body = {"default_security_group_rule": {"direction": "ingress", "protocol": "igmp", **used}}
    rule = server.ask("POST", path, body)["default_security_group_rule"]
    group = server.ask("POST", "/v2.0/security-groups", {"security_group": {"name": "new"}})["security_group"]
    server.ask("DELETE", f"{path}/{rule['id']}")
    server.ask("DELETE", f"/v2.0/security-groups/{group['id']}")
    assert "igmp" in [one["protocol"] for one in group["security_group_rules"]]


def default_statefulness(server: LiveServer, shown: Shown) -> None:
    path, name = "/v2.0/security-groups-default-statefulness", "security_group_default_statefulness"
    setting = server.ask("POST", path, {name: {"project_id": "cd" * 16, "stateful": False}})[name]
    body = {"security_group": {"name": "new", "project_id": "cd" * 16}}
    group = server.ask("POST", "/v2.0/security-groups", body)["security_group"]
    server.ask("DELETE", f"{path}/{setting['id']}")
    assert group["stateful"] is False


def onboarding(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]["id"]
    body = {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.99.0.0/24"}}
    subnet = server.ask("POST", "/v2.0/subnets", body)["subnet"]["id"]
    pool = server.ask("POST", "/v2.0/subnetpools", {"subnetpool": {"name": "p", "prefixes": ["10.98.0.0/24"]}})
    path = f"/v2.0/subnetpools/{pool['subnetpool']['id']}/onboard_network_subnets"
    assert server.ask("PUT", path, {"network_id": network}) == [{"id": subnet, "cidr": "10.99.0.0/24"}]
    assert server.ask("GET", f"/v2.0/subnets/{subnet}")["subnet"]["subnetpool_id"] == pool["subnetpool"]["id"]


def chosen_router(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]["id"]
    server.ask("POST", "/v2.0/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.97.0.0/24"}})
    port = server.ask("POST", "/v2.0/ports", {"port": {"network_id": network}})["port"]["id"]
    values = {"floating_network_id": shown["floatingips"]["floating_network_id"], "port_id": port}
    refused(server, "POST", "/v2.0/floatingips", {"floatingip": values}, status=404)
    body = {"floatingip": {**values, "router_id": shown["routers"]["id"]}}
    made = server.ask("POST", "/v2.0/floatingips", body)["floatingip"]
    server.ask("DELETE", f"/v2.0/floatingips/{made['id']}")
    assert made["router_id"] == shown["routers"]["id"]


def fixed_router_addresses(server: LiveServer, shown: Shown) -> None:
    query = f"device_id={shown['routers']['id']}&device_owner=network:router_interface"
    port = server.ask("GET", f"/v2.0/ports?{query}")["ports"][0]
    refused(server, "PUT", f"/v2.0/ports/{port['id']}", {"port": {"fixed_ips": []}})


def sorted_agents(server: LiveServer, shown: Shown) -> None:
    up, down = (ids(server, f"agents?sort_key=id&sort_dir={direction}") for direction in ("asc", "desc"))
    assert up == sorted(up) == down[::-1]


def marked_default(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/networks/{shown['networks']['id']}"
    assert server.ask("PUT", path, {"network": {"project_default": True}})["network"]["project_default"] is True


def published_subnet(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/subnets/{shown['subnets']['id']}"
    assert server.ask("PUT", path, {"subnet": {"dns_publish_fixed_ip": True}})["subnet"]["dns_publish_fixed_ip"] is True


def domain_keywords(server: LiveServer, shown: Shown) -> None:
    domain = "<user_name>.<project_id>.example.org."
    network = server.ask("POST", "/v2.0/networks", {"network": {"dns_domain": domain}})["network"]
    server.ask("DELETE", f"/v2.0/networks/{network['id']}")
    assert network["dns_domain"] == domain
    refused(server, "POST", "/v2.0/networks", {"network": {"dns_domain": "<nobody>.example.org."}})


def quota_checked_unasked(server: LiveServer, shown: Shown) -> None:
    refused(server, "PUT", f"/v2.0/quotas/{PROJECT}", {"quota": {"port": 0}})


def subports(server: LiveServer, shown: Shown) -> None:
    path, (carried,) = f"/v2.0/trunks/{shown['trunks']['id']}", shown["trunks"]["sub_ports"]
    one = {"sub_ports": [carried]}
    assert (
        server.ask("PUT", f"{path}/remove_subports", {"sub_ports": [{"port_id": carried["port_id"]}]})["sub_ports"]
        == []
    )
    assert server.ask("PUT", f"{path}/add_subports", one)["sub_ports"] == [carried]
    assert server.ask("GET", f"{path}/get_subports") == one


PROBES: dict[str, Probe] = {
    "security-groups-default-rules": templates_of_rules,
    "security-groups-default-statefulness": default_statefulness,
    "subnet_onboard": onboarding,
    "floating-ip-router-writable": chosen_router,
    "l3-port-ip-change-not-allowed": fixed_router_addresses,
    "agent_sort_key": sorted_agents,
    "project-default-networks": marked_default,
    "subnet-dns-publish-fixed-ip": published_subnet,
    "dns-integration-domain-keywords": domain_keywords,
    "quota-check-limit-default": quota_checked_unasked,
    "trunk": subports,
    "trace": traced_packet,
    "port-device-profile": given_to_a_port("device_profile", "fpga"),
    "port-hardware-offload-type": given_to_a_port(
        "hardware_offload_type", "switchdev", {"capabilities": ["switchdev"]}
    ),
    "port-hints": given_to_a_port("hints", {"openvswitch": {}}),
    "port-hint-ovs-tx-steering": given_to_a_port("hints", {"openvswitch": {"other_config": {"tx-steering": "hash"}}}),
    "port-mac-override": mac_of_card,
    "port-numa-affinity-policy": given_to_a_port("numa_affinity_policy", "required"),
    "port-numa-affinity-policy-socket": given_to_a_port("numa_affinity_policy", "socket"),
    "port-trusted-vif": given_to_a_port("trusted", True, {"trusted": True}),
    "uplink-status-propagation-updatable": changed_uplink_status,
    "vlan-transparent": tagging_network("vlan_transparent"),
    "qinq": tagging_network("qinq"),
    "qos-bw-limit-direction": both_directions("bandwidth_limit"),
    "qos-bw-minimum-ingress": both_directions("minimum_bandwidth"),
    "qos-pps": both_directions("packet_rate_limit"),
    "qos-pps-minimum": both_directions("minimum_packet_rate"),
    "qos-default": default_policy,
    "qos-gateway-ip": gateway_policy,
    "qos-rule-type-filter": all_rule_types,
    "port-resource-request-groups": request_groups,
    "standard-attr-fwaas-v2": firewall_revisions,
    "logging": logged_port,
    "local_ip": local_address,
    "taas": tapped_port,
    "taas-vlan-filter": filtered_vlans,
    "tap-mirror": mirrored_port,
    "tap-mirror-both-direction": mirrored_both_ways,
    "bgp": speaker_with_peer_and_network,
    "bgp_4byte_asn": long_as_numbers,
    "bgp_dragent_scheduler": speakers_of_agents,
    "standard-attr-segment": segment_revisions,
    "segments-peer-subnet-host-routes": peer_routes,
    "subnet-segmentid-writable": set_segment,
    "subnet-segmentid-enforce": set_segment,
    "extraroute-atomic": single_routes,
    "external-gateway-multihoming": several_gateways,
    "enable-default-route-ecmp": default_routes_over_all,
    "router-service-type": typed_router,
    "l3_agent_scheduler": routers_of_agents,
    "router-admin-state-down-before-update": kind_while_up,
    "floatingip-autodelete-internal": unused_go,
    "floating-ip-port-forwarding-detail": ids_of_forwardings,
    "network_ha": ha_networks,
    "project-id": both_names,
    "revision-if-match": if_match,
    "pagination": pages,
    "sorting": order,
    "sort-key-validation": lambda server, shown: refused(server, "GET", "/v2.0/networks?sort_key=nothing"),
    "filter-validation": lambda server, shown: refused(server, "GET", "/v2.0/networks?nothing=1"),
    "empty-string-filtering": empty_name,
    "binding-extended": bindings,
    "port-security-groups-filtering": by_group,
    "ip-substring-filtering": by_part_of_address,
    "quotas": quotas,
    "quota_details": quota_details,
    "quota-check-limit": quota_below_use,
    "subnet_allocation": from_pool,
    "default-subnetpools": from_pool,
    "subnetpool-prefix-ops": prefixes,
    "rbac-security-groups": sharing("security_group", "security_groups"),
    "rbac-address-scope": sharing("address_scope", "address_scopes"),
    "rbac-subnetpool": sharing("subnetpool", "subnetpools"),
    "rbac-address-group": sharing("address_group", "address_groups"),
    "availability_zone_filter": zones,
    "dhcp_agent_scheduler": scheduling,
    "security-groups-name-restrictions": no_second_default,
    "standard-attr-tag": tags,
    "tag-creation": several_tags,
    "tag-ports-during-bulk-creation": tagged_from_the_start,
    "port-mac-address-regenerate": new_mac,
    "aap-reject-multicast": no_multicast_pair,
    "net-mtu-writable": writable_mtu,
    "subnet-external-network": external_subnets,
}


NOT_SHOWN = {
    ("next_providers", "provider"),  # one service implements all routers
    ("next_providers", "driver"),
    ("next_providers", "metainfo"),
    ("firewall_rules", "position"),  # of a rule in several policies: Neutron does not show it either
    ("metering_label_rules", "project_id"),  # Neutron does not show it either (exchange 802)
    ("bindings", "project_id"),  # Neutron does not show it either (exchange 507)
    *((f"alias_{type_}_rules", "project_id") for type_ in ALIASED),  # nor this
}


def visible_places(alias: str) -> list[tuple[str, str]]:
    """The visible attributes of an extension, on resources that are served here."""
    core = of_neutron(())
    facts = {place: fact for place, fact in of_neutron({alias}).items() if place not in core or core[place] != fact}
    return [place for place, fact in facts.items() if fact.visible and place not in NOT_SHOWN]


def test_what_others_look_for_is_there(advertised: list[Object]) -> None:
    aliases = [extension["alias"] for extension in advertised]
    assert sorted(set(NEEDED) - set(aliases)) == []
    assert sorted(set(NOT_HERE) & set(aliases)) == []
    assert len(aliases) == len(set(aliases))


def test_an_extension_is_shown_as_it_is_listed(server: LiveServer, advertised: list[Object]) -> None:
    for extension in advertised:
        assert server.ask("GET", f"/v2.0/extensions/{extension['alias']}")["extension"] == extension
        assert set(extension) >= {"alias", "name", "description", "updated", "links"}
    refused(server, "GET", "/v2.0/extensions/nothing", status=404)


def test_every_attribute_of_an_extension_is_shown(advertised: list[Object], shown: Shown) -> None:
    absent = {
        (extension["alias"], collection, name)
        for extension in advertised
        for collection, name in visible_places(extension["alias"])
        if name not in shown[collection]
    }
    assert absent == set()


def test_every_extension_is_asked_for_something(advertised: list[Object]) -> None:
    aliases = {extension["alias"] for extension in advertised}
    assert sorted(alias for alias in aliases if alias not in PROBES and not visible_places(alias)) == []
    assert sorted(set(PROBES) - aliases) == []


@pytest.mark.parametrize("alias", PROBES)
def test_it_works(alias: str, server: LiveServer, shown: Shown) -> None:
    PROBES[alias](server, shown)


def test_the_names_of_aliases_are_known() -> None:
    assert set(NEEDED) | set(NOT_HERE) <= {*aliases_of_lib(), *NEUTRON} - set(CORE)
