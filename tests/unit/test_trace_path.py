"""Paths of packets by the server's data: every cause, every kind of router, IPv4 and IPv6, there and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from neutrino.model.qos import BandwidthLimit, QosPolicy
from neutrino.model.routing import NdpProxy
from neutrino.model.state import AddressGroup, Member
from neutrino.model.trace import Cause, PointKind
from neutrino.model.vpn import VpnConnection, VpnService
from neutrino.server.trace.values import Placement
from tests.support.traced_cloud import Cloud, Traced, firewall_rule, pair, rule

DELIVERED = ("delivered", "")


def two_ports(**values: Any) -> Cloud:
    """a on h1 and b on h2, on one network of IPv4 and IPv6."""
    cloud = Cloud()
    cloud.network("blue", "10.0.0.0/24", "2001:db8:1::/64")
    cloud.port("a", "blue", "10.0.0.10", "2001:db8:1::10", host="h1")
    cloud.port("b", "blue", "10.0.0.11", "2001:db8:1::11", host="h2", **values)
    return cloud


def routed(**values: Any) -> Cloud:
    """a on blue and c on red, a router with an external gateway on h3."""
    cloud = two_ports()
    cloud.network("red", "10.1.0.0/24", "2001:db8:2::/64")
    cloud.network("ext", "172.24.0.0/24", "2001:db8:e::/64", kind="flat", external=True, project_id="admin")
    cloud.port("c", "red", "10.1.0.12", "2001:db8:2::12", host="h2")
    cloud.router("r", "blue", "red", outside="ext", **values)
    return cloud


def distributed(**values: Any) -> Cloud:
    """The same with a distributed router, whose SNAT is on h3."""
    cloud = routed(distributed=True, local_hosts=frozenset({"h1", "h2"}), **values)
    for name in ("h1", "h2"):
        cloud.host(name, tunneling_ip=cloud.hosts[name].tunneling_ip, agent_mode="dvr")
    cloud.host("h3", tunneling_ip="192.0.2.3", agent_mode="dvr_snat")
    return cloud


def two_sites() -> tuple[Cloud, str]:
    """a behind r on h3 and d behind r2 on h2, with a VPN connection in each direction; the id of the first."""
    cloud = routed()
    cloud.network("far", "10.9.0.0/24")
    cloud.port("d", "far", "10.9.0.10", host="h1")
    cloud.router("r2", "far", outside="ext", hosts=("h2",))
    ends = {name: cloud.routers[name].router.gateway for name in ("r", "r2")}
    for name, other, own, far in (("r", "r2", "10.0.0.0/24", "10.9.0.0/24"), ("r2", "r", "10.9.0.0/24", "10.0.0.0/24")):
        gateway = ends[other]
        assert gateway is not None
        peer = gateway.addresses[0].ip_address
        one = VpnConnection(id=f"vpn-{name}", peer_address=peer, peer_id=peer, local_cidrs=(own,), peer_cidrs=(far,))
        cloud.change_router(name, vpn_services=(VpnService(id=f"service-{name}", connections=(one,)),))
    return cloud, "vpn-r"


# --- every cause ------------------------------------------------------------------------------------------------------

Case = Callable[[], Traced]
CASES: dict[str, tuple[Cause, Case]] = {}


def case(cause: Cause) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[function.__name__] = (cause, function)
        return function

    return add


@case(Cause.PORT_ADMIN_DOWN)
def sender_is_down() -> Traced:
    cloud = two_ports()
    cloud.change_port("a", admin_state_up=False)
    return cloud.trace("a", "b")


@case(Cause.PORT_ADMIN_DOWN)
def receiver_is_down() -> Traced:
    return two_ports(admin_state_up=False).trace("a", "b")


@case(Cause.PORT_ADMIN_DOWN)
def router_interface_is_down() -> Traced:
    cloud = routed()
    several = cloud.routers["r"].router.interfaces
    cloud.change_router("r", interfaces=tuple(msgspec.structs.replace(e, admin_state_up=False) for e in several))
    return cloud.trace("a", "c")


@case(Cause.NETWORK_ADMIN_DOWN)
def network_is_down() -> Traced:
    cloud = two_ports()
    cloud.change_network("blue", admin_state_up=False)
    return cloud.trace("a", "b")


@case(Cause.PORT_UNBOUND)
def sender_is_unbound() -> Traced:
    cloud = two_ports()
    cloud.change_port("a", host="", vif_type="unbound")
    return cloud.trace("a", "b")


@case(Cause.PORT_UNBOUND)
def receiver_is_unbound() -> Traced:
    return two_ports(vif_type="unbound").trace("a", "b")


@case(Cause.BINDING_FAILED)
def binding_failed() -> Traced:
    return two_ports(vif_type="binding_failed").trace("a", "b")


@case(Cause.PORT_NOT_WIRED)
def receiver_is_not_wired() -> Traced:
    return two_ports(status="DOWN", blocks=frozenset({"L2"})).trace("a", "b")


@case(Cause.HOST_DOWN)
def receiver_is_not_wired_on_a_dead_host() -> Traced:
    cloud = two_ports(status="DOWN")
    cloud.host("h2", tunneling_ip="192.0.2.2", alive=False)
    return cloud.trace("a", "b")


@case(Cause.DATAPLANE_DOWN)
def switch_is_down() -> Traced:
    cloud = two_ports()
    cloud.host("h2", tunneling_ip="192.0.2.2", dataplane="down: no connection to ovs-vswitchd")
    return cloud.trace("a", "b")


@case(Cause.ADDRESS_SPOOFED)
def another_source_address() -> Traced:
    return two_ports().trace("a", "b", source="10.0.0.99")


@case(Cause.ADDRESS_SPOOFED)
def another_source_address_of_ipv6() -> Traced:
    return two_ports().trace("a", "2001:db8:1::11", source="2001:db8:1::99")


@case(Cause.ADDRESS_SPOOFED)
def another_source_mac() -> Traced:
    return two_ports().trace("a", "b", eth_src="fa:16:3e:99:99:99")


@case(Cause.ADDRESS_SPOOFED)
def an_address_pair_with_another_mac() -> Traced:
    cloud = two_ports()
    cloud.change_port("a", allowed_address_pairs=(pair("10.0.0.99", "fa:16:3e:99:99:99"),))
    return cloud.trace("a", "b", source="10.0.0.99")


@case(Cause.DHCP_SERVER_GUARD)
def a_dhcp_reply() -> Traced:
    return two_ports().trace("a", "b", "udp", 68, source_port=67)


@case(Cause.DHCP_SERVER_GUARD)
def a_dhcpv6_reply() -> Traced:
    return two_ports().trace("a", "2001:db8:1::11", "udp", 546, source_port=547)


@case(Cause.RA_GUARD)
def a_router_advertisement() -> Traced:
    return two_ports().trace("a", "2001:db8:1::11", "icmpv6", 134)


@case(Cause.SECURITY_GROUP_EGRESS)
def no_egress_rule() -> Traced:
    cloud = two_ports()
    cloud.group("closed", rule("egress", protocol=6, port_min=443, port_max=443))
    cloud.change_port("a", security_groups=("closed",))
    return cloud.trace("a", "b", "tcp", 80)


@case(Cause.SECURITY_GROUP_EGRESS)
def no_security_group_at_all() -> Traced:
    cloud = two_ports()
    cloud.change_port("a", security_groups=())
    return cloud.trace("a", "b")


@case(Cause.SECURITY_GROUP_INGRESS)
def no_ingress_rule() -> Traced:
    cloud = two_ports(security_groups=("closed",))
    cloud.group("closed", rule("ingress", "IPv6"), rule("ingress", protocol=6))
    return cloud.trace("a", "b")


@case(Cause.SECURITY_GROUP_INGRESS)
def not_a_member_of_the_remote_group() -> Traced:
    cloud = two_ports(security_groups=("members",))
    cloud.group("members", rule("ingress", remote_group_id="clients"))
    cloud.members["clients"] = frozenset({Member("10.0.0.77", "fa:16:3e:00:00:77")})
    return cloud.trace("a", "b")


@case(Cause.SECURITY_GROUP_INGRESS)
def not_in_the_address_group() -> Traced:
    cloud = two_ports(security_groups=("addresses",))
    cloud.group("addresses", rule("ingress", remote_address_group_id="office"))
    cloud.address_groups["office"] = AddressGroup(id="office", addresses=frozenset({"192.168.0.0/16"}))
    return cloud.trace("a", "b")


@case(Cause.SECURITY_GROUP_INGRESS)
def another_icmp_type() -> Traced:
    cloud = two_ports(security_groups=("replies",))
    cloud.group("replies", rule("ingress", protocol=1, port_min=0))
    return cloud.trace("a", "b")


@case(Cause.FIREWALL_GROUP)
def firewall_group_of_the_sender() -> Traced:
    cloud = two_ports()
    cloud.firewall("fw", egress=[firewall_rule("deny", protocol=6), firewall_rule("allow")])
    cloud.change_port("a", firewall_group_id="fw")
    return cloud.trace("a", "b", "tcp", 80)


@case(Cause.FIREWALL_GROUP)
def firewall_group_of_the_receiver_has_no_rule() -> Traced:
    cloud = two_ports(firewall_group_id="fw")
    cloud.firewall("fw", ingress=[firewall_rule("allow", protocol=6, destination_port_first=22)])
    return cloud.trace("a", "b", "tcp", 80)


@case(Cause.FIREWALL_GROUP)
def firewall_group_is_down() -> Traced:
    cloud = two_ports(firewall_group_id="fw")
    cloud.firewall("fw", ingress=[firewall_rule("allow")], admin_state_up=False)
    return cloud.trace("a", "b")


@case(Cause.FIREWALL_GROUP)
def firewall_group_of_a_router() -> Traced:
    cloud = routed()
    cloud.firewall("fw", ingress=[firewall_rule("reject", source_ip_address="10.0.0.0/24")])
    cloud.filter_interface("r", "red", "fw")
    return cloud.trace("a", "c")


@case(Cause.FIREWALL_GROUP)
def firewall_group_of_a_distributed_router() -> Traced:
    cloud = distributed()
    cloud.firewall("fw", egress=[firewall_rule("deny")])
    cloud.filter_interface("r", "blue", "fw")
    return cloud.trace("a", "c")


@case(Cause.FIREWALL_GROUP)
def firewall_group_of_the_snat_part() -> Traced:
    cloud = distributed()
    cloud.firewall("fw", egress=[firewall_rule("deny")])
    cloud.filter_interface("r", "blue", "fw")
    return cloud.trace("a", "198.51.100.7")


@case(Cause.PACKET_TOO_BIG)
def larger_than_the_network_allows() -> Traced:
    return two_ports().trace("a", "b", size=1500)


@case(Cause.PACKET_TOO_BIG)
def larger_than_the_network_behind_the_router_allows() -> Traced:
    cloud = routed()
    cloud.change_network("red", mtu=1280)
    return cloud.trace("a", "c", size=1400)


@case(Cause.NO_SUCH_ADDRESS)
def nobody_has_the_address() -> Traced:
    return two_ports().trace("a", "10.0.0.200")


@case(Cause.NO_SUCH_ADDRESS)
def nobody_behind_the_router_has_the_address() -> Traced:
    return routed().trace("a", "10.1.0.200")


@case(Cause.NO_SUCH_ADDRESS)
def nobody_outside_has_the_address() -> Traced:
    return routed().from_outside("ext", "172.24.0.200")


@case(Cause.NO_TUNNEL)
def a_host_without_tunnels() -> Traced:
    cloud = two_ports()
    cloud.host("h2", tunneling_ip="", tunnel_types=())
    return cloud.trace("a", "b")


@case(Cause.NO_TUNNEL)
def a_host_without_this_type_of_tunnel() -> Traced:
    cloud = two_ports()
    cloud.host("h2", tunneling_ip="192.0.2.2", tunnel_types=("gre",))
    return cloud.trace("a", "b")


@case(Cause.NETWORK_LOCAL)
def a_local_network_on_two_hosts() -> Traced:
    cloud = Cloud()
    cloud.network("here", "10.0.0.0/24", kind="local")
    cloud.port("a", "here", "10.0.0.10")
    cloud.port("b", "here", "10.0.0.11", host="h2")
    return cloud.trace("a", "b")


@case(Cause.NO_PHYSICAL_NETWORK)
def a_host_without_the_physical_network() -> Traced:
    cloud = Cloud()
    cloud.network("vlan", "10.0.0.0/24", kind="vlan")
    cloud.port("a", "vlan", "10.0.0.10")
    cloud.port("b", "vlan", "10.0.0.11", host="h2")
    cloud.host("h2", physical_networks=())
    return cloud.trace("a", "b")


@case(Cause.NO_ROUTER)
def no_router_on_the_subnet() -> Traced:
    return two_ports().trace("a", "10.1.0.12")


@case(Cause.NO_ROUTER)
def a_subnet_without_gateway() -> Traced:
    cloud = two_ports()
    cloud.change_subnets("blue", gateway_ip=None)
    return cloud.trace("a", "198.51.100.7")


@case(Cause.NO_ROUTE)
def a_router_without_gateway() -> Traced:
    cloud = routed()
    cloud.change_router("r", gateway=None)
    return cloud.trace("a", "198.51.100.7")


@case(Cause.NO_ROUTE)
def a_distributed_router_without_gateway() -> Traced:
    cloud = distributed()
    cloud.change_router("r", gateway=None)
    return cloud.trace("a", "198.51.100.7")


@case(Cause.NO_ROUTE)
def metadata_on_another_port() -> Traced:
    return routed().trace("a", "169.254.169.254", "tcp", 443)


@case(Cause.ROUTER_ADMIN_DOWN)
def router_is_down() -> Traced:
    return routed(admin_state_up=False).trace("a", "c")


@case(Cause.ROUTER_ADMIN_DOWN)
def router_of_the_floating_ip_is_down() -> Traced:
    cloud = routed(admin_state_up=False)
    cloud.fip("172.24.0.100", "ext", "r", "a")
    return cloud.from_outside("ext", "172.24.0.100")


@case(Cause.ROUTER_NOT_SCHEDULED)
def router_without_agent() -> Traced:
    return routed(hosts=()).trace("a", "c")


@case(Cause.ROUTER_NOT_SCHEDULED)
def distributed_router_on_a_host_without_it() -> Traced:
    cloud = distributed()
    cloud.change_router("r", local_hosts=frozenset({"h2"}))
    return cloud.trace("a", "c")


@case(Cause.ROUTER_NOT_SCHEDULED)
def distributed_router_without_snat() -> Traced:
    cloud = distributed()
    cloud.change_router("r", placements=())
    return cloud.trace("a", "198.51.100.7")


@case(Cause.ROUTER_NOT_ACTIVE)
def ha_router_without_active_host() -> Traced:
    placements = (Placement("h2", "standby"), Placement("h3", "standby"))
    return routed(is_ha=True, placements=placements).trace("a", "c")


def scoped(**values: Any) -> Cloud:
    cloud = two_ports()
    cloud.network("red", "10.1.0.0/24", "2001:db8:2::/64")
    cloud.network("ext", "172.24.0.0/24", "2001:db8:e::/64", kind="flat", external=True, project_id="admin")
    cloud.port("c", "red", "10.1.0.12", "2001:db8:2::12", host="h2")
    cloud.scopes = {"blue-10.0.0.0/24": "one", "red-10.1.0.0/24": "two", "blue-2001:db8:1::/64": "six"}
    cloud.router("r", "blue", "red", outside="ext", **values)
    return cloud


@case(Cause.ADDRESS_SCOPE)
def between_address_scopes() -> Traced:
    return scoped().trace("a", "c")


@case(Cause.ADDRESS_SCOPE)
def from_a_scope_to_the_outside_without_snat() -> Traced:
    return scoped(enable_snat=False).trace("a", "198.51.100.7")


@case(Cause.ADDRESS_SCOPE)
def from_a_scope_of_ipv6_to_the_outside() -> Traced:
    return scoped().trace("a", "2001:db8:9::9")


@case(Cause.NO_FLOATING_IP)
def from_outside_to_a_fixed_address() -> Traced:
    return routed().from_outside("ext", "10.0.0.10", towards="a")


@case(Cause.NO_FLOATING_IP)
def from_outside_without_any_router() -> Traced:
    return two_ports().from_outside("", "10.0.0.10", towards="a")


@case(Cause.NO_FLOATING_IP)
def a_floating_ip_without_port() -> Traced:
    cloud = routed()
    cloud.fip("172.24.0.100", "ext")
    return cloud.from_outside("ext", "172.24.0.100")


@case(Cause.NO_FLOATING_IP)
def a_port_that_is_not_forwarded() -> Traced:
    cloud = routed()
    cloud.forward(cloud.fip("172.24.0.100", "ext", "r"), "a", 8080, 80)
    return cloud.from_outside("ext", "172.24.0.100", "tcp", 8081)


@case(Cause.FLOATING_IP_DOWN)
def a_floating_ip_that_is_not_applied() -> Traced:
    cloud = routed()
    cloud.fip("172.24.0.100", "ext", "r", "a", status="DOWN")
    return cloud.from_outside("ext", "172.24.0.100")


@case(Cause.TTL_EXPIRED)
def a_routing_loop() -> Traced:
    cloud = routed()
    cloud.network("transit", "10.9.0.0/24")
    cloud.router("s", "transit")
    interface = cloud.routers["s"].router.interfaces[0]
    own = cloud._interface("r", "transit", 2, ("h3",), False)
    cloud.change_router("r", interfaces=(*cloud.routers["r"].router.interfaces, own))
    cloud.route("r", "10.77.0.0/16", interface.addresses[0].ip_address)
    cloud.route("s", "10.77.0.0/16", own.addresses[0].ip_address)
    return cloud.trace("a", "10.77.0.1")


@case(Cause.NO_NDP_PROXY)
def address_without_ndp_proxy() -> Traced:
    cloud = two_ports()
    cloud.network("ext", "172.24.0.0/24", "2001:db8:e::/64", kind="flat", external=True, project_id="admin")
    cloud.scopes |= {"blue-2001:db8:1::/64": "scope", "ext-2001:db8:e::/64": "scope"}
    cloud.router("r", "blue", outside="ext", enable_ndp_proxy=True, ndp_proxies=(NdpProxy("n", "2001:db8:1::11"),))
    assert cloud.from_outside("ext", "2001:db8:1::11").verdict == DELIVERED
    return cloud.from_outside("ext", "2001:db8:1::10")


@case(Cause.VPN_DOWN)
def disabled_vpn_connection() -> Traced:
    cloud = two_ports()
    cloud.network("ext", "172.24.0.0/24", kind="flat", external=True, project_id="admin")
    peer = {"peer_address": "198.51.100.7", "peer_id": "peer", "peer_cidrs": ("10.9.0.0/24",)}
    disabled = VpnConnection(id="c", local_cidrs=("10.0.0.0/24",), admin_state_up=False, **peer)  # type: ignore[arg-type]
    cloud.router("r", "blue", outside="ext", vpn_services=(VpnService(id="s", connections=(disabled,)),))
    return cloud.trace("a", "10.9.0.5")


@case(Cause.VPN_DOWN)
def vpn_connection_without_a_tunnel() -> Traced:
    cloud, connection = two_sites()
    cloud.vpn_statuses[connection] = "DOWN"
    return cloud.trace("a", "d")


@case(Cause.NOT_REACHED)
def a_port_behind_another_router() -> Traced:
    cloud = routed()
    cloud.network("far", "10.9.0.0/24")
    cloud.port("d", "far", "10.9.0.10", host="h2")
    cloud.router("r2", "far", outside="ext", hosts=("h2",))
    return cloud.trace("a", "d", towards="d")


@case(Cause.NOT_REACHED)
def a_port_whose_address_another_network_has_too() -> Traced:
    cloud = routed()
    cloud.network("twin", "10.1.0.0/24")
    cloud.port("d", "twin", "10.1.0.12", host="h2")
    return cloud.trace("a", "d", towards="d")


@case(Cause.NO_LOCAL_IP)
def a_local_ip_without_association_on_the_host() -> Traced:
    cloud = two_ports()
    cloud.port("reserved", "blue", "10.0.0.50", host="", device_owner="local_ip")
    cloud.reserved_local_ips["reserved"] = "anycast"
    return cloud.trace("a", "10.0.0.50")


@pytest.mark.parametrize("name", CASES)
def test_dropped(name: str) -> None:
    cause, function = CASES[name]
    traced = function()
    assert traced.verdict == ("dropped", cause.value), traced.texts
    last = traced.there.steps[-1]
    assert (last.result, last.cause) == ("drop", cause)
    assert last.text.endswith(".")
    assert [step.result for step in traced.there.steps].count("drop") == 1


def test_every_cause_of_the_server_is_covered() -> None:
    of_hosts = {
        *(Cause.NONE, Cause.NO_DEVICE, Cause.LINK_DOWN, Cause.NO_NEIGHBOUR, Cause.HOST_TIMEOUT),
        *(Cause.DRIFT, Cause.LAG, Cause.OTHER),
    }
    open_causes = {Cause.NEXT_HOP, Cause.NO_ROUTE_BACK}
    assert set(Cause) - {cause for cause, _ in CASES.values()} == of_hosts | open_causes


@pytest.mark.parametrize("name", CASES)
def test_public_texts_name_no_host_and_no_segment(name: str) -> None:
    for step in CASES[name][1]().there.steps:
        text = step.public or step.text
        assert not any(word in text.split() for word in ("h1", "h2", "h3", "physnet1")), text
        assert not any(f"{word}" in text for word in ("h1 ", "h2 ", "h3 ", "h1.", "h2.", "h3.", "VLAN", "physnet")), (
            text
        )


# --- unknown ----------------------------------------------------------------------------------------------------------


def test_a_dead_agent_leaves_it_open() -> None:
    cloud = two_ports()
    cloud.host("h2", tunneling_ip="192.0.2.2", alive=False, last_report="2026-11-16T12:00:00Z")
    traced = cloud.trace("a", "b")
    assert traced.verdict == ("unknown", "host-down")
    assert "h2 has not reported since 2026-11-16T12:00:00Z" in traced.texts


def test_a_dead_agent_does_not_hide_a_drop() -> None:
    cloud = two_ports(security_groups=())
    cloud.host("h1", tunneling_ip="192.0.2.1", alive=False)
    assert cloud.trace("a", "b").verdict == ("dropped", "security-group-ingress")


def test_a_dead_l3_agent_leaves_it_open() -> None:
    cloud = routed()
    cloud.host("h3", tunneling_ip="192.0.2.3", l3_alive=False)
    assert cloud.trace("a", "c").verdict == ("unknown", "host-down")


def test_an_instance_as_next_hop_leaves_it_open() -> None:
    cloud = two_ports()
    cloud.change_subnets("blue", host_routes=(("192.168.0.0/16", "10.0.0.11"),))
    traced = cloud.trace("a", "192.168.1.1")
    assert traced.verdict == ("unknown", "next-hop")
    assert traced.there.end_port_id == "b"


# --- delivered on one network -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["b", "10.0.0.11", "2001:db8:1::11"])
def test_through_a_tunnel(to: str) -> None:
    traced = two_ports().trace("a", to, "tcp", 80)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    first, second = traced.there.hops
    assert (first.host, second.host) == ("h1", "h2")
    assert first.entry is not None
    assert (first.entry.kind, first.entry.port_id) == (PointKind.PORT, "a")
    assert first.exit is not None
    assert (first.exit.kind, first.exit.peer, first.exit.segmentation_id) == (PointKind.TUNNEL, "192.0.2.2", 100)
    assert second.entry is not None
    assert second.entry.peer == "192.0.2.1"
    assert traced.there.end_port_id == "b"
    assert traced.back is not None
    assert (traced.back.packet.source_port, traced.back.packet.destination_port) == (80, 40000)


def test_on_one_host() -> None:
    cloud = two_ports()
    cloud.change_port("b", host="h1")
    traced = cloud.trace("a", "b")
    assert (traced.verdict, traced.hosts) == (DELIVERED, ["h1"])


@pytest.mark.parametrize(("kind", "tag"), [("vlan", 100), ("flat", None)])
def test_over_a_physical_network(kind: str, tag: int | None) -> None:
    cloud = Cloud()
    cloud.network("net", "10.0.0.0/24", kind=kind)
    cloud.port("a", "net", "10.0.0.10")
    cloud.port("b", "net", "10.0.0.11", host="h2")
    traced = cloud.trace("a", "b")
    assert traced.verdict == DELIVERED
    point = traced.there.hops[0].exit
    assert point is not None
    assert (point.kind, point.physical_network, point.segmentation_id) == (PointKind.PHYSICAL, "physnet1", tag)


def test_an_allowed_address_pair_sends_and_receives() -> None:
    cloud = two_ports(allowed_address_pairs=(pair("10.0.0.200"),))
    assert cloud.trace("a", "10.0.0.200").verdict == DELIVERED
    assert cloud.trace("b", "a", source="10.0.0.200").verdict == DELIVERED


def test_without_port_security_nothing_is_checked() -> None:
    cloud = two_ports()
    cloud.change_port("a", port_security_enabled=False, security_groups=())
    assert cloud.trace("a", "b", source="10.0.0.99", eth_src="fa:16:3e:99:99:99").verdict == DELIVERED


def test_neighbour_discovery_and_dhcp_pass_without_a_rule() -> None:
    cloud = two_ports(security_groups=())
    cloud.change_port("a", security_groups=())
    assert cloud.trace("a", "2001:db8:1::11", "icmpv6", 135).verdict == DELIVERED
    cloud.port("dhcp", "blue", "10.0.0.2", host="h2", device_owner="network:dhcp")
    assert cloud.trace("a", "dhcp", "udp", 67, source_port=68).verdict == DELIVERED


def test_rules_name_what_they_match() -> None:
    cloud = two_ports(security_groups=("web",))
    cloud.group("web", rule("ingress", protocol=6, port_min=80, port_max=90, remote_ip_prefix="10.0.0.0/24"))
    traced = cloud.trace("a", "b", "tcp", 85)
    assert traced.verdict == DELIVERED
    assert "Security group web allows it by its rule rule-ingress-IPv4." in traced.texts
    assert cloud.trace("a", "b", "tcp", 91).verdict[0] == "dropped"


def test_remote_groups_and_address_groups_match_addresses() -> None:
    cloud = two_ports(security_groups=("members", "addresses"))
    cloud.group("members", rule("ingress", remote_group_id="clients"))
    cloud.members["clients"] = frozenset({Member("10.0.0.10", "")})
    cloud.group("addresses", rule("ingress", "IPv6", remote_address_group_id="office"))
    cloud.address_groups["office"] = AddressGroup(id="office", addresses=frozenset({"2001:db8:1::/64"}))
    assert cloud.trace("a", "b").verdict == DELIVERED
    assert cloud.trace("a", "2001:db8:1::11").verdict == DELIVERED


def test_a_stateless_group_needs_a_rule_for_replies() -> None:
    cloud = two_ports()
    cloud.group("stateless", rule("egress", protocol=6), stateful=False)
    cloud.change_port("a", security_groups=("stateless",))
    traced = cloud.trace("a", "b", "tcp", 80)
    assert (traced.verdict, traced.returned) == (DELIVERED, ("dropped", "security-group-ingress"))
    cloud.group("stateless", rule("egress", protocol=6), rule("ingress", protocol=6), stateful=False)
    assert cloud.trace("a", "b", "tcp", 80).returned == DELIVERED


def test_a_reply_passes_a_stateful_group_without_a_rule() -> None:
    cloud = two_ports(security_groups=("in",))
    cloud.group("in", rule("ingress"))
    cloud.group("out", rule("egress"))
    cloud.change_port("a", security_groups=("out",))
    assert cloud.trace("a", "b").returned == DELIVERED
    assert cloud.trace("b", "a").verdict == ("dropped", "security-group-egress")


def test_qos_is_named_and_does_not_decide() -> None:
    cloud = two_ports(qos_policy_id="slow")
    cloud.policies["slow"] = QosPolicy(
        id="slow", bandwidth_limits=(BandwidthLimit(direction="ingress", max_kbps=1000),)
    )
    traced = cloud.trace("a", "b")
    assert traced.verdict == DELIVERED
    assert "QoS policy slow: at most 1000 kbit/s." in traced.texts


def test_a_host_that_is_behind_is_named() -> None:
    cloud = two_ports()
    cloud.host("h2", tunneling_ip="192.0.2.2", behind=7)
    assert "Host h2 was 7 changes behind at its last report." in cloud.trace("a", "b").texts


# --- routers ----------------------------------------------------------------------------------------------------------

HA = (Placement("h2", "standby"), Placement("h3", "active"))


@pytest.mark.parametrize("to", ["10.1.0.12", "2001:db8:2::12"])
@pytest.mark.parametrize("values", [{}, {"is_ha": True, "placements": HA}], ids=["centralized", "ha"])
def test_between_subnets(values: Any, to: str) -> None:
    traced = routed(**values).trace("a", to, "tcp", 80)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert traced.hosts == ["h1", "h3", "h2"]
    assert traced.there.packet.ttl == 63
    assert traced.there.packet.eth_src == traced.snapshot.ports["qr-r-red"].port.mac_address
    assert traced.there.packet.source == ("10.0.0.10" if "." in to else "2001:db8:1::10")


@pytest.mark.parametrize("to", ["10.1.0.12", "2001:db8:2::12"])
def test_a_distributed_router_routes_on_the_senders_host(to: str) -> None:
    traced = distributed().trace("a", to)
    assert (traced.verdict, traced.returned, traced.hosts) == (DELIVERED, DELIVERED, ["h1", "h2"]), traced.texts


def test_to_the_outside_by_snat() -> None:
    traced = routed().trace("a", "198.51.100.7", "tcp", 443)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert (traced.there.end_network_id, traced.there.packet.source) == ("ext", "172.24.0.3")
    assert traced.back is not None
    assert (traced.back.end_port_id, traced.back.packet.destination) == ("a", "10.0.0.10")
    assert traced.there.hops[-1].exit is not None
    assert traced.there.hops[-1].exit.kind is PointKind.PHYSICAL


def test_to_the_outside_without_translation() -> None:
    for cloud, to in ((routed(), "2001:db8:9::9"), (routed(enable_snat=False), "198.51.100.7")):
        traced = cloud.trace("a", to)
        assert (traced.verdict, traced.returned) == (DELIVERED, ("unknown", "no-route-back")), traced.texts
        assert traced.there.packet.source in ("10.0.0.10", "2001:db8:1::10")


def test_to_the_outside_by_a_floating_ip() -> None:
    cloud = routed()
    cloud.fip("172.24.0.100", "ext", "r", "a")
    traced = cloud.trace("a", "198.51.100.7")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert traced.there.packet.source == "172.24.0.100"


def test_from_outside_to_a_floating_ip() -> None:
    cloud = routed()
    cloud.fip("172.24.0.100", "ext", "r", "a")
    traced = cloud.from_outside("ext", "172.24.0.100", "tcp", 22)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert (traced.there.end_port_id, traced.there.packet.destination) == ("a", "10.0.0.10")
    assert traced.back is not None
    assert (traced.back.packet.source, traced.back.end_network_id) == ("172.24.0.100", "ext")
    assert traced.there.hops[0].entry is not None
    assert traced.there.hops[0].packet.eth_dst == traced.snapshot.ports["qr-r-ext"].port.mac_address


def test_from_outside_to_a_forwarded_port() -> None:
    cloud = routed()
    cloud.forward(cloud.fip("172.24.0.100", "ext", "r"), "a", 8080, 80)
    traced = cloud.from_outside("ext", "172.24.0.100", "tcp", 8080)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert (traced.there.packet.destination, traced.there.packet.destination_port) == ("10.0.0.10", 80)
    assert traced.back is not None
    assert (traced.back.packet.source, traced.back.packet.source_port) == ("172.24.0.100", 8080)


def test_from_outside_by_ipv6_and_without_snat() -> None:
    assert routed().from_outside("ext", "2001:db8:1::10").verdict == DELIVERED
    assert routed(enable_snat=False).from_outside("ext", "10.0.0.10").verdict == DELIVERED


@pytest.mark.parametrize("has_own", [True, False])
def test_a_hairpin_changes_the_source(has_own: bool) -> None:
    cloud = routed()
    cloud.fip("172.24.0.101", "ext", "r", "c")
    if has_own:
        cloud.fip("172.24.0.100", "ext", "r", "a")
    traced = cloud.trace("a", "172.24.0.101")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert traced.there.end_port_id == "c"
    assert traced.there.packet.source == ("172.24.0.100" if has_own else "172.24.0.3")


def test_a_floating_ip_of_another_router() -> None:
    cloud = routed()
    cloud.network("green", "10.2.0.0/24")
    cloud.port("d", "green", "10.2.0.13", host="h1")
    cloud.router("s", "green", outside="ext", hosts=("h2",))
    cloud.fip("172.24.0.110", "ext", "s", "d")
    traced = cloud.trace("a", "172.24.0.110", "tcp", 80)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert traced.hosts == ["h1", "h3", "h2", "h1"]
    assert traced.there.packet.source == "172.24.0.3"


def test_extra_routes_lead_to_another_router() -> None:
    cloud = routed()
    cloud.network("transit", "10.9.0.0/24")
    cloud.network("far", "10.8.0.0/24")
    cloud.port("d", "far", "10.8.0.13", host="h1")
    cloud.router("s", "transit", "far", hosts=("h2",))
    own = cloud._interface("r", "transit", 2, ("h3",), False)
    cloud.change_router("r", interfaces=(*cloud.routers["r"].router.interfaces, own))
    cloud.route("r", "10.8.0.0/24", "10.9.0.1")
    traced = cloud.trace("a", "d")
    assert traced.verdict == DELIVERED, traced.texts
    assert "extra route 10.8.0.0/24" in traced.texts
    assert traced.returned == ("dropped", "no-route")  # the other router has no route back
    cloud.route("s", "10.0.0.0/24", "10.9.0.2")
    assert cloud.trace("a", "d").returned == DELIVERED


def test_host_routes_choose_the_router() -> None:
    cloud = routed()
    cloud.change_subnets("blue", gateway_ip=None, host_routes=(("10.1.0.0/24", "10.0.0.1"),))
    assert cloud.trace("a", "c").verdict == DELIVERED


def test_the_router_itself_answers() -> None:
    traced = routed().trace("a", "10.0.0.1")
    assert (traced.verdict, traced.there.end_router_id, traced.back) == (DELIVERED, "r", None)


@pytest.mark.parametrize("to", ["169.254.169.254", "fe80::a9fe:a9fe"])
@pytest.mark.parametrize("make", [routed, distributed])
def test_metadata_by_the_router(make: Callable[[], Cloud], to: str) -> None:
    traced = make().trace("a", to, "tcp", 80)
    assert (traced.verdict, traced.there.end_router_id) == (DELIVERED, "r"), traced.texts
    assert "metadata proxy" in traced.texts


def test_metadata_of_an_isolated_network() -> None:
    cloud = two_ports()
    cloud.port("dhcp", "blue", "10.0.0.2", host="h2", device_owner="network:dhcp")
    traced = cloud.trace("a", "169.254.169.254", "tcp", 80)
    assert (traced.verdict, traced.there.end_port_id) == (DELIVERED, "dhcp"), traced.texts


def test_replies_pass_the_firewall_group_of_a_router() -> None:
    cloud = routed()
    cloud.firewall("fw", ingress=[firewall_rule("allow", protocol=6, destination_port_first=80)])
    cloud.filter_interface("r", "red", "fw")
    traced = cloud.trace("a", "c", "tcp", 80)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert cloud.trace("c", "a", "tcp", 80).verdict == ("dropped", "firewall-group")


@pytest.mark.parametrize("make", [routed, distributed])
def test_what_could_be_a_reply_and_is_none_is_dropped(make: Callable[[], Cloud]) -> None:
    """The rules allow what it would be a reply to."""
    cloud = make()
    web = firewall_rule("allow", protocol=6, destination_port_first=80)
    cloud.firewall("fw", ingress=[web], egress=[firewall_rule("allow")])
    cloud.filter_interface("r", "red", "fw")
    for words in (("icmp",), ("udp", 5000), ("tcp", 5000), ("sctp", 5000)):
        assert cloud.trace("a", "c", *words).verdict == ("dropped", "firewall-group"), words
        traced = cloud.trace("c", "a", *words)
        assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), (words, traced.texts)


def test_address_scopes_let_translated_packets_pass() -> None:
    cloud = scoped()
    cloud.fip("172.24.0.101", "ext", "r", "c")
    assert cloud.trace("a", "172.24.0.101").verdict == DELIVERED  # hairpin
    assert cloud.from_outside("ext", "172.24.0.101").verdict == DELIVERED
    traced = cloud.trace("a", "198.51.100.7")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED)
    cloud.delegate("r", "blue-2001:db8:1::/64")
    assert cloud.trace("a", "2001:db8:9::9").verdict == DELIVERED


# --- distributed routers ----------------------------------------------------------------------------------------------


def test_a_distributed_router_translates_centrally_without_floating_ip() -> None:
    back = {"198.51.100.7": DELIVERED, "2001:db8:9::9": ("unknown", "no-route-back")}
    for to, source in (("198.51.100.7", "172.24.0.3"), ("2001:db8:9::9", "2001:db8:1::10")):
        traced = distributed().trace("a", to)
        assert (traced.verdict, traced.returned) == (DELIVERED, back[to]), traced.texts
        assert (traced.hosts, traced.there.packet.source) == (["h1", "h3"], source)


def test_a_distributed_router_translates_a_floating_ip_on_the_ports_host() -> None:
    cloud = distributed()
    cloud.agent_gateway("r", "ext", "h1")
    cloud.fip("172.24.0.100", "ext", "r", "a")
    traced = cloud.trace("a", "198.51.100.7")
    assert (traced.verdict, traced.returned, traced.hosts) == (DELIVERED, DELIVERED, ["h1"]), traced.texts
    assert traced.there.packet.source == "172.24.0.100"
    inward = cloud.from_outside("ext", "172.24.0.100")
    assert (inward.verdict, inward.returned, inward.hosts) == (DELIVERED, DELIVERED, ["h1"]), inward.texts


def test_a_distributed_router_sends_packets_to_vpn_peers_by_its_snat_part() -> None:
    cloud = distributed()
    cloud.agent_gateway("r", "ext", "h1")
    cloud.fip("172.24.0.100", "ext", "r", "a")
    peer = {"peer_address": "198.51.100.7", "peer_id": "peer", "peer_cidrs": ("10.9.0.0/24",)}
    tunnel = VpnConnection(id="c", local_cidrs=("10.0.0.0/24",), **peer)  # type: ignore[arg-type]
    cloud.change_router("r", vpn_services=(VpnService(id="s", connections=(tunnel,)),))
    traced = cloud.trace("a", "10.9.0.5")
    assert (traced.verdict, traced.hosts) == (DELIVERED, ["h1", "h3"]), traced.texts
    assert traced.there.packet.source == "10.0.0.10"
    assert cloud.trace("a", "10.8.0.5").hosts == ["h1"]


def test_an_announced_subnet_leaves_by_the_instances_host() -> None:
    cloud = distributed()
    cloud.change_router("r", direct_prefixes=("10.0.0.0/24",))
    assert cloud.trace("a", "198.51.100.7").hosts == ["h1", "h3"], "as long as the host has no gateway of its own"
    cloud.agent_gateway("r", "ext", "h1")
    traced = cloud.trace("a", "198.51.100.7")
    assert (traced.verdict, traced.hosts, traced.there.packet.source) == (DELIVERED, ["h1"], "10.0.0.10"), traced.texts


def test_a_floating_ip_on_a_host_without_external_network_is_central() -> None:
    cloud = distributed()
    cloud.host("h1", tunneling_ip="192.0.2.1", agent_mode="dvr_no_external")
    cloud.agent_gateway("r", "ext", "h1")
    cloud.fip("172.24.0.100", "ext", "r", "a")
    inward = cloud.from_outside("ext", "172.24.0.100")
    assert (inward.verdict, inward.returned, inward.hosts) == (DELIVERED, DELIVERED, ["h3", "h1"]), inward.texts
    outward = cloud.trace("a", "198.51.100.7")
    assert (outward.there.packet.source, outward.returned, outward.hosts) == ("172.24.0.100", DELIVERED, ["h1", "h3"])


def test_a_distributed_ha_router_leaves_by_the_active_host() -> None:
    cloud = distributed(is_ha=True, placements=(Placement("h2", "active"), Placement("h3", "standby")))
    traced = cloud.trace("a", "198.51.100.7")
    assert (traced.verdict, traced.hosts) == (DELIVERED, ["h1", "h2"])


def test_two_floating_ips_of_a_distributed_router() -> None:
    cloud = distributed()
    for host, index in (("h1", 50), ("h2", 51)):
        cloud.agent_gateway("r", "ext", host, index)
    cloud.fip("172.24.0.100", "ext", "r", "a")
    cloud.fip("172.24.0.101", "ext", "r", "c")
    traced = cloud.trace("a", "172.24.0.101")
    assert (traced.verdict, traced.returned, traced.hosts) == (DELIVERED, DELIVERED, ["h1", "h2"]), traced.texts
    assert traced.there.packet.source == "172.24.0.100"


# --- members ----------------------------------------------------------------------------------------------------------


def test_a_members_path_ends_outside_before_other_projects_objects() -> None:
    cloud = routed()
    cloud.network("green", "10.2.0.0/24", project_id="other-project")
    cloud.port("d", "green", "10.2.0.13", project_id="other-project", security_groups=())
    cloud.router("s", "green", outside="ext", hosts=("h2",), project_id="other-project")
    cloud.fip("172.24.0.110", "ext", "s", "d", project_id="other-project")
    used, unused = (cloud.trace("a", to, project="own-project") for to in ("172.24.0.110", "172.24.0.111"))
    assert used.verdict == unused.verdict == DELIVERED
    assert used.texts.replace(".110", ".111") == unused.texts
    assert used.returned == unused.returned
    assert cloud.trace("a", "172.24.0.110").verdict == ("dropped", "security-group-ingress")
