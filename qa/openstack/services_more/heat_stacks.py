"""The check of Heat: a stack with every OS::Neutron type whose extension we have, created, changed, checked and deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from qa.openstack.checks.expect import expect
from qa.openstack.cloud import Cloud
from qa.openstack.services.resources import FLAVOR, IMAGE
from qa.openstack.services_more import heat

Json = dict[str, Any]
STACK = "all-types"
PREFIX = "OS::Neutron::"
QUOTA_PROJECT = "heat-quota"


@dataclass(frozen=True)
class Case:
    """A resource of the stack: its properties, and those that the update changes (None: takes out of the template)."""

    type: str  # without the prefix, if it is that of Neutron's types
    properties: Json
    changed: Json = field(default_factory=dict)
    replaced: bool = False
    """Heat can change these properties only by a new object in place of the old one."""
    depends_on: tuple[str, ...] = ()


def ref(name: str) -> Json:
    return {"get_resource": name}


def shown(name: str, attribute: str) -> Json:
    """An attribute of another resource, as the API shows it."""
    return {"get_attr": [name, "show", attribute]}


def connection(here: str, there: str, cidr: str) -> Case:
    """Of a VPN service `here` with another one. Heat waits until it is ACTIVE, so both sides have to be created at once."""
    return Case(
        "IPsecSiteConnection",
        {
            "vpnservice_id": ref(here),
            "ikepolicy_id": ref("tunnel_ike"),
            "ipsecpolicy_id": ref("tunnel_ipsec"),
            "peer_address": shown(there, "external_v4_ip"),
            "peer_id": shown(there, "external_v4_ip"),
            "peer_cidrs": [cidr],
            "psk": "heat-s3cret",
        },
        {"name": f"heat-{here}"},
    )


# One or more resources of each type; names of the resources are ours.
CASES: dict[str, Case] = {
    "net": Case(
        "Net",
        {"name": "heat-net", "tags": ["a"], "value_specs": {"mtu": 1400}, "port_security_enabled": True},
        {"name": "heat-net-2", "tags": ["b"], "admin_state_up": False, "value_specs": {"mtu": 1300}},
    ),
    "external": Case(
        "ProviderNet",
        {"name": "heat-ext", "network_type": "vlan", "physical_network": "physnet1", "router_external": True},
        {"name": "heat-ext-2", "tags": ["b"]},
    ),
    "vlan": Case(
        "ProviderNet",
        {"name": "heat-vlan", "network_type": "vlan", "physical_network": "physnet1", "segmentation_id": 150},
        {"segmentation_id": 151, "shared": True},
    ),
    "scope": Case("AddressScope", {"name": "heat-scope", "ip_version": 4}, {"name": "heat-scope-2", "shared": True}),
    "pool": Case(
        "SubnetPool",
        {
            "name": "heat-pool",
            "prefixes": ["10.90.0.0/16"],
            "address_scope": ref("scope"),
            "default_prefixlen": 24,
            "min_prefixlen": 20,
            "max_prefixlen": 28,
        },
        {"name": "heat-pool-2", "default_prefixlen": 25, "prefixes": ["10.90.0.0/16", "10.91.0.0/16"], "tags": ["b"]},
    ),
    # The fixed addresses of the ports are outside of its pool, from which DHCP and the router take theirs.
    "subnet": Case(
        "Subnet",
        {
            "network": ref("net"),
            "cidr": "10.80.0.0/24",
            "allocation_pools": [{"start": "10.80.0.100", "end": "10.80.0.199"}],
            "dns_nameservers": ["192.0.2.53"],
            "host_routes": [{"destination": "10.99.0.0/16", "nexthop": "10.80.0.9"}],
        },
        {
            "name": "heat-subnet",
            "allocation_pools": [{"start": "10.80.0.100", "end": "10.80.0.220"}],
            "dns_nameservers": [],
            "host_routes": [],
            "enable_dhcp": False,
            "tags": ["b"],
        },
    ),
    "subnet_v6": Case(
        "Subnet",
        {
            "network": ref("net"),
            "cidr": "fd00:80::/64",
            "ip_version": 6,
            "ipv6_ra_mode": "slaac",
            "ipv6_address_mode": "slaac",
        },
        {"name": "heat-subnet-v6"},
    ),
    "subnet_of_pool": Case(
        "Subnet",
        {"network": ref("vlan"), "subnetpool": ref("pool"), "prefixlen": 26},
        {"name": "heat-pooled", "gateway_ip": ""},
    ),
    "subnet_external": Case(
        "Subnet", {"network": ref("external"), "cidr": "198.51.100.0/24", "enable_dhcp": False}, {"name": "heat-public"}
    ),
    "qos": Case("QoSPolicy", {"name": "heat-qos", "description": "first"}, {"name": "heat-qos-2", "shared": True}),
    "qos_limit": Case(
        "QoSBandwidthLimitRule",
        {"policy": ref("qos"), "max_kbps": 1000, "max_burst_kbps": 800, "direction": "ingress"},
        {"max_kbps": 2000, "direction": "egress"},
    ),
    "qos_dscp": Case("QoSDscpMarkingRule", {"policy": ref("qos"), "dscp_mark": 8}, {"dscp_mark": 10}),
    "qos_minimum": Case(
        "QoSMinimumBandwidthRule",
        {"policy": ref("qos"), "min_kbps": 100, "direction": "egress"},
        {"min_kbps": 200},
    ),
    "qos_packets": Case(
        "QoSMinimumPacketRateRule",
        {"policy": ref("qos_pps"), "min_kpps": 10, "direction": "any"},
        {"min_kpps": 20},
    ),
    "qos_pps": Case("QoSPolicy", {"name": "heat-pps"}, {"description": "second"}),
    "group": Case(
        "SecurityGroup",
        {
            "name": "heat-group",
            "rules": [
                {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "0.0.0.0/0"},
                {"protocol": "icmp", "remote_mode": "remote_group_id"},
            ],
        },
        {
            "name": "heat-group-2",
            "description": "second",
            "rules": [{"protocol": "udp", "port_range_min": 53, "port_range_max": 53, "ethertype": "IPv6"}],
        },
    ),
    "stateless_group": Case("SecurityGroup", {"name": "heat-stateless", "stateful": False}, {"stateful": True}),
    "rule": Case(
        "SecurityGroupRule",
        {
            "security_group": ref("stateless_group"),
            "protocol": "tcp",
            "port_range_min": 80,
            "port_range_max": 90,
            "remote_group": ref("group"),
        },
        {"port_range_max": 99},
        replaced=True,
    ),
    "port": Case(
        "Port",
        {
            "network": ref("net"),
            "fixed_ips": [{"subnet": ref("subnet"), "ip_address": "10.80.0.20"}],
            "security_groups": [ref("group")],
            "allowed_address_pairs": [{"ip_address": "10.80.0.250"}],
            "qos_policy": ref("qos"),
            "dns_name": "first",
            "propagate_uplink_status": True,
        },
        {
            "name": "heat-port",
            "fixed_ips": [{"subnet": ref("subnet"), "ip_address": "10.80.0.21"}, {"subnet": ref("subnet_v6")}],
            "security_groups": [ref("stateless_group")],
            "allowed_address_pairs": [],
            "qos_policy": None,
            "dns_name": "second",
            "admin_state_up": False,
            "tags": ["b"],
        },
    ),
    "open_port": Case(
        "Port",
        {"network": ref("net"), "port_security_enabled": False, "no_fixed_ips": True, "binding:vnic_type": "direct"},
        {"binding:vnic_type": "normal", "name": "heat-open"},
    ),
    "routed_port": Case(
        "Port", {"network": ref("net"), "fixed_ips": [{"subnet": ref("subnet"), "ip_address": "10.80.0.30"}]}
    ),
    "associated_port": Case(
        "Port", {"network": ref("net"), "fixed_ips": [{"subnet": ref("subnet"), "ip_address": "10.80.0.50"}]}
    ),
    "forwarded_port": Case(
        "Port", {"network": ref("net"), "fixed_ips": [{"subnet": ref("subnet"), "ip_address": "10.80.0.40"}]}
    ),
    "router": Case(
        "Router",
        {
            "name": "heat-router",
            "external_gateway_info": {
                "network": ref("external"),
                "external_fixed_ips": [{"ip_address": "198.51.100.10", "subnet": ref("subnet_external")}],
            },
        },
        {
            "name": "heat-router-2",
            "external_gateway_info": {
                "network": ref("external"),
                "enable_snat": False,
                "external_fixed_ips": [{"ip_address": "198.51.100.11", "subnet": ref("subnet_external")}],
            },
            "tags": ["b"],
        },
    ),
    "ha_router": Case("Router", {"name": "heat-ha", "ha": True}, {"value_specs": {"description": "second"}}),
    "interface": Case("RouterInterface", {"router": ref("router"), "subnet": ref("subnet")}),
    "interface_of_port": Case("RouterInterface", {"router": ref("ha_router"), "port": ref("router_port")}),
    "router_port": Case(
        "Port", {"network": ref("vlan"), "fixed_ips": [{"subnet": ref("subnet_of_pool")}]}, {"name": "heat-router-port"}
    ),
    "routes": Case(
        "ExtraRouteSet",
        {"router": ref("router"), "routes": [{"destination": "10.70.0.0/24", "nexthop": "10.80.0.30"}]},
        {
            "routes": [
                {"destination": "10.70.0.0/24", "nexthop": "10.80.0.31"},
                {"destination": "10.71.0.0/24", "nexthop": "10.80.0.30"},
            ]
        },
        depends_on=("interface",),
    ),
    "route": Case(
        "ExtraRoute",
        {"router_id": ref("router"), "destination": "10.72.0.0/24", "nexthop": "10.80.0.30"},
        depends_on=("interface", "routes"),
    ),
    "floating_ip": Case(
        "FloatingIP",
        {
            "floating_network": ref("external"),
            "port_id": ref("routed_port"),
            "dns_name": "floating",
            "dns_domain": "example.org.",
        },
        {"port_id": None},
        depends_on=("interface", "router"),
    ),
    "free_floating_ip": Case(
        "FloatingIP",
        {"floating_network": ref("external"), "floating_ip_address": "198.51.100.77"},
        depends_on=("subnet_external",),
    ),
    "association": Case(
        "FloatingIPAssociation",
        {"floatingip_id": ref("free_floating_ip"), "port_id": ref("associated_port"), "fixed_ip_address": "10.80.0.50"},
        {"port_id": ref("routed_port"), "fixed_ip_address": "10.80.0.30"},
        depends_on=("interface", "floating_ip"),
    ),
    "forwarding_floating_ip": Case(
        "FloatingIP", {"floating_network": ref("external")}, depends_on=("subnet_external",)
    ),
    "forwarding": Case(
        "FloatingIPPortForward",
        {
            "floating_ip": ref("forwarding_floating_ip"),
            "internal_port": ref("forwarded_port"),
            "internal_ip_address": "10.80.0.40",
            "internal_port_number": 80,
            "external_port": 8080,
            "protocol": "tcp",
        },
        {"external_port": 8081, "internal_port_number": 81, "protocol": "udp"},
        depends_on=("interface",),
    ),
    "shared_net": Case(
        "RBACPolicy",
        {"object_type": "network", "object_id": ref("net"), "action": "access_as_shared", "target_tenant": "QUOTA"},
        {"target_tenant": "*"},
    ),
    "shared_group": Case(
        "RBACPolicy",
        {
            "object_type": "security_group",
            "object_id": ref("group"),
            "action": "access_as_shared",
            "target_tenant": "QUOTA",
        },
    ),
    "segmented": Case(
        "ProviderNet",
        {"name": "heat-segmented", "network_type": "vlan", "physical_network": "physnet1", "segmentation_id": 160},
    ),
    "segment": Case(
        "Segment",
        {
            "network": ref("segmented"),
            "network_type": "vlan",
            "physical_network": "physnet1",
            "segmentation_id": 161,
            "name": "heat-segment",
        },
        {"name": "heat-segment-2", "description": "second"},
    ),
    "parent": Case("Port", {"network": ref("net")}, depends_on=("subnet",)),
    "subport": Case("Port", {"network": ref("net")}, depends_on=("subnet",)),
    "trunk": Case(
        "Trunk",
        {
            "name": "heat-trunk",
            "port": ref("parent"),
            "sub_ports": [{"port": ref("subport"), "segmentation_type": "vlan", "segmentation_id": 101}],
        },
        {"name": "heat-trunk-2", "sub_ports": []},
    ),
    "label": Case("MeteringLabel", {"name": "heat-label", "description": "of the stack"}),
    "label_rule": Case(
        "MeteringRule", {"metering_label_id": ref("label"), "remote_ip_prefix": "10.80.0.0/24", "direction": "egress"}
    ),
    # Heat waits until taps are ACTIVE, so their ports need a running instance.
    "tapped_net": Case("Net", {"name": "heat-tapped"}),
    "tapped_subnet": Case("Subnet", {"network": ref("tapped_net"), "cidr": "10.81.0.0/24"}),
    "source": Case("Port", {"network": ref("tapped_net")}, depends_on=("tapped_subnet",)),
    "monitor": Case("Port", {"network": ref("tapped_net")}, depends_on=("tapped_subnet",)),
    "instance": Case(
        "OS::Nova::Server",
        {
            "image": IMAGE,
            "flavor": FLAVOR,
            "networks": [{"port": ref("source")}, {"port": ref("monitor")}],
            "user_data_format": "RAW",  # by default, Heat's own tools ask its CloudFormation API
        },
    ),
    "tap_service": Case("TaaS::TapService", {"port": ref("monitor")}, {"name": "heat-taps"}, depends_on=("instance",)),
    "vpn_router": Case(
        "Router", {"external_gateway_info": {"network": ref("external")}}, depends_on=("subnet_external",)
    ),
    "vpn_interface": Case("RouterInterface", {"router": ref("vpn_router"), "subnet": ref("tapped_subnet")}),
    "vpn": Case(
        "VPNService",
        {"router": ref("vpn_router"), "subnet": ref("tapped_subnet")},
        {"description": "second"},
        depends_on=("vpn_interface",),
    ),
    "ike": Case(
        "IKEPolicy",
        {"ike_version": "v2", "lifetime": {"units": "seconds", "value": 7200}},
        {"encryption_algorithm": "aes-256"},
    ),
    "ipsec": Case("IPsecPolicy", {"encryption_algorithm": "aes-256"}, {"name": "heat-ipsec"}),
    # The peer: another router with its own network.
    "peer_net": Case("Net", {"name": "heat-peer"}),
    "peer_subnet": Case("Subnet", {"network": ref("peer_net"), "cidr": "10.82.0.0/24"}),
    "peer_router": Case(
        "Router", {"external_gateway_info": {"network": ref("external")}}, depends_on=("subnet_external",)
    ),
    "peer_interface": Case("RouterInterface", {"router": ref("peer_router"), "subnet": ref("peer_subnet")}),
    "peer_vpn": Case(
        "VPNService",
        {"router": ref("peer_router"), "subnet": ref("peer_subnet")},
        depends_on=("peer_interface",),
    ),
    "tunnel_ike": Case("IKEPolicy", {"ike_version": "v2"}),  # policies in use cannot be changed
    "tunnel_ipsec": Case("IPsecPolicy", {}),
    "connection": connection("vpn", "peer_vpn", "10.82.0.0/24"),
    "peer_connection": connection("peer_vpn", "vpn", "10.81.0.0/24"),
    "quota": Case("Quota", {"project": "QUOTA", "network": 3, "port": 7, "router": 2}, {"network": 4, "floatingip": 1}),
}
# Types that Heat offers and the stack does not have.
NOT_IN_STACK = {
    "NetworkGateway": "offered without its extension, network-gateway of a vendor",
    "FlowClassifier": "offered without its extension, sfc of networking-sfc",
    "PortPair": "offered without its extension, sfc of networking-sfc",
    "TaaS::TapFlow": "Heat resolves the tap service with a method that no release of neutronclient or tap-as-a-service has",
}
# What must have become of the objects after the update: resource, attribute, value.
AFTER_UPDATE: tuple[tuple[str, str, object], ...] = (
    ("net", "mtu", 1300),
    ("net", "tags", ["b"]),
    ("net", "admin_state_up", False),
    ("vlan", "provider:segmentation_id", 151),
    ("pool", "default_prefixlen", "25"),
    ("subnet", "allocation_pools", [{"start": "10.80.0.100", "end": "10.80.0.220"}]),
    ("subnet", "enable_dhcp", False),
    ("subnet_of_pool", "gateway_ip", None),
    ("qos", "shared", True),
    ("stateless_group", "stateful", True),
    ("port", "dns_name", "second"),
    ("port", "qos_policy_id", None),
    ("port", "allowed_address_pairs", []),
    ("open_port", "binding:vnic_type", "normal"),
    ("floating_ip", "port_id", None),
    ("floating_ip", "dns_name", "floating"),
    ("free_floating_ip", "fixed_ip_address", "10.80.0.30"),
    ("ha_router", "description", "second"),
    ("segment", "description", "second"),
    ("trunk", "sub_ports", []),
    ("tap_service", "name", "heat-taps"),
    ("tap_service", "status", "ACTIVE"),
    ("vpn", "description", "second"),
    ("ike", "encryption_algorithm", "aes-256"),
    ("connection", "name", "heat-vpn"),
)
COLLECTIONS = (
    "networks",
    "subnets",
    "ports",
    "routers",
    "floatingips",
    "security-groups",
    "rbac-policies",
    "subnetpools",
    "address-scopes",
    "qos/policies",
    "segments",
    "trunks",
    "metering/metering-labels",
    "taas/tap_services",
    "vpn/vpnservices",
    "vpn/ikepolicies",
    "vpn/ipsecpolicies",
    "vpn/ipsec-site-connections",
)


def template(cases: dict[str, Case], project: str, *, changed: bool) -> Json:
    """The stack's template (HOT) before or after the update; `project` is the id that QUOTA stands for."""
    resources: Json = {}
    for name, case in cases.items():
        properties = {**case.properties, **(case.changed if changed else {})}
        properties = {key: project if value == "QUOTA" else value for key, value in properties.items()}
        properties = {key: value for key, value in properties.items() if value is not None}
        type_ = case.type if case.type.startswith("OS::") else PREFIX + case.type
        resources[name] = {"type": type_, "properties": properties}
        if case.depends_on:
            resources[name]["depends_on"] = list(case.depends_on)
    return {"heat_template_version": "2021-04-16", "resources": resources}


def uncovered(types: set[str]) -> set[str]:
    """Types that Heat offers and no case or reason covers."""
    return {name.removeprefix(PREFIX) for name in types} - {case.type for case in CASES.values()} - {*NOT_IN_STACK}


def check_heat(cloud: Cloud) -> str:
    """Heat creates, updates, checks and deletes a stack with every OS::Neutron type whose extension there is."""
    heat.start(cloud)
    left = uncovered(heat.resource_types(cloud))
    expect(not left, f"Heat offers types that the stack does not cover: {sorted(left)}")
    identity = cloud.connect().identity
    project = identity.find_project(QUOTA_PROJECT) or identity.create_project(name=QUOTA_PROJECT, domain_id="default")
    stack = heat.Stack(cloud, STACK)
    stack.delete()
    own: set[str] = set()
    try:
        times = {"created": stack.create(template(CASES, project.id, changed=False))}
        first = stack.resources()
        own |= {each["physical_resource_id"] for each in first.values()}
        expect(own & inventory(cloud), "no object of the stack is there")
        times["updated"] = stack.update(template(CASES, project.id, changed=True))
        _expect_updated(stack, first)
        times["checked"] = stack.check()
    finally:
        deleted = stack.delete()
    times["deleted"] = deleted
    left = inventory(cloud) & own
    expect(not left, f"left after the deletion: {sorted(left)}")
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in times.items())
    return f"{len(CASES)} resources of {len({case.type for case in CASES.values()})} types: {steps}"


def inventory(cloud: Cloud) -> set[str]:
    """The ids of all objects. A network that is gone has no ports, so those of routers and DHCP are gone too."""
    found: set[str] = set()
    for path in COLLECTIONS:
        (rows,) = cloud.connect().network.get(f"/{path}?fields=id").json().values()
        found |= {row["id"] for row in rows}
    return found


def _expect_updated(stack: heat.Stack, first: dict[str, Json]) -> None:
    now = stack.resources()
    for name, case in CASES.items():
        same = first[name]["physical_resource_id"] == now[name]["physical_resource_id"]
        expect(same is not case.replaced, f"{name}: {'replaced' if not same else 'not replaced'} by the update")
    for name, attribute, value in AFTER_UPDATE:
        shown = stack.shown(name)[attribute]
        expect(shown == value, f"{name}: {attribute} is {shown!r} after the update, not {value!r}")
