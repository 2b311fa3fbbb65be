"""Verdicts that were wrong once: packets that do not arrive and counted as delivered, those that arrive and did not, and
what is not known. By the server's data alone, and with answers of hosts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from neutrino.features.trunk.trace import Subport
from neutrino.model.trace import Cause, Exit, HostAnswer, Observation, Point, PointKind
from neutrino.server.trace.collect import directory, follow
from neutrino.server.trace.compare import compare, takes_oversized
from neutrino.server.trace.path import compute
from neutrino.server.trace.steps.walk import Subject
from tests.support.traced_cloud import OWN, Cloud, Traced, pair
from tests.unit.test_trace_compare import Hosts, dropped, judge, leaves, outcome
from tests.unit.test_trace_path import DELIVERED, distributed, routed, two_ports, two_sites

UNKNOWN_BACK = ("unknown", "no-route-back")
OUT = Point(kind=PointKind.PHYSICAL, physical_network="physnet1")


def virtual_address(**values: object) -> Cloud:
    """`vip` reserves 10.0.0.50, which keeper on h2 has as an allowed address pair; both are behind r."""
    cloud = routed()
    cloud.port("vip", "blue", "10.0.0.50", host="", device_owner="Octavia")
    cloud.port("keeper", "blue", "10.0.0.20", host="h2", allowed_address_pairs=(pair("10.0.0.50"),), **values)
    return cloud


# --- what counted as delivered ------------------------------------------------------------------------------------------


def test_a_port_behind_another_router_is_not_reached_by_translation() -> None:
    cloud = routed()
    cloud.network("far", "10.9.0.0/24")
    cloud.port("d", "far", "10.9.0.10", host="h2")
    cloud.router("r2", "far", outside="ext", hosts=("h2",))
    traced = cloud.trace("a", "d", towards="d")
    assert traced.verdict == ("dropped", "not-reached")
    assert "port d is not reached" in traced.texts
    result, _, _ = judge(traced, h3=leaves(traced.there.packet, OUT))
    assert outcome(result) == ("dropped", "not-reached", True)
    assert cloud.trace("a", "d", towards="d", project=OWN).verdict == ("dropped", "not-reached")
    cloud.change_router("r2", enable_snat=False)
    opened = cloud.trace("a", "d", towards="d")
    assert opened.verdict == ("unknown", "not-reached")
    result, _, _ = judge(opened)
    assert outcome(result) == ("unknown", "not-reached", True)
    # The same address without a port leaves to the outside: whose it is there nobody knows.
    assert cloud.trace("a", "10.9.0.10").verdict == DELIVERED


def test_a_packet_that_leaves_untranslated_where_it_should_not() -> None:
    traced = routed().trace("a", "198.51.100.7")
    assert traced.there.packet.source == "172.24.0.3"
    plain = msgspec.structs.replace(traced.there.packet, source="10.0.0.10")
    result, _, _ = judge(traced, h3=leaves(plain, OUT, drift=("router r: set table ip neutrino",)))
    assert outcome(result) == ("dropped", "drift", False)
    assert "source 10.0.0.10 in place of 172.24.0.3" in result.differences[0].text


def test_a_reply_whose_source_is_not_translated_back() -> None:
    cloud = routed()
    cloud.fip("172.24.0.100", "ext", "r", "c")
    back = cloud.trace("a", "172.24.0.100").back
    assert back is not None
    wrong = msgspec.structs.replace(back.packet, source="10.1.0.12")
    traced = cloud.trace("a", "172.24.0.100")
    answers = {"h3": leaves(wrong, back.hops[1].exit), "h1": leaves(wrong, Point(kind=PointKind.PORT, port_id="a"))}
    hosts = Hosts(back, answers)
    collected = follow(back.hops[0], directory(traced.snapshot), hosts, lambda: 0.0, 10.0)
    assert outcome(compare(back, collected, traced.snapshot, 5)) == ("dropped", "drift", False)


@pytest.mark.parametrize("to", ["198.51.100.7", "2001:db8:9::9"])
def test_a_source_that_is_not_translated_may_have_no_way_back(to: str) -> None:
    traced = routed(enable_snat=False).trace("a", to)
    assert (traced.verdict, traced.returned) == (DELIVERED, UNKNOWN_BACK)
    back = traced.back
    assert back is not None
    collected = follow(back.hops[0], directory(traced.snapshot), Hosts(back), lambda: 0.0, 10.0)
    assert outcome(compare(back, collected, traced.snapshot, 5)) == ("unknown", "no-route-back", True)


def test_a_reply_that_leaves_to_the_outside_may_not_return() -> None:
    """From behind a router that does not translate to a floating IP of another: that one has no route back."""
    cloud = routed(enable_snat=False)
    cloud.network("far", "10.9.0.0/24")
    cloud.port("d", "far", "10.9.0.10", host="h2")
    cloud.router("r2", "far", outside="ext", hosts=("h2",))
    cloud.fip("172.24.0.100", "ext", "r2", "d")
    traced = cloud.trace("a", "172.24.0.100")
    assert (traced.verdict, traced.there.end_port_id, traced.returned) == (DELIVERED, "d", UNKNOWN_BACK)
    cloud.change_router("r", enable_snat=True)
    assert cloud.trace("a", "172.24.0.100").returned == DELIVERED


def test_a_vpn_connection_to_a_router_of_the_same_cloud_goes_on_at_its_other_end() -> None:
    cloud, _ = two_sites()
    traced = cloud.trace("a", "d")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED)
    assert traced.there.end_port_id == "d"
    result, hosts, _ = judge_tunnel(traced)
    assert outcome(result) == ("delivered", "", True)
    assert [host for host, _ in hosts.asked] == ["h1", "h3", "h2", "h1"]
    cloud.group("closed")
    cloud.change_port("d", security_groups=("closed",))
    assert cloud.trace("a", "d").verdict == ("dropped", "security-group-ingress")


def judge_tunnel(traced: Traced):  # type: ignore[no-untyped-def]
    """As `judge`, where the second part of the way begins after a tunnel."""
    hosts = Hosts(traced.there)
    places = directory(traced.snapshot)
    collected = follow(traced.there.hops[0], places, hosts, lambda: 0.0, 10.0)
    for hop in traced.there.hops:
        if hop.resumes and collected.enters_tunnel:
            collected = collected.then(follow(hop, places, hosts, lambda: 0.0, 10.0))
    return compare(traced.there, collected, traced.snapshot, 5), hosts, collected


def test_a_member_is_not_told_of_another_projects_router_behind_a_vpn_connection() -> None:
    cloud, _ = two_sites()
    cloud.change_router("r2", project_id="other")
    traced = cloud.trace("a", "10.9.0.10", project=OWN)
    assert (traced.verdict, traced.there.end_port_id, traced.there.end_router_id) == (DELIVERED, "", "r")


def test_whether_an_instance_forwards_is_not_known_though_hosts_deliver_to_it() -> None:
    cloud = routed()
    cloud.route("r", "192.168.0.0/16", "10.1.0.12")
    traced = cloud.trace("a", "192.168.1.1")
    result, _, _ = judge(traced)
    assert outcome(result) == ("unknown", "next-hop", True)
    refused = dropped(traced.there.packet, Cause.LINK_DOWN)
    assert outcome(judge(traced, h2=refused)[0]) == ("dropped", "link-down", False)


def test_a_router_rejects_what_none_of_a_floating_ips_forwardings_is_for() -> None:
    cloud = routed()
    fip = cloud.fip("172.24.0.100", "ext", "r")
    cloud.forward(fip, "a", 8022, 22)
    traced = cloud.from_outside("ext", "172.24.0.100", "tcp", 80)
    assert traced.verdict == ("dropped", "no-floating-ip")
    assert "rejects it" in traced.texts
    result, _, _ = judge(traced, h3=leaves(traced.there.packet, None))  # the address is the router's
    assert outcome(result) == ("dropped", "no-floating-ip", True)
    echo = cloud.from_outside("ext", "172.24.0.100")
    assert (echo.verdict, echo.there.end_router_id) == (DELIVERED, "r")


@pytest.mark.parametrize("cause", [Cause.LINK_DOWN, Cause.PACKET_TOO_BIG, Cause.VPN_DOWN])
def test_what_a_host_alone_knows_is_the_cause(cause: Cause) -> None:
    traced = two_ports().trace("a", "b")
    result, _, _ = judge(traced, h2=dropped(traced.there.packet, cause))
    assert outcome(result) == ("dropped", cause.value, False)


# --- what counted as dropped --------------------------------------------------------------------------------------------


def test_an_address_that_one_port_reserves_and_another_has() -> None:
    cloud = virtual_address()
    traced = cloud.trace("a", "vip", towards="vip")
    assert (traced.verdict, traced.returned, traced.there.end_port_id) == (DELIVERED, DELIVERED, "keeper")
    assert "Port keeper has 10.0.0.50 in its allowed address pairs" in traced.texts
    sent = cloud.trace("vip", "a")
    assert (sent.verdict, sent.returned, sent.hosts[0]) == (DELIVERED, DELIVERED, "h2")
    assert sent.back is not None
    assert sent.back.end_port_id == "keeper"


def test_a_reserved_address_behind_a_floating_ip() -> None:
    cloud = virtual_address()
    cloud.fip("172.24.0.100", "ext", "r", "vip")
    traced = cloud.from_outside("ext", "172.24.0.100")
    assert (traced.verdict, traced.returned, traced.there.end_port_id) == (DELIVERED, DELIVERED, "keeper")


def test_of_several_holders_the_reply_goes_to_the_one_that_has_sent() -> None:
    cloud = virtual_address()
    cloud.port("backup", "blue", "10.0.0.19", host="h2", allowed_address_pairs=(pair("10.0.0.50"),))
    there = cloud.trace("a", "vip")
    assert there.there.end_port_id == "backup"
    assert "So have port keeper: which instance uses it now is not known here" in there.texts
    sent = cloud.trace("keeper", "a", source="10.0.0.50")
    assert sent.back is not None
    assert (sent.returned, sent.back.end_port_id) == (DELIVERED, "keeper")


def test_without_a_holder_a_reserved_address_is_unbound() -> None:
    cloud = virtual_address()
    cloud.change_port("keeper", allowed_address_pairs=())
    assert cloud.trace("a", "vip").verdict == ("dropped", "port-unbound")


def test_a_stopped_instance_is_unbound_though_another_port_may_have_any_address() -> None:
    cloud = two_ports()
    cloud.port("free", "blue", "10.0.0.60", host="h2", port_security_enabled=False, security_groups=())
    cloud.port("off", "blue", "10.0.0.61", host="", device_owner="compute:nova")
    assert cloud.trace("a", "off").verdict == ("dropped", "port-unbound")
    cloud.port("vip", "blue", "10.0.0.62", host="", device_owner="Octavia")
    assert cloud.trace("a", "vip").verdict == ("unknown", "no-such-address")


@pytest.mark.parametrize(
    "values", [{"port_security_enabled": False, "security_groups": ()}, {"allowed_address_pairs": (pair("0.0.0.0/0"),)}]
)
def test_an_address_that_a_port_may_use_which_is_not_its_own(values: dict[str, object]) -> None:
    cloud = two_ports(**values)
    traced = cloud.trace("a", "10.0.0.200")
    assert traced.verdict == ("unknown", "no-such-address")
    assert "port b, which may use other addresses than its own" in traced.texts
    nobody = dropped(traced.there.packet, Cause.NO_SUCH_ADDRESS)
    assert outcome(judge(traced, h1=nobody)[0]) == ("unknown", "no-such-address", True)
    assert outcome(judge(traced, h1=dropped(traced.there.packet, Cause.LINK_DOWN))[0])[:2] == ("dropped", "link-down")
    assert two_ports().trace("a", "10.0.0.200").verdict == ("dropped", "no-such-address")


def test_the_reply_to_an_address_that_is_not_the_senders_own() -> None:
    cloud = two_ports()
    cloud.change_port("a", port_security_enabled=False, security_groups=())
    traced = cloud.trace("a", "b", source="10.0.0.99")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED)
    assert traced.back is not None
    assert traced.back.end_port_id == "a"


def test_devices_may_take_more_than_the_mtu() -> None:
    cloud = two_ports()
    traced = cloud.trace("a", "b", size=1500)
    assert traced.verdict == ("dropped", "packet-too-big")
    looked = (Observation(source="device", where="tapa", effect="input", note="takes 9000 bytes"),)
    port = Point(kind=PointKind.PORT, port_id="b")
    for observations, takes in ((looked, True), ((), False)):
        answer = HostAnswer(exits=(Exit(packet=traced.there.packet, point=port),), observations=observations)
        result, _, collected = judge(traced, h1=answer)
        assert takes_oversized(traced.there, collected, traced.snapshot) is takes
        assert result.verdict.value == "dropped"  # until the path is computed once more
    again = compute(traced.snapshot, traced.origin, traced.there.packet, oversized=True)
    assert (again.verdict.value, again.end_port_id) == ("delivered", "b")
    assert any("The devices on its way take more" in step.text for step in again.steps)


def test_a_port_to_itself_does_not_leave_the_instance() -> None:
    traced = two_ports().trace("a", "a")
    assert (traced.verdict, traced.back, traced.hosts) == (DELIVERED, None, [])


def test_from_an_external_network_by_its_gateway() -> None:
    cloud = Cloud()
    cloud.network("ext", "172.24.0.0/24", kind="flat", external=True)
    cloud.port("direct", "ext", "172.24.0.40", host="h1")
    traced = cloud.trace("direct", "198.51.100.7")
    assert traced.verdict == DELIVERED
    first = traced.there.hops[0].packet
    result, _, _ = judge(traced, h1=leaves(first, OUT))  # as the instance has sent it
    assert outcome(result) == ("delivered", "", True)


@pytest.mark.parametrize("kind", [routed, distributed], ids=["centralized", "distributed"])
def test_from_an_external_network_to_a_floating_ip_on_it(kind: Callable[[], Cloud]) -> None:
    """The packet has the MAC address of what answers for the floating IP: hosts find it by that."""
    cloud = kind()
    cloud.port("direct", "ext", "172.24.0.40", host="h1")
    cloud.agent_gateway("r", "ext", "h2")
    cloud.fip("172.24.0.100", "ext", "r", "c")
    cloud.port("of-fip", "ext", "172.24.0.100", host="", device_owner="network:floatingip")
    traced = cloud.trace("direct", "172.24.0.100")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED)
    router = cloud.routers["r"]
    entrance = router.router.gateway if kind is routed else router.agent_gateways["h2"]
    assert entrance is not None
    assert traced.there.hops[0].packet.eth_dst == entrance.mac_address
    result, _, _ = judge(traced)
    assert outcome(result) == ("delivered", "", True)


# --- words --------------------------------------------------------------------------------------------------------------


def test_a_vpn_connection_without_a_tunnel_is_named_with_its_status() -> None:
    cloud, connection = two_sites()
    cloud.vpn_statuses[connection] = "DOWN"
    assert f"connection {connection} to 172.24.0.4 is DOWN, it has no tunnel" in cloud.trace("a", "d").texts


def test_a_router_of_disabled_agents() -> None:
    cloud = routed(hosts=(), disabled_hosts=("h3",))
    traced = cloud.trace("a", "c")
    assert traced.verdict == ("dropped", "router-not-scheduled")
    assert "is scheduled to disabled L3 agents alone (admin_state_up is false): those of h3" in traced.texts
    cloud = distributed()
    cloud.change_router("r", local_hosts=frozenset({"h2"}))
    cloud.host("h1", tunneling_ip="192.0.2.1", l3_disabled=True)
    assert "host h1 does not have it: its L3 agent is disabled" in cloud.trace("a", "c").texts


def test_a_network_of_type_local_has_a_cause_of_its_own() -> None:
    cloud = Cloud()
    cloud.network("here", "10.0.0.0/24", kind="local")
    cloud.port("a", "here", "10.0.0.10")
    cloud.port("b", "here", "10.0.0.11", host="h2")
    traced = cloud.trace("a", "b")
    result, _, _ = judge(traced, h1=dropped(traced.there.packet, Cause.NO_SUCH_ADDRESS))
    assert outcome(result) == ("dropped", "network-local", True)


def test_a_floating_ip_as_source() -> None:
    cloud = routed()
    cloud.fip("172.24.0.100", "ext", "r", "a")
    traced = cloud.trace("a", "c", source="172.24.0.100")
    assert traced.verdict == ("dropped", "address-spoofed")
    assert "172.24.0.100 is the floating IP of port a, whose instance sends from 10.0.0.10" in traced.texts


def test_a_local_ip_without_association_on_the_host() -> None:
    cloud = two_ports()
    cloud.port("reserved", "blue", "10.0.0.50", host="", device_owner="local_ip")
    cloud.reserved_local_ips["reserved"] = "anycast"
    assert "Local IP anycast: No port on host h1" in cloud.trace("a", "10.0.0.50").texts
    cloud.local_ip("10.0.0.50", "b")
    cloud.port("c", "blue", "10.0.0.12", host="h2")
    assert cloud.trace("c", "10.0.0.50").verdict == DELIVERED


def test_the_vlan_tag_of_a_subport() -> None:
    cloud = two_ports()
    cloud.subports["a"] = Subport(Subject("trunk", "t", "t1", OWN), 101, "parent")
    traced = cloud.trace("a", "b")
    assert "Trunk t1: the instance sends it by the device of parent port parent, with VLAN tag 101." in traced.texts
    assert traced.back is not None
    assert any("gets it" in step.text and "VLAN tag 101" in step.text for step in traced.back.steps)
