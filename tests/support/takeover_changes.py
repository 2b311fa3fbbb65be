"""Changes of the recorded cloud (qa/takeover/cloud.py) through our API after its takeover: every kind of object is created,
changed or deleted. Used with a server in process, and with real Neutron by `python -m qa.takeover.export_check`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[str, str, object], Any]  # method, path below /v2.0, body
ALPHA = "0a" * 16


@dataclass(frozen=True)
class Editor:
    call: Call

    def make(self, path: str, kind: str, **values: object) -> Any:
        return self.call("POST", path, {kind: _attributes(values)})[kind]

    def change(self, path: str, kind: str, **values: object) -> Any:
        return self.call("PUT", path, {kind: _attributes(values)})[kind]

    def delete(self, path: str) -> None:
        self.call("DELETE", path, None)

    def find(self, path: str, key: str, **wanted: object) -> Any:
        """The first object with these attributes."""
        objects = self.call("GET", path, None)[key]
        return next(one for one in objects if all(one[name] == value for name, value in wanted.items()))


def _attributes(values: dict[str, object]) -> dict[str, object]:
    return {name.replace("__", ":"): value for name, value in values.items()}


def change_everything(call: Call) -> None:
    editor = Editor(call)
    for step in STEPS:
        step(editor)


def networks(e: Editor) -> None:
    alpha = e.find("networks", "networks", name="alpha")
    e.change(f"networks/{alpha['id']}", "network", name="alpha-2", dns_domain="", description="changed", mtu=1400)
    e.call("PUT", f"networks/{alpha['id']}/tags", {"tags": ["blue", "red"]})
    e.delete(f"networks/{e.find('networks', 'networks', name='geneve')['id']}")
    vlan = e.make(
        "networks",
        "network",
        name="new-vlan",
        shared=True,
        port_security_enabled=False,
        provider__network_type="vlan",
        provider__physical_network="physical",
        provider__segmentation_id=119,
    )
    e.make("subnets", "subnet", network_id=vlan["id"], ip_version=4, cidr="10.70.0.0/24", enable_dhcp=False)
    new = e.make("networks", "network", name="new", project_id=ALPHA, dns_domain="new.org.")
    e.make(
        "subnets",
        "subnet",
        name="new4",
        project_id=ALPHA,
        network_id=new["id"],
        ip_version=4,
        cidr="10.71.0.0/24",
        allocation_pools=[{"start": "10.71.0.10", "end": "10.71.0.40"}, {"start": "10.71.0.60", "end": "10.71.0.90"}],
        dns_nameservers=["192.0.2.1", "192.0.2.0"],
        host_routes=[{"destination": "10.8.0.0/16", "nexthop": "10.71.0.3"}],
        service_types=["compute:nova", "network:dhcp", "network:router_interface"],
        dns_publish_fixed_ip=True,
    )
    slaac = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    e.make("subnets", "subnet", name="new6", network_id=new["id"], project_id=ALPHA, cidr="2001:db8:71::/64", **slaac)
    pool = e.find("subnetpools", "subnetpools", name="pool")
    e.change(f"subnetpools/{pool['id']}", "subnetpool", prefixes=[*pool["prefixes"], "10.66.0.0/16"])
    old = e.find("subnets", "subnets", name="alpha4")
    e.change(
        f"subnets/{old['id']}",
        "subnet",
        dns_nameservers=["192.0.2.54"],
        host_routes=[],
        allocation_pools=[{"start": "10.1.0.50", "end": "10.1.0.99"}, {"start": "10.1.0.150", "end": "10.1.0.180"}],
    )


def groups(e: Editor) -> None:
    web = e.find("security-groups", "security_groups", name="web")
    rule = next(one for one in web["security_group_rules"] if one["protocol"] == "udp")
    e.delete(f"security-group-rules/{rule['id']}")
    new = e.make("security-groups", "security_group", name="new", project_id=ALPHA, stateful=False)
    e.make(
        "security-group-rules",
        "security_group_rule",
        security_group_id=new["id"],
        direction="ingress",
        protocol="tcp",
        port_range_min=22,
        port_range_max=22,
        remote_group_id=web["id"],
        description="SSH",
    )
    e.make(
        "security-group-rules",
        "security_group_rule",
        security_group_id=web["id"],
        direction="ingress",
        protocol="icmp",
        port_range_min=0,
        port_range_max=0,
        remote_ip_prefix="10.0.0.0/8",
    )
    e.delete(f"security-groups/{e.find('security-groups', 'security_groups', name='stateless')['id']}")
    office = e.find("address-groups", "address_groups", name="office")
    e.change(f"address-groups/{office['id']}", "address_group", name="offices")
    e.call("PUT", f"address-groups/{office['id']}/add_addresses", {"addresses": ["192.0.2.200/32"]})


def qos(e: Editor) -> None:
    new = e.make("qos/policies", "policy", name="new", is_default=False)
    rules = f"qos/policies/{new['id']}/bandwidth_limit_rules"
    e.make(rules, "bandwidth_limit_rule", max_kbps=3000, max_burst_kbps=300)
    gold = e.find("qos/policies", "policies", name="gold")
    mark = next(one for one in gold["rules"] if one["type"] == "dscp_marking")
    e.delete(f"qos/policies/{gold['id']}/dscp_marking_rules/{mark['id']}")
    vm1 = e.find("ports", "ports", name="vm1")
    e.change(f"ports/{vm1['id']}", "port", qos_policy_id=new["id"])


def ports(e: Editor) -> None:
    new = e.find("networks", "networks", name="new")
    group = e.find("security-groups", "security_groups", name="new")
    e.make(
        "ports",
        "port",
        name="bound",
        project_id=ALPHA,
        network_id=new["id"],
        security_groups=[group["id"]],
        device_owner="compute:nova",
        device_id="33333333-3333-4333-8333-333333333333",
        binding__host_id="compute-1",
        dns_name="bound",
        allowed_address_pairs=[{"ip_address": "10.71.0.200"}],
        extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": "1300", "ip_version": 4}],
    )
    e.make("ports", "port", name="unbound", project_id=ALPHA, network_id=new["id"], device_owner="compute:nova")
    vm2 = e.find("ports", "ports", name="vm2")
    e.change(
        f"ports/{vm2['id']}",
        "port",
        name="vm2-renamed",
        allowed_address_pairs=[],
        admin_state_up=False,
        hints=None,
        data_plane_status="DOWN",
    )
    e.delete(f"ports/{e.find('ports', 'ports', name='shared')['id']}")


def routers(e: Editor) -> None:
    external = e.find("networks", "networks", name="public")
    new4 = e.find("subnets", "subnets", name="new4")
    e.call(
        "PUT",
        f"subnets/{new4['id']}",
        {"subnet": {"service_types": []}},
    )
    router = e.make(
        "routers",
        "router",
        name="new",
        project_id=ALPHA,
        distributed=False,
        ha=False,
        external_gateway_info={"network_id": external["id"]},
    )
    e.call("PUT", f"routers/{router['id']}/add_router_interface", {"subnet_id": new4["id"]})
    e.change(f"routers/{router['id']}", "router", routes=[{"destination": "10.9.9.0/24", "nexthop": "10.71.0.5"}])
    ha = e.make("routers", "router", name="new-ha", project_id=ALPHA, distributed=False, ha=True)
    e.make(f"routers/{ha['id']}/conntrack_helpers", "conntrack_helper", protocol="udp", port=69, helper="tftp")
    dvr = e.make("routers", "router", name="new-dvr", project_id=ALPHA, distributed=True, ha=False)
    six = e.find("subnets", "subnets", name="new6")
    e.call("PUT", f"routers/{dvr['id']}/add_router_interface", {"subnet_id": six["id"]})
    legacy = e.find("routers", "routers", name="legacy")
    e.change(f"routers/{legacy['id']}", "router", routes=[], description="no routes")
    old = e.find("routers", "routers", name="dvrha")
    e.delete(f"routers/{old['id']}")


def floating_ips(e: Editor) -> None:
    external = e.find("networks", "networks", name="public")
    bound = e.find("ports", "ports", name="bound")
    address = next(one["ip_address"] for one in bound["fixed_ips"] if ":" not in one["ip_address"])
    network = {"floating_network_id": external["id"], "project_id": ALPHA}
    e.make("floatingips", "floatingip", **network, port_id=bound["id"], fixed_ip_address=address, description="new")
    forwarded = e.make("floatingips", "floatingip", **network)
    unbound = e.find("ports", "ports", name="unbound")
    inside = next(one["ip_address"] for one in unbound["fixed_ips"] if ":" not in one["ip_address"])
    e.make(
        f"floatingips/{forwarded['id']}/port_forwardings",
        "port_forwarding",
        internal_port_id=unbound["id"],
        internal_ip_address=inside,
        internal_port_range="90:92",
        external_port_range="190:192",
        protocol="tcp",
        description="range",
    )
    old = e.find("floatingips", "floatingips", description="of vm1")
    e.change(f"floatingips/{old['id']}", "floatingip", port_id=None)
    free = next(one for one in e.call("GET", "floatingips", None)["floatingips"] if one["qos_policy_id"])
    e.delete(f"floatingips/{free['id']}")


def trunks(e: Editor) -> None:
    alpha = e.find("networks", "networks", name="alpha-2")
    vlan = e.find("networks", "networks", name="new-vlan")
    parent = e.make("ports", "port", name="new-parent", project_id=ALPHA, network_id=vlan["id"])
    child = e.make("ports", "port", name="new-child", project_id=ALPHA, network_id=alpha["id"])
    subports = [{"port_id": child["id"], "segmentation_type": "vlan", "segmentation_id": 9}]
    e.make("trunks", "trunk", name="new", project_id=ALPHA, port_id=parent["id"], sub_ports=subports)
    old = e.find("trunks", "trunks", name="trunk")
    gone = {"sub_ports": [{"port_id": old["sub_ports"][0]["port_id"]}]}
    e.call("PUT", f"trunks/{old['id']}/remove_subports", gone)


def access(e: Editor) -> None:
    e.change(f"quotas/{ALPHA}", "quota", network=60, subnet=33)
    network = e.find("networks", "networks", name="new")
    target = {"action": "access_as_shared", "target_tenant": "0d" * 16}
    e.make("rbac-policies", "rbac_policy", object_type="network", object_id=network["id"], **target)
    e.delete(f"rbac-policies/{e.find('rbac-policies', 'rbac_policies', object_type='security_group')['id']}")
    scope = e.make("address-scopes", "address_scope", name="new", ip_version=4)
    pool = {"prefixes": ["10.80.0.0/16"], "address_scope_id": scope["id"], "default_prefixlen": 26}
    e.make("subnetpools", "subnetpool", name="new", **pool)


def services(e: Editor) -> None:
    label = e.make("metering/metering-labels", "metering_label", name="new", project_id=ALPHA)
    rule = {"metering_label_id": label["id"], "direction": "ingress", "destination_ip_prefix": "10.71.0.0/24"}
    e.make("metering/metering-label-rules", "metering_label_rule", **rule)
    log = e.find("log/logs", "logs", name="web")
    e.change(f"log/logs/{log['id']}", "log", enabled=False)
    flavor = e.find("flavors", "flavors", name="plain")
    e.change(f"flavors/{flavor['id']}", "flavor", description="changed", enabled=False)
    bounds = {"network_type": "vxlan", "minimum": 4001, "maximum": 4010}
    e.make("network_segment_ranges", "network_segment_range", name="newer", shared=True, **bounds)
    network = e.find("networks", "networks", name="new")
    e.make("local-ips", "local_ip", name="new", project_id=ALPHA, network_id=network["id"])


def plugins(e: Editor) -> None:
    rule = e.make("fwaas/firewall_rules", "firewall_rule", project_id=ALPHA, protocol="udp", source_port="53")
    policy = e.find("fwaas/firewall_policies", "firewall_policies", name="p")
    body = {"firewall_rule_id": rule["id"], "insert_before": policy["firewall_rules"][0]}
    e.call("PUT", f"fwaas/firewall_policies/{policy['id']}/insert_rule", body)
    group = e.find("fwaas/firewall_groups", "firewall_groups", name="g")
    e.change(f"fwaas/firewall_groups/{group['id']}", "firewall_group", egress_firewall_policy_id=policy["id"])
    e.make("vpn/ikepolicies", "ikepolicy", name="new", project_id=ALPHA, ike_version="v2", auth_algorithm="sha256")
    cidrs = {"type": "cidr", "endpoints": ["10.98.0.0/24", "10.97.0.0/24"]}
    e.make("vpn/endpoint-groups", "endpoint_group", name="new", project_id=ALPHA, **cidrs)
    connection = e.find("vpn/ipsec-site-connections", "ipsec_site_connections", name="site")
    e.change(f"vpn/ipsec-site-connections/{connection['id']}", "ipsec_site_connection", mtu=1400)
    peer = e.make("bgp-peers", "bgp_peer", name="new", peer_ip="198.51.100.10", remote_as=64514, auth_type="none")
    speaker = e.find("bgp-speakers", "bgp_speakers", name="speaker")
    e.call("PUT", f"bgp-speakers/{speaker['id']}/add_bgp_peer", {"bgp_peer_id": peer["id"]})
    mirror = e.find("taas/tap_mirrors", "tap_mirrors", name="mirror")
    e.change(f"taas/tap_mirrors/{mirror['id']}", "tap_mirror", description="changed")
    flow = e.find("taas/tap_flows", "tap_flows", name="flow")
    e.delete(f"taas/tap_flows/{flow['id']}")


STEPS = (networks, groups, qos, ports, routers, floating_ips, trunks, access, services, plugins)
