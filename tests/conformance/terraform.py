"""The networking resource types of the Terraform provider for OpenStack: the requests that manage one object of each.

A type with a collection of its own is data (`Managed`). A type that manages a part of another object has a function.
`{name}` in a path or value stands for the id of an object in `needs`; these are created first, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from neutrino.model.objects import Object
from tests.conformance.server import PROJECT, LiveServer

V2 = "/v2.0"


@dataclass(frozen=True)
class Managed:
    """A type whose objects are created, shown, updated and deleted at one path."""

    path: str
    envelope: str
    create: Object
    update: Object | None = None  # None: a change of any attribute makes Terraform create the object anew
    needs: tuple[str, ...] = ()
    tagged: bool = False
    texts: tuple[str, ...] = ()  # numbers that are shown as text, as in Neutron; the provider converts them


# Objects that others need.
NEEDED: dict[str, Managed] = {
    "network": Managed("networks", "network", {"name": "needed"}),
    "subnet": Managed(
        "subnets", "subnet", {"network_id": "{network}", "ip_version": 4, "cidr": "10.31.0.0/24"}, needs=("network",)
    ),
    "port": Managed("ports", "port", {"network_id": "{network}"}, needs=("network", "subnet")),
    "second_port": Managed("ports", "port", {"network_id": "{network}"}, needs=("network", "subnet")),
    "group": Managed("security-groups", "security_group", {"name": "needed"}),
    "router": Managed("routers", "router", {"name": "needed"}),
    "outside": Managed("networks", "network", {"name": "outside", "router:external": True}),
    "outer_subnet": Managed(
        "subnets", "subnet", {"network_id": "{outside}", "ip_version": 4, "cidr": "203.0.113.0/24"}, needs=("outside",)
    ),
    "floating_ip": Managed(
        "floatingips", "floatingip", {"floating_network_id": "{outside}"}, needs=("outside", "outer_subnet")
    ),
    "gateway": Managed(
        *("routers", "router", {"external_gateway_info": {"network_id": "{outside}"}}),
        needs=("outside", "outer_subnet"),
    ),
    "policy": Managed("qos/policies", "policy", {"name": "needed"}),
    "firewall_policy": Managed("fwaas/firewall_policies", "firewall_policy", {"name": "needed"}),
    "vpn_service": Managed("vpn/vpnservices", "vpnservice", {"router_id": "{gateway}"}, needs=("gateway",)),
    "ike_policy": Managed("vpn/ikepolicies", "ikepolicy", {"ike_version": "v2"}),
    "ipsec_policy": Managed("vpn/ipsecpolicies", "ipsecpolicy", {}),
    "peer_group": Managed("vpn/endpoint-groups", "endpoint_group", {"type": "cidr", "endpoints": ["10.32.0.0/24"]}),
    "local_group": Managed(
        "vpn/endpoint-groups", "endpoint_group", {"type": "subnet", "endpoints": ["{subnet}"]}, needs=("subnet",)
    ),
    "provider_network": Managed(
        *("networks", "network"),
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 3990},
    ),
}


def _rule(kind: str, create: Object, update: Object) -> Managed:
    return Managed(f"qos/policies/{{policy}}/{kind}s", kind, create, update, needs=("policy",))


MANAGED: dict[str, Managed] = {
    "openstack_networking_network_v2": Managed(
        *("networks", "network"),
        {"name": "a", "description": "d", "admin_state_up": True, "mtu": 1400, "port_security_enabled": False},
        {"name": "b", "description": "", "admin_state_up": False, "shared": True},
        tagged=True,
    ),
    "openstack_networking_subnet_v2": Managed(
        *("subnets", "subnet"),
        {
            "network_id": "{network}",
            "name": "a",
            "ip_version": 4,
            "cidr": "10.32.0.0/24",
            "gateway_ip": "10.32.0.254",
            "allocation_pools": [{"start": "10.32.0.10", "end": "10.32.0.20"}],
            "dns_nameservers": ["192.0.2.53"],
            "enable_dhcp": True,
        },
        {"name": "b", "enable_dhcp": False, "dns_nameservers": [], "gateway_ip": None},
        needs=("network",),
        tagged=True,
    ),
    "openstack_networking_subnetpool_v2": Managed(
        *("subnetpools", "subnetpool"),
        {"name": "a", "prefixes": ["10.33.0.0/16"], "default_prefixlen": 26, "min_prefixlen": 20},
        {"name": "b", "default_prefixlen": 25, "description": "d"},
        tagged=True,
        texts=("default_prefixlen", "min_prefixlen"),
    ),
    "openstack_networking_addressscope_v2": Managed(
        "address-scopes", "address_scope", {"name": "a", "ip_version": 6, "shared": False}, {"name": "b"}
    ),
    "openstack_networking_address_group_v2": Managed(
        *("address-groups", "address_group"),
        {"name": "a", "description": "d", "addresses": ["192.0.2.0/24"]},
        {"name": "b", "description": ""},
    ),
    "openstack_networking_port_v2": Managed(
        *("ports", "port"),
        {
            "network_id": "{network}",
            "name": "a",
            "fixed_ips": [{"subnet_id": "{subnet}", "ip_address": "10.31.0.40"}],
            "security_groups": ["{group}"],
            "allowed_address_pairs": [{"ip_address": "10.31.0.99", "mac_address": "fa:16:3e:00:00:99"}],
            "extra_dhcp_opts": [{"opt_name": "bootfile-name", "opt_value": "pxe", "ip_version": 4}],
            "binding:vnic_type": "normal",
            "device_id": "",
        },
        {"name": "b", "allowed_address_pairs": [], "security_groups": [], "qos_policy_id": "{policy}"},
        needs=("network", "subnet", "group", "policy"),
        tagged=True,
    ),
    "openstack_networking_router_v2": Managed(
        *("routers", "router"),
        {"name": "a", "admin_state_up": True, "external_gateway_info": {"network_id": "{outside}"}},
        {"name": "b", "external_gateway_info": {}},
        needs=("outside", "outer_subnet"),
        tagged=True,
    ),
    "openstack_networking_floatingip_v2": Managed(
        *("floatingips", "floatingip"),
        {"floating_network_id": "{outside}", "description": "a", "floating_ip_address": "203.0.113.77"},
        {"description": "b"},
        needs=("outside", "outer_subnet"),
        tagged=True,
    ),
    "openstack_networking_portforwarding_v2": Managed(
        *("floatingips/{floating_ip}/port_forwardings", "port_forwarding"),
        {
            "internal_port_id": "{port}",
            "internal_ip_address": "{address of port}",
            "internal_port": 80,
            "external_port": 8080,
            "protocol": "tcp",
        },
        {"internal_port": 81, "description": "d"},
        needs=("floating_ip", "connected port"),
    ),
    "openstack_networking_secgroup_v2": Managed(
        *("security-groups", "security_group"),
        {"name": "a", "description": "d", "stateful": True},
        {"name": "b", "description": "e"},
        tagged=True,
    ),
    "openstack_networking_secgroup_rule_v2": Managed(
        *("security-group-rules", "security_group_rule"),
        {
            "security_group_id": "{group}",
            "direction": "ingress",
            "ethertype": "IPv4",
            "protocol": "tcp",
            "port_range_min": 22,
            "port_range_max": 22,
            "remote_ip_prefix": "192.0.2.0/24",
            "description": "ssh",
        },
        needs=("group",),
    ),
    "openstack_networking_rbac_policy_v2": Managed(
        *("rbac-policies", "rbac_policy"),
        {"object_type": "network", "object_id": "{network}", "action": "access_as_shared", "target_tenant": "f" * 32},
        {"target_tenant": "e" * 32},
        needs=("network",),
    ),
    "openstack_networking_qos_policy_v2": Managed(
        "qos/policies",
        "policy",
        {"name": "a", "description": "d", "shared": True},
        {"name": "b", "is_default": True},
        tagged=True,
    ),
    "openstack_networking_qos_bandwidth_limit_rule_v2": _rule(
        "bandwidth_limit_rule",
        {"max_kbps": 3000, "max_burst_kbps": 300, "direction": "egress"},
        {"max_kbps": 2000, "direction": "ingress"},
    ),
    "openstack_networking_qos_dscp_marking_rule_v2": _rule("dscp_marking_rule", {"dscp_mark": 26}, {"dscp_mark": 20}),
    "openstack_networking_qos_minimum_bandwidth_rule_v2": _rule(
        "minimum_bandwidth_rule", {"min_kbps": 200, "direction": "egress"}, {"min_kbps": 300}
    ),
    "openstack_networking_segment_v2": Managed(
        *("segments", "segment"),
        {
            "network_id": "{provider_network}",
            "network_type": "vlan",
            "physical_network": "physnet1",
            "segmentation_id": 3991,
            "name": "a",
        },
        {"name": "b", "description": "d"},
        needs=("provider_network",),
    ),
    "openstack_networking_trunk_v2": Managed(
        *("trunks", "trunk"),
        {
            "name": "a",
            "port_id": "{port}",
            "sub_ports": [{"port_id": "{second_port}", "segmentation_type": "vlan", "segmentation_id": 7}],
        },
        {"name": "b", "description": "d"},
        needs=("port", "second_port"),
        tagged=True,
    ),
    "openstack_fw_rule_v2": Managed(
        *("fwaas/firewall_rules", "firewall_rule"),
        {"name": "a", "action": "allow", "protocol": "tcp", "destination_port": "80", "enabled": True},
        {"name": "b", "action": "deny", "destination_port": "80:90"},
    ),
    "openstack_fw_policy_v2": Managed(
        *("fwaas/firewall_policies", "firewall_policy"), {"name": "a", "audited": True}, {"name": "b", "audited": False}
    ),
    "openstack_fw_group_v2": Managed(
        *("fwaas/firewall_groups", "firewall_group"),
        {"name": "a", "admin_state_up": True, "ingress_firewall_policy_id": "{firewall_policy}"},
        {"name": "b", "admin_state_up": False},
        needs=("firewall_policy",),
    ),
    "openstack_bgp_peer_v2": Managed(
        *("bgp-peers", "bgp_peer"),
        {"name": "a", "peer_ip": "192.0.2.50", "remote_as": 65001, "auth_type": "none"},
        {"name": "b"},
    ),
    "openstack_bgp_speaker_v2": Managed(
        *("bgp-speakers", "bgp_speaker"),
        {"name": "a", "ip_version": 6, "local_as": 64600, "advertise_tenant_networks": True},
        {"name": "b", "advertise_floating_ip_host_routes": False, "advertise_tenant_networks": False},
    ),
    "openstack_taas_tap_mirror_v2": Managed(
        *("taas/tap_mirrors", "tap_mirror"),
        {
            "name": "a",
            "port_id": "{port}",
            "directions": {"IN": 101, "OUT": 102},
            "remote_ip": "192.0.2.9",
            "mirror_type": "gre",
        },
        {"name": "b", "description": "d"},
        needs=("port",),
    ),
    "openstack_vpnaas_ike_policy_v2": Managed(
        *("vpn/ikepolicies", "ikepolicy"),
        {
            "name": "a",
            "auth_algorithm": "sha256",
            "encryption_algorithm": "aes-256",
            "pfs": "group14",
            "phase1_negotiation_mode": "main",
            "ike_version": "v2",
            "lifetime": {"units": "seconds", "value": 7200},
        },
        {"name": "b", "description": "d", "lifetime": {"units": "seconds", "value": 3600}},
    ),
    "openstack_vpnaas_ipsec_policy_v2": Managed(
        *("vpn/ipsecpolicies", "ipsecpolicy"),
        {
            "name": "a",
            "auth_algorithm": "sha256",
            "encapsulation_mode": "tunnel",
            "encryption_algorithm": "aes-128",
            "pfs": "group5",
            "transform_protocol": "esp",
        },
        {"name": "b", "pfs": "group14"},
    ),
    "openstack_vpnaas_endpoint_group_v2": Managed(
        *("vpn/endpoint-groups", "endpoint_group"),
        {"name": "a", "type": "cidr", "endpoints": ["10.2.0.0/24", "10.3.0.0/24"]},
        {"name": "b", "description": "d"},
    ),
    "openstack_vpnaas_service_v2": Managed(
        *("vpn/vpnservices", "vpnservice"),
        {"name": "a", "router_id": "{gateway}", "admin_state_up": True},
        {"name": "b", "description": "d", "admin_state_up": False},
        needs=("gateway",),
    ),
    "openstack_vpnaas_site_connection_v2": Managed(
        *("vpn/ipsec-site-connections", "ipsec_site_connection"),
        {
            "name": "a",
            "vpnservice_id": "{vpn_service}",
            "ikepolicy_id": "{ike_policy}",
            "ipsecpolicy_id": "{ipsec_policy}",
            "local_ep_group_id": "{local_group}",
            "peer_ep_group_id": "{peer_group}",
            "peer_address": "192.0.2.77",
            "peer_id": "192.0.2.77",
            "psk": "secret",
            "mtu": 1400,
            "dpd": {"action": "restart", "interval": 42, "timeout": 84},
        },
        {"name": "b", "psk": "other", "initiator": "response-only", "admin_state_up": False},
        needs=("connected port", "vpn_service", "ike_policy", "ipsec_policy", "local_group", "peer_group"),
    ),
}

# Types of the provider whose API is not here.
NOT_HERE = {
    "openstack_bgpvpn_network_associate_v2, …_port_associate_v2, …_router_associate_v2, openstack_bgpvpn_v2": "BGP VPNs",
}


# --- the cloud, as the provider talks to it ---------------------------------------------------------------------------


@dataclass
class Provider:
    server: LiveServer
    ids: dict[str, str] = field(default_factory=dict)

    def create(self, kind: Managed) -> Object:
        made: Object = self.server.ask(
            "POST", f"{V2}/{self.filled(kind.path)}", {kind.envelope: self.filled(kind.create)}
        )
        return dict(made[kind.envelope])

    def show(self, kind: Managed, key: str) -> Object:
        return dict(self.server.ask("GET", f"{V2}/{self.filled(kind.path)}/{key}")[kind.envelope])

    def update(self, kind: Managed, key: str, values: Object) -> Object:
        body = {kind.envelope: self.filled(values)}
        return dict(self.server.ask("PUT", f"{V2}/{self.filled(kind.path)}/{key}", body)[kind.envelope])

    def delete(self, kind: Managed, key: str) -> None:
        path = f"{V2}/{self.filled(kind.path)}/{key}"
        self.server.ask("DELETE", path)
        assert self.server.exchange("GET", path)[0] == 404

    def filled(self, value: Any) -> Any:
        """The value with ids in the place of names."""
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        if isinstance(value, str) and "{" in value:
            for name, key in self.ids.items():
                value = value.replace(f"{{{name}}}", key)
        return value

    @contextmanager
    def having(self, *names: str) -> Iterator[Provider]:
        """Create what is needed; delete it at the end, which fails if something else is left that uses it."""
        with ExitStack() as stack:
            for name in names:
                self._need(stack, name)
            yield self

    def _need(self, stack: ExitStack, name: str) -> None:
        if name in self.ids:
            return
        if name == "connected port":
            return self._need_connected_port(stack)
        kind = NEEDED[name]
        for other in kind.needs:
            self._need(stack, other)
        made = self.create(kind)
        self.ids[name] = made["id"]
        if kind.envelope == "port":
            self.ids[f"address of {name}"] = made["fixed_ips"][0]["ip_address"]
        stack.callback(self.delete, kind, made["id"])
        stack.callback(self.ids.pop, name)

    def _need_connected_port(self, stack: ExitStack) -> None:
        """A port on a subnet of a router with a gateway, as floating IPs need it."""
        for name in ("gateway", "port"):
            self._need(stack, name)
        body = {"subnet_id": self.ids["subnet"]}
        self.server.ask("PUT", f"{V2}/routers/{self.ids['gateway']}/add_router_interface", body)
        path = f"{V2}/routers/{self.ids['gateway']}/remove_router_interface"
        stack.callback(self.server.ask, "PUT", path, body)


# --- types that manage a part of another object -----------------------------------------------------------------------


def router_interface(provider: Provider) -> None:
    with provider.having("router", "subnet") as p:
        router, subnet = p.ids["router"], p.ids["subnet"]
        made = p.server.ask("PUT", f"{V2}/routers/{router}/add_router_interface", {"subnet_id": subnet})
        port = p.show(NEEDED["port"], made["port_id"])
        assert (port["device_id"], port["device_owner"]) == (router, "network:router_interface")
        p.server.ask("PUT", f"{V2}/routers/{router}/remove_router_interface", {"subnet_id": subnet})
        assert p.server.exchange("GET", f"{V2}/ports/{made['port_id']}")[0] == 404


def router_routes(provider: Provider) -> None:
    with provider.having("connected port") as p:
        key = p.ids["gateway"]
        routes = [{"destination": "198.51.100.0/24", "nexthop": "10.31.0.50"}]
        for action, expected in (("add_extraroutes", routes), ("remove_extraroutes", [])):
            p.server.ask("PUT", f"{V2}/routers/{key}/{action}", {"router": {"routes": routes}})
            assert p.show(NEEDED["gateway"], key)["routes"] == expected


def router_route(provider: Provider) -> None:
    """One route, by a conditional update of the whole list."""
    with provider.having("connected port") as p:
        key = p.ids["gateway"]
        for routes in ([{"destination": "198.51.100.0/24", "nexthop": "10.31.0.50"}], []):
            revision = p.show(NEEDED["gateway"], key)["revision_number"]
            condition = {"If-Match": f"revision_number={revision}"}
            status, answer = p.server.exchange("PUT", f"{V2}/routers/{key}", {"router": {"routes": routes}}, condition)
            assert (status, answer["router"]["routes"]) == (200, routes)


def subnet_route(provider: Provider) -> None:
    with provider.having("subnet") as p:
        for routes in ([{"destination": "198.51.100.0/24", "nexthop": "10.31.0.50"}], []):
            assert p.update(NEEDED["subnet"], p.ids["subnet"], {"host_routes": routes})["host_routes"] == routes


def floating_ip_associate(provider: Provider) -> None:
    with provider.having("floating_ip", "connected port") as p:
        kind, key = NEEDED["floating_ip"], p.ids["floating_ip"]
        values = {"port_id": p.ids["port"], "fixed_ip_address": p.ids["address of port"]}
        made = p.update(kind, key, values)
        assert {name: made[name] for name in values} == values
        found = p.server.ask("GET", f"{V2}/floatingips?floating_ip_address={made['floating_ip_address']}")[
            "floatingips"
        ]
        assert [each["id"] for each in found] == [key]
        assert p.update(kind, key, {"port_id": None})["port_id"] is None


def port_secgroup_associate(provider: Provider) -> None:
    with provider.having("port", "group") as p:
        kind, key = NEEDED["port"], p.ids["port"]
        default = p.show(kind, key)["security_groups"]
        together = sorted([*default, p.ids["group"]])
        assert sorted(p.update(kind, key, {"security_groups": together})["security_groups"]) == together
        assert p.update(kind, key, {"security_groups": default})["security_groups"] == default


def quota(provider: Provider) -> None:
    path = f"{V2}/quotas/{PROJECT}"
    # More than the project has: a limit below its usage is refused.
    wanted = {"network": 911, "subnet": 912, "port": 913, "router": 914, "floatingip": 915, "rbac_policy": 916}
    changed = provider.server.ask("PUT", path, {"quota": wanted})["quota"]
    assert {name: changed[name] for name in wanted} == wanted
    shown = provider.server.ask("GET", path)["quota"]
    assert {name: shown[name] for name in wanted} == wanted
    provider.server.ask("DELETE", path)


FUNCTIONS: dict[str, Callable[[Provider], None]] = {
    "openstack_networking_floatingip_associate_v2": floating_ip_associate,
    "openstack_networking_port_secgroup_associate_v2": port_secgroup_associate,
    "openstack_networking_quota_v2": quota,
    "openstack_networking_router_interface_v2": router_interface,
    "openstack_networking_router_route_v2": router_route,
    "openstack_networking_router_routes_v2": router_routes,
    "openstack_networking_subnet_route_v2": subnet_route,
}
