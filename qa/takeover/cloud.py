"""A small cloud with every kind of object, built through Neutron's API."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from qa.takeover.client import Client

ALPHA, BETA = "0a" * 16, "0b" * 16
Made = dict[str, Any]


@dataclass
class Cloud:
    """Objects that later ones refer to, and steps that Neutron has refused."""

    admin: Client
    alpha: Client
    beta: Client
    made: Made = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def step(self, build: Callable[[Cloud], None]) -> None:
        try:
            build(self)
        except (RuntimeError, KeyError) as error:
            self.refused.append(f"{build.__name__}: {error}")


def build(url: str) -> Cloud:
    admin = Client(url, "0c" * 16)
    cloud = Cloud(admin, admin.of(ALPHA), admin.of(BETA))
    for one in STEPS:
        cloud.step(one)
    return cloud


def quotas(cloud: Cloud) -> None:
    cloud.admin.put(f"quotas/{ALPHA}", "quota", network=50, port=200, floatingip=-1)


def networks(cloud: Cloud) -> None:
    a, made = cloud.admin, cloud.made
    made["external"] = a.make(
        "networks",
        "network",
        name="public",
        router__external=True,
        provider__network_type="flat",
        provider__physical_network="public",
        is_default=True,
    )
    made["alpha"] = cloud.alpha.make("networks", "network", name="alpha", description="of alpha", dns_domain="a.org.")
    made["vlan"] = a.make(
        "networks",
        "network",
        name="vlan",
        shared=True,
        mtu=1400,
        provider__network_type="vlan",
        provider__physical_network="physical",
        provider__segmentation_id=105,
    )
    made["gre"] = a.make("networks", "network", name="gre", provider__network_type="gre", port_security_enabled=False)
    made["geneve"] = a.make("networks", "network", name="geneve", provider__network_type="geneve")
    made["local"] = a.make("networks", "network", name="local", provider__network_type="local", admin_state_up=False)
    made["beta"] = cloud.beta.make("networks", "network", name="beta", availability_zone_hints=["nova"])
    made["multi"] = a.make(
        "networks",
        "network",
        name="multi",
        segments=[
            {"provider:network_type": "vlan", "provider:physical_network": "physical", "provider:segmentation_id": 110},
            {"provider:network_type": "vxlan", "provider:segmentation_id": 1015},
        ],
    )
    made["routed"] = a.make(
        "networks",
        "network",
        name="routed",
        provider__network_type="vlan",
        provider__physical_network="physical",
        provider__segmentation_id=111,
    )
    a.call("PUT", f"networks/{made['alpha']['id']}/tags", {"tags": ["blue", "Green"]})


def scopes(cloud: Cloud) -> None:
    a, made = cloud.admin, cloud.made
    made["scope"] = a.make("address-scopes", "address_scope", name="scope", ip_version=4, shared=True)
    made["pool"] = a.make(
        "subnetpools",
        "subnetpool",
        name="pool",
        prefixes=["10.64.0.0/16", "10.65.0.0/17"],
        address_scope_id=made["scope"]["id"],
        default_prefixlen=26,
        min_prefixlen=24,
        shared=True,
        default_quota=4096,
    )
    a.make(
        "subnetpools", "subnetpool", name="six", prefixes=["2001:db8:64::/48"], is_default=True, default_prefixlen=64
    )


def subnets(cloud: Cloud) -> None:
    made = cloud.made
    made["external4"] = cloud.admin.make(
        "subnets",
        "subnet",
        network_id=made["external"]["id"],
        ip_version=4,
        cidr="203.0.113.0/24",
        enable_dhcp=False,
        allocation_pools=[{"start": "203.0.113.10", "end": "203.0.113.100"}],
    )
    made["external6"] = cloud.admin.make(
        "subnets", "subnet", network_id=made["external"]["id"], ip_version=6, cidr="2001:db8:ff::/64", enable_dhcp=False
    )
    made["alpha4"] = cloud.alpha.make(
        "subnets",
        "subnet",
        name="alpha4",
        network_id=made["alpha"]["id"],
        ip_version=4,
        cidr="10.1.0.0/24",
        dns_nameservers=["192.0.2.54", "192.0.2.53"],
        host_routes=[{"destination": "10.9.0.0/16", "nexthop": "10.1.0.9"}],
        allocation_pools=[{"start": "10.1.0.50", "end": "10.1.0.99"}, {"start": "10.1.0.150", "end": "10.1.0.199"}],
        dns_publish_fixed_ip=True,
    )
    made["alpha6"] = cloud.alpha.make(
        "subnets",
        "subnet",
        network_id=made["alpha"]["id"],
        ip_version=6,
        cidr="2001:db8:1::/64",
        ipv6_ra_mode="slaac",
        ipv6_address_mode="slaac",
    )
    made["pooled"] = cloud.beta.make(
        "subnets", "subnet", network_id=made["beta"]["id"], ip_version=4, subnetpool_id=made["pool"]["id"]
    )
    made["vlan4"] = cloud.admin.make(
        "subnets",
        "subnet",
        network_id=made["vlan"]["id"],
        ip_version=4,
        cidr="10.5.0.0/24",
        gateway_ip=None,
        service_types=["compute:nova", "network:dhcp"],
    )
    made["vlan6"] = cloud.admin.make(
        "subnets",
        "subnet",
        network_id=made["vlan"]["id"],
        ip_version=6,
        cidr="2001:db8:5::/64",
        ipv6_ra_mode="dhcpv6-stateful",
        ipv6_address_mode="dhcpv6-stateful",
    )
    segment = cloud.admin.get(f"segments?network_id={made['routed']['id']}")["segments"][0]
    cloud.admin.put(f"segments/{segment['id']}", "segment", name="rack-1", description="first rack")
    cloud.admin.make(
        "subnets",
        "subnet",
        network_id=made["routed"]["id"],
        ip_version=4,
        cidr="10.6.0.0/24",
        segment_id=segment["id"],
    )
    delegated = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    cloud.beta.make("subnets", "subnet", network_id=made["beta"]["id"], subnetpool_id="prefix_delegation", **delegated)


def groups(cloud: Cloud) -> None:
    a, made = cloud.alpha, cloud.made
    made["addresses"] = a.make(
        "address-groups", "address_group", name="office", addresses=["192.0.2.0/25", "198.51.100.7/32"]
    )
    made["web"] = a.make("security-groups", "security_group", name="web", description="web servers")
    made["stateless"] = a.make("security-groups", "security_group", name="stateless", stateful=False)
    rules: list[dict[str, Any]] = [
        {"protocol": "tcp", "port_range_min": 80, "port_range_max": 443, "remote_ip_prefix": "0.0.0.0/0"},
        {"protocol": "icmp", "port_range_min": 8, "port_range_max": 0},
        {"protocol": "udp", "remote_group_id": made["web"]["id"]},
        {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "10.0.0.5/8"},
        {"protocol": "tcp", "remote_address_group_id": made["addresses"]["id"]},
        {"protocol": "icmp", "ethertype": "IPv6", "description": "ICMPv6"},
        {"protocol": "112"},
    ]
    for rule in rules:
        a.make(
            "security-group-rules",
            "security_group_rule",
            **{"security_group_id": made["web"]["id"], "direction": "ingress", **rule},
        )
    a.call("PUT", f"security-groups/{made['web']['id']}/tags", {"tags": ["front"]})
    cloud.admin.make(
        "default-security-group-rules",
        "default_security_group_rule",
        direction="ingress",
        ethertype="IPv4",
        protocol="icmp",
        used_in_default_sg=True,
        used_in_non_default_sg=False,
        description="ping",
    )


def qos(cloud: Cloud) -> None:
    a, made = cloud.admin, cloud.made
    made["qos"] = a.make("qos/policies", "policy", name="gold", shared=True)
    key = made["qos"]["id"]
    a.make(f"qos/policies/{key}/bandwidth_limit_rules", "bandwidth_limit_rule", max_kbps=1000, max_burst_kbps=100)
    a.make(f"qos/policies/{key}/bandwidth_limit_rules", "bandwidth_limit_rule", max_kbps=2000, direction="ingress")
    a.make(f"qos/policies/{key}/dscp_marking_rules", "dscp_marking_rule", dscp_mark=26)
    made["silver"] = a.make("qos/policies", "policy", name="silver")
    a.make(f"qos/policies/{made['silver']['id']}/minimum_bandwidth_rules", "minimum_bandwidth_rule", min_kbps=500)
    made["limit"] = a.make("qos/policies", "policy", name="limit", is_default=True, project_id=BETA)
    a.make(f"qos/policies/{made['limit']['id']}/bandwidth_limit_rules", "bandwidth_limit_rule", max_kbps=300)
    a.put(f"networks/{made['geneve']['id']}", "network", qos_policy_id=key)


def ports(cloud: Cloud) -> None:
    a, made = cloud.alpha, cloud.made
    made["vm1"] = a.make(
        "ports",
        "port",
        name="vm1",
        network_id=made["alpha"]["id"],
        device_owner="compute:nova",
        device_id="11111111-1111-4111-8111-111111111111",
        binding__host_id="compute-1",
        security_groups=[made["web"]["id"]],
        dns_name="vm1",
        extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}],
        qos_policy_id=made["qos"]["id"],
    )
    made["vm2"] = a.make(
        "ports",
        "port",
        name="vm2",
        network_id=made["alpha"]["id"],
        device_owner="compute:nova",
        device_id="22222222-2222-4222-8222-222222222222",
        binding__host_id="compute-2",
        allowed_address_pairs=[
            {"ip_address": "10.1.0.200"},
            {"ip_address": "10.1.0.0/28", "mac_address": "fa:16:3e:00:00:01"},
        ],
        hints={"openvswitch": {"other_config": {"tx-steering": "hash"}}},
    )
    made["vm3"] = a.make(
        "ports", "port", name="vm3", network_id=made["alpha"]["id"], port_security_enabled=False, security_groups=[]
    )
    made["vm4"] = cloud.beta.make(
        "ports",
        "port",
        name="vm4",
        network_id=made["beta"]["id"],
        device_owner="compute:nova",
        binding__host_id="compute-1",
        numa_affinity_policy="preferred",
        propagate_uplink_status=False,
    )
    cloud.beta.make("ports", "port", name="shared", network_id=made["vlan"]["id"], device_owner="compute:nova")
    cloud.admin.make(
        "ports",
        "port",
        name="direct",
        network_id=made["vlan"]["id"],
        binding__vnic_type="direct",
        binding__profile={"pci_slot": "0000:81:00.2"},
        binding__host_id="unknown-host",
        trusted=True,
        device_owner="compute:nova",
    )
    cloud.admin.make("ports", "port", name="no-address", network_id=made["gre"]["id"])
    cloud.admin.make(
        "ports",
        "port",
        network_id=made["alpha"]["id"],
        device_owner="network:dhcp",
        device_id=f"dhcp5c1f0a9e-0c1f-5f9f-9c2e-7f2b4f3a1d11-{made['alpha']['id']}",
        binding__host_id="network-1",
    )
    cloud.admin.call("POST", f"ports/{made['vm1']['id']}/bindings", {"binding": {"host": "compute-2"}})
    a.call("PUT", f"ports/{made['vm1']['id']}/tags", {"tags": ["t1", "t2"]})
    cloud.admin.put(f"ports/{made['vm2']['id']}", "port", data_plane_status="ACTIVE")


def dhcp(cloud: Cloud) -> None:
    agents = cloud.admin.get("agents?agent_type=DHCP%20agent")["agents"]
    first = next(agent["id"] for agent in agents if agent["host"] == "network-1")
    known = {n["id"] for n in cloud.admin.get(f"agents/{first}/dhcp-networks")["networks"]}
    for name in ("alpha", "vlan"):
        if cloud.made[name]["id"] not in known:
            body = {"network_id": cloud.made[name]["id"]}
            cloud.admin.call("POST", f"agents/{first}/dhcp-networks", body)


def flavors(cloud: Cloud) -> None:
    profile = cloud.admin.make("service_profiles", "service_profile", description="single", driver="", metainfo="{}")
    flavor = cloud.admin.make("flavors", "flavor", name="plain", service_type="L3_ROUTER_NAT", description="one")
    cloud.admin.call("POST", f"flavors/{flavor['id']}/service_profiles", {"service_profile": {"id": profile["id"]}})


def routers(cloud: Cloud) -> None:
    a, made = cloud.admin, cloud.made
    gateway = {"network_id": made["external"]["id"]}
    made["legacy"] = cloud.alpha.make(
        "routers",
        "router",
        name="legacy",
        distributed=False,
        ha=False,
        external_gateway_info={**gateway, "qos_policy_id": made["limit"]["id"]},
    )
    made["ha"] = cloud.alpha.make(
        "routers",
        "router",
        name="ha",
        distributed=False,
        ha=True,
        external_gateway_info={**gateway, "enable_snat": False},
    )
    made["dvr"] = cloud.beta.make(
        "routers", "router", name="dvr", distributed=True, ha=False, external_gateway_info=gateway
    )
    made["dvrha"] = cloud.beta.make("routers", "router", name="dvrha", distributed=True, ha=True, admin_state_up=False)
    for router, subnet in (("legacy", "alpha4"), ("legacy", "alpha6"), ("dvr", "pooled")):
        body = {"subnet_id": made[subnet]["id"]}
        a.call("PUT", f"routers/{made[router]['id']}/add_router_interface", body)
    port = a.make("ports", "port", network_id=made["alpha"]["id"], fixed_ips=[{"subnet_id": made["alpha4"]["id"]}])
    a.call("PUT", f"routers/{made['ha']['id']}/add_router_interface", {"port_id": port["id"]})
    a.put(f"routers/{made['legacy']['id']}", "router", routes=[{"destination": "10.7.0.0/16", "nexthop": "10.1.0.77"}])
    a.call("PUT", f"routers/{made['ha']['id']}/tags", {"tags": ["edge"]})


def floating_ips(cloud: Cloud) -> None:
    a, made, network = cloud.alpha, cloud.made, cloud.made["external"]["id"]
    made["fip"] = a.make(
        "floatingips",
        "floatingip",
        floating_network_id=network,
        port_id=made["vm1"]["id"],
        fixed_ip_address=made["vm1"]["fixed_ips"][0]["ip_address"],
        description="of vm1",
    )
    a.make("floatingips", "floatingip", floating_network_id=network, qos_policy_id=made["qos"]["id"])
    made["forwarded"] = a.make("floatingips", "floatingip", floating_network_id=network)
    address = next(f["ip_address"] for f in made["vm2"]["fixed_ips"] if "." in f["ip_address"])
    for outside, inside, protocol in ((2222, 22, "tcp"), (5353, 53, "udp")):
        a.make(
            f"floatingips/{made['forwarded']['id']}/port_forwardings",
            "port_forwarding",
            internal_port_id=made["vm2"]["id"],
            internal_ip_address=address,
            internal_port=inside,
            external_port=outside,
            protocol=protocol,
            description=f"to {inside}",
        )
    cloud.beta.make("floatingips", "floatingip", floating_network_id=network, port_id=made["vm4"]["id"])


def forwarding_ranges(cloud: Cloud) -> None:
    address = next(f["ip_address"] for f in cloud.made["vm2"]["fixed_ips"] if "." in f["ip_address"])
    cloud.alpha.make(
        f"floatingips/{cloud.made['forwarded']['id']}/port_forwardings",
        "port_forwarding",
        internal_port_id=cloud.made["vm2"]["id"],
        internal_ip_address=address,
        internal_port_range="8000:8005",
        external_port_range="9000:9005",
        protocol="tcp",
    )


def rbac(cloud: Cloud) -> None:
    for kind, key in (
        ("network", "geneve"),
        ("qos_policy", "silver"),
        ("security_group", "web"),
        ("address_group", "addresses"),
    ):
        cloud.admin.make(
            "rbac-policies",
            "rbac_policy",
            object_type=kind,
            object_id=cloud.made[key]["id"],
            action="access_as_shared",
            target_tenant=BETA,
        )


def trunks(cloud: Cloud) -> None:
    a, made = cloud.alpha, cloud.made
    parent = a.make("ports", "port", name="parent", network_id=made["alpha"]["id"], device_owner="compute:nova")
    child = a.make("ports", "port", name="child", network_id=made["vlan"]["id"])
    a.make(
        "trunks",
        "trunk",
        name="trunk",
        port_id=parent["id"],
        sub_ports=[{"port_id": child["id"], "segmentation_type": "vlan", "segmentation_id": 7}],
    )


def segment_ranges(cloud: Cloud) -> None:
    cloud.admin.make(
        "network_segment_ranges",
        "network_segment_range",
        name="more",
        shared=False,
        project_id=ALPHA,
        network_type="vxlan",
        minimum=3001,
        maximum=3010,
    )


def metering(cloud: Cloud) -> None:
    label = cloud.admin.make("metering/metering-labels", "metering_label", name="out", project_id=ALPHA)
    cloud.admin.make(
        "metering/metering-label-rules",
        "metering_label_rule",
        metering_label_id=label["id"],
        direction="egress",
        source_ip_prefix="10.1.0.0/24",
    )


def logs(cloud: Cloud) -> None:
    cloud.admin.make(
        "log/logs", "log", name="web", resource_type="security_group", resource_id=cloud.made["web"]["id"], event="DROP"
    )


def local_ips(cloud: Cloud) -> None:
    made = cloud.alpha.make("local-ips", "local_ip", name="cache", network_id=cloud.made["alpha"]["id"])
    port = cloud.made["vm2"]
    address = next(f["ip_address"] for f in port["fixed_ips"] if "." in f["ip_address"])
    with suppress(RuntimeError):  # Neutron 29 stores it, and fails to show it
        cloud.alpha.make(
            f"local-ips/{made['id']}/port_associations", "port_association", fixed_port_id=port["id"], fixed_ip=address
        )


def helpers(cloud: Cloud) -> None:
    cloud.admin.make(
        f"routers/{cloud.made['legacy']['id']}/conntrack_helpers",
        "conntrack_helper",
        protocol="tcp",
        port=21,
        helper="ftp",
    )


def ndp(cloud: Cloud) -> None:
    a, made = cloud.admin, cloud.made
    scope = a.make("address-scopes", "address_scope", name="scope6", ip_version=6, shared=True)
    pool = a.make(
        "subnetpools",
        "subnetpool",
        name="ndp",
        prefixes=["2001:db8:77::/48"],
        address_scope_id=scope["id"],
        default_prefixlen=64,
        shared=True,
    )
    outside = a.make(
        "networks",
        "network",
        name="outside6",
        router__external=True,
        provider__network_type="vlan",
        provider__physical_network="physical",
        provider__segmentation_id=118,
    )
    a.make("subnets", "subnet", network_id=outside["id"], ip_version=6, subnetpool_id=pool["id"])
    inside = a.make("networks", "network", name="inside6")
    subnet = a.make(
        "subnets",
        "subnet",
        network_id=inside["id"],
        ip_version=6,
        subnetpool_id=pool["id"],
        ipv6_ra_mode="slaac",
        ipv6_address_mode="slaac",
    )
    router = a.make(
        "routers",
        "router",
        name="ndp",
        distributed=False,
        ha=False,
        external_gateway_info={"network_id": outside["id"]},
        enable_ndp_proxy=True,
    )
    a.call("PUT", f"routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]})
    port = a.make("ports", "port", network_id=inside["id"])
    made["ndp"] = a.make("ndp-proxies", "ndp_proxy", router_id=router["id"], port_id=port["id"])


def firewalls(cloud: Cloud) -> None:
    a = cloud.alpha
    rules = [
        a.make(
            "fwaas/firewall_rules",
            "firewall_rule",
            name=name,
            protocol="tcp",
            action=action,
            destination_port=port,
            source_ip_address="10.0.0.0/8",
        )
        for name, action, port in (("ssh", "allow", "22"), ("range", "deny", "80:90"))
    ]
    policy = a.make("fwaas/firewall_policies", "firewall_policy", name="p", firewall_rules=[r["id"] for r in rules])
    interface = next(
        port
        for port in cloud.admin.get(f"ports?device_id={cloud.made['legacy']['id']}")["ports"]
        if port["device_owner"] == "network:router_interface"
    )
    a.make(
        "fwaas/firewall_groups",
        "firewall_group",
        name="g",
        ingress_firewall_policy_id=policy["id"],
        ports=[interface["id"]],
    )


def vpn(cloud: Cloud) -> None:
    a, made = cloud.alpha, cloud.made
    ike = a.make("vpn/ikepolicies", "ikepolicy", name="ike", auth_algorithm="sha256")
    ipsec = a.make("vpn/ipsecpolicies", "ipsecpolicy", name="ipsec", auth_algorithm="sha256")
    local = a.make(
        "vpn/endpoint-groups", "endpoint_group", name="local", type="subnet", endpoints=[made["alpha4"]["id"]]
    )
    peer = a.make("vpn/endpoint-groups", "endpoint_group", name="peer", type="cidr", endpoints=["10.99.0.0/24"])
    service = a.make("vpn/vpnservices", "vpnservice", name="vpn", router_id=made["legacy"]["id"])
    a.make(
        "vpn/ipsec-site-connections",
        "ipsec_site_connection",
        name="site",
        psk="not-a-real-secret",
        peer_address="198.51.100.1",
        peer_id="198.51.100.1",
        vpnservice_id=service["id"],
        ikepolicy_id=ike["id"],
        ipsecpolicy_id=ipsec["id"],
        local_ep_group_id=local["id"],
        peer_ep_group_id=peer["id"],
    )


def bgp(cloud: Cloud) -> None:
    a = cloud.admin
    speaker = a.make("bgp-speakers", "bgp_speaker", name="speaker", local_as=64512, ip_version=4)
    peer = a.make(
        "bgp-peers",
        "bgp_peer",
        name="peer",
        peer_ip="198.51.100.9",
        remote_as=64513,
        auth_type="md5",
        password="not-a-real-secret",
    )
    a.call("PUT", f"bgp-speakers/{speaker['id']}/add_bgp_peer", {"bgp_peer_id": peer["id"]})
    a.call("PUT", f"bgp-speakers/{speaker['id']}/add_gateway_network", {"network_id": cloud.made["external"]["id"]})


def taps(cloud: Cloud) -> None:
    a, made = cloud.alpha, cloud.made
    service = a.make("taas/tap_services", "tap_service", name="tap", port_id=made["vm3"]["id"])
    a.make(
        "taas/tap_flows",
        "tap_flow",
        name="flow",
        tap_service_id=service["id"],
        source_port=made["vm1"]["id"],
        direction="BOTH",
    )
    a.make(
        "taas/tap_mirrors",
        "tap_mirror",
        name="mirror",
        port_id=made["vm2"]["id"],
        remote_ip="198.51.100.20",
        mirror_type="gre",
        directions={"IN": 101},
    )


STEPS = (
    *(quotas, networks, scopes, subnets, groups, qos, ports, dhcp, flavors, routers, floating_ips, forwarding_ranges),
    *(rbac, trunks, segment_ranges, metering, logs, local_ips, helpers, ndp, firewalls, vpn, bgp, taps),
)
