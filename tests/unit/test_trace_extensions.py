"""Paths of packets by local IPs, NDP proxies and several gateways of a router."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from neutrino.dataplane.openflow.trace import parse_trace
from neutrino.model.routing import FloatingIp, NdpProxy
from neutrino.model.trace import Exit, HostAnswer, Point, PointKind, Question
from neutrino.model.vpn import VpnConnection, VpnService
from neutrino.server.context import Context
from neutrino.server.trace.collect import Asked, Collected, chosen_gateways
from neutrino.server.trace.path import compute
from neutrino.server.trace.visible import for_caller, shown_steps
from tests.support.traced_cloud import OTHER, OWN, Cloud, Traced, rule

DELIVERED = ("delivered", "")
LOCAL = "10.0.0.200"


# --- local IPs --------------------------------------------------------------------------------------------------------


def with_local_ip(mode: str = "translate") -> Cloud:
    """a and s on h1, b on h2, of which s is associated; the address itself is that of a port without a host."""
    cloud = Cloud()
    cloud.network("blue", "10.0.0.0/24")
    cloud.port("a", "blue", "10.0.0.10")
    cloud.port("b", "blue", "10.0.0.11", host="h2")
    cloud.port("s", "blue", "10.0.0.12")
    cloud.port("holder", "blue", LOCAL, host="", device_owner="network:local_ip")
    cloud.local_ip(LOCAL, "s", mode)
    return cloud


def test_a_local_ip_leads_to_the_associated_port_and_back() -> None:
    traced = with_local_ip().trace("a", LOCAL, "tcp", 80)
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
    assert (traced.there.end_port_id, traced.there.packet.destination) == ("s", "10.0.0.12")
    assert traced.back is not None
    assert (traced.back.end_port_id, traced.back.packet.source) == ("a", LOCAL)
    assert "local-ip change" in traced.texts


def test_firewalls_see_the_associated_port() -> None:
    cloud = with_local_ip()
    cloud.group("only-s", rule("egress", remote_ip_prefix="10.0.0.12/32"))
    cloud.change_port("a", security_groups=("only-s",))
    assert cloud.trace("a", LOCAL, "tcp", 80).verdict == DELIVERED
    cloud.group("only-s", rule("egress", remote_ip_prefix=f"{LOCAL}/32"))
    assert cloud.trace("a", LOCAL, "tcp", 80).verdict == ("dropped", "security-group-egress")


@pytest.mark.parametrize("sender", ["b", "s"])
def test_hosts_without_it_and_the_port_itself_reach_the_owner_of_the_address(sender: str) -> None:
    assert with_local_ip().trace(sender, LOCAL).verdict == ("dropped", "port-unbound")


def test_a_port_that_is_not_wired_is_not_used() -> None:
    cloud = with_local_ip()
    cloud.change_port("s", status="DOWN")
    assert cloud.trace("a", LOCAL).verdict == ("dropped", "port-unbound")


def test_passthrough_leaves_the_address() -> None:
    traced = with_local_ip("passthrough").trace("a", LOCAL)
    assert (traced.verdict, traced.there.end_port_id) == (DELIVERED, "s")
    assert traced.there.packet.destination == LOCAL


def test_of_two_ports_the_first_counts() -> None:
    cloud = with_local_ip()
    cloud.port("r", "blue", "10.0.0.13")
    cloud.local_ip(LOCAL, "r")
    assert cloud.trace("a", LOCAL).there.end_port_id == "r"


def test_a_router_on_the_host_reaches_it_too() -> None:
    cloud = with_local_ip()
    cloud.network("red", "10.1.0.0/24")
    cloud.port("c", "red", "10.1.0.10", host="h2")
    cloud.router("r", "blue", "red", hosts=("h1",))
    traced = cloud.trace("c", LOCAL)
    assert (traced.verdict, traced.returned, traced.there.end_port_id) == (DELIVERED, DELIVERED, "s"), traced.texts
    assert traced.back is not None
    assert traced.back.packet.source == LOCAL


@pytest.mark.parametrize("mode", ["translate", "passthrough"])
def test_a_member_does_not_see_the_port_of_anothers_local_ip(mode: str) -> None:
    cloud = with_local_ip(mode)
    cloud.change_port("s", project_id=OTHER)
    cloud.local_ips = [msgspec.structs.replace(each, project_id=OTHER, name="theirs") for each in cloud.local_ips]
    member, admin = Context(OWN), Context(OWN, is_admin=True)
    traced = cloud.trace("a", LOCAL, project=OWN)
    assert traced.verdict == DELIVERED
    seen = str(shown_steps(traced.there.steps, member, traced.snapshot))
    assert not any(word in seen for word in ("10.0.0.12", "theirs", "local-ip")), seen
    assert "10.0.0.10" in seen  # its own port's steps are there
    assert "theirs" in str(shown_steps(traced.there.steps, admin, traced.snapshot))


SENT_TO_CONNTRACK = """\
bridge("br-int")
----------------
 0. in_port=3, priority 9, cookie 0x1
    goto_table:56
56. ip,reg6=0x1,nw_dst=10.0.0.200,ct_state=-trk, priority 20, cookie 0x1
    set_field:fa:16:3e:00:00:03->eth_dst
    ct(commit,table=56,zone=28673,nat(dst=10.0.0.12))
    nat(dst=10.0.0.12)
     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 56.

Final flow: unchanged
Datapath actions: ct(commit,zone=28673,nat(dst=10.0.0.12)),recirc(0x2)

===============================================================================
recirc(0x2) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

Flow: recirc_id=0x2,ct_state=new|trk,ct_zone=28673,eth,tcp,in_port=3,nw_src=10.0.0.10,nw_dst=10.0.0.200
"""


@pytest.mark.parametrize("action, nat", [("nat(dst=10.0.0.12)", "dst=10.0.0.12"), ("nat", ""), ("", None)])
def test_what_conntrack_translates_is_read(action: str, nat: str | None) -> None:
    text = SENT_TO_CONNTRACK.replace(",nat(dst=10.0.0.12)", f",{action}" if action else "")
    (fork,) = parse_trace(text).forks
    assert (fork.table, fork.nat, fork.fields["ct_zone"]) == (56, nat, "28673")


# --- NDP proxies ------------------------------------------------------------------------------------------------------


def test_an_ndp_proxy_hides_all_else_of_its_scope_also_from_replies() -> None:
    cloud = Cloud()
    cloud.network("blue", "2001:db8:1::/64")
    cloud.network("ext", "2001:db8:e::/64", kind="flat", external=True, project_id="admin")
    cloud.port("a", "blue", "2001:db8:1::10")
    cloud.port("b", "blue", "2001:db8:1::11")
    cloud.scopes |= {"blue-2001:db8:1::/64": "scope", "ext-2001:db8:e::/64": "scope"}
    cloud.router("r", "blue", outside="ext", enable_ndp_proxy=True, ndp_proxies=(NdpProxy("n", "2001:db8:1::11"),))
    hidden, proxied = cloud.trace("a", "2001:db8:ffff::9"), cloud.trace("b", "2001:db8:ffff::9")
    assert (hidden.verdict, hidden.returned) == (DELIVERED, ("dropped", "no-ndp-proxy"))
    assert (proxied.verdict, proxied.returned) == (DELIVERED, DELIVERED)
    cloud.change_router("r", enable_ndp_proxy=False)
    assert cloud.trace("a", "2001:db8:ffff::9").returned == ("unknown", "no-route-back")


# --- several gateways -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Gateways:
    cloud: Cloud
    second: str  # id of the further gateway

    def left_by(self, traced: Traced) -> tuple[str, str]:
        """The network and the source with which it leaves."""
        return traced.there.end_network_id, traced.there.packet.source


@pytest.fixture
def gateways() -> Gateways:
    """a behind a router with gateways on networks one and two."""
    cloud = Cloud()
    cloud.network("blue", "10.0.0.0/24")
    cloud.network("one", "172.24.1.0/24", kind="flat", external=True, project_id="admin")
    cloud.network("two", "172.24.2.0/24", kind="vlan", external=True, project_id="admin")
    cloud.port("a", "blue", "10.0.0.10")
    cloud.router("r", "blue", outside="one")
    return Gateways(cloud, cloud.further_gateway("r", "two"))


def on_second_network(cloud: Cloud) -> None:
    """A floating IP of network two for a."""
    cloud.fip("172.24.2.50", "two", "r", "a")
    (known,) = cloud.routers["r"].router.floating_ips
    assert isinstance(known, FloatingIp)
    cloud.change_router("r", floating_ips=(msgspec.structs.replace(known, network_id="two"),))


def test_out_by_the_first_gateway(gateways: Gateways) -> None:
    traced = gateways.cloud.trace("a", "198.51.100.9")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED)
    assert gateways.left_by(traced) == ("one", "172.24.1.3")


def test_to_the_network_of_a_further_gateway(gateways: Gateways) -> None:
    traced = gateways.cloud.trace("a", "172.24.2.77")
    assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED)
    assert gateways.left_by(traced) == ("two", "172.24.2.9")


def test_a_floating_ip_leaves_by_its_own_network(gateways: Gateways) -> None:
    on_second_network(gateways.cloud)
    for target in ("198.51.100.9", "172.24.1.77"):
        traced = gateways.cloud.trace("a", target)
        assert (traced.verdict, traced.returned) == (DELIVERED, DELIVERED), traced.texts
        assert gateways.left_by(traced) == ("two", "172.24.2.50")


def test_a_floating_ip_of_a_further_network_answers_by_it(gateways: Gateways) -> None:
    on_second_network(gateways.cloud)
    traced = gateways.cloud.from_outside("two", "172.24.2.50")
    assert (traced.verdict, traced.returned, traced.there.end_port_id) == (DELIVERED, DELIVERED, "a"), traced.texts
    assert traced.back is not None
    assert (traced.back.end_network_id, traced.back.packet.source) == ("two", "172.24.2.50")


def test_a_further_gateway_answers_itself(gateways: Gateways) -> None:
    traced = gateways.cloud.from_outside("two", "172.24.2.9")
    assert (traced.verdict, traced.there.end_router_id) == (DELIVERED, "r")


@pytest.mark.parametrize("flag", ["enable_default_route_ecmp", "enable_default_route_bfd"])
def test_of_several_default_routes_the_host_has_chosen(gateways: Gateways, flag: str) -> None:
    cloud = gateways.cloud
    cloud.change_router("r", **{flag: True})
    first = cloud.trace("a", "198.51.100.9")
    assert first.there.end_network_id == "one"
    leaving = msgspec.structs.replace(
        first.there.packet, eth_src=cloud.ports[gateways.second].port.mac_address, source="172.24.2.9"
    )
    point = Point(kind=PointKind.PHYSICAL, physical_network="physnet1")
    question = Question(point=Point(kind=PointKind.PORT, port_id="a"), packet=first.there.packet)
    answer = HostAnswer(exits=(Exit(packet=leaving, point=point),))
    collected = Collected((Asked("h3", question, answer),), ())
    chosen = chosen_gateways(first.snapshot, collected)
    assert chosen == {gateways.second}
    sent = cloud.packet("10.0.0.10", "198.51.100.9", eth_src=cloud.ports["a"].port.mac_address)
    again = compute(first.snapshot, first.origin, sent, chosen=chosen)
    assert (again.end_network_id, again.packet.source) == ("two", "172.24.2.9")
    cloud.change_router("r", **{flag: False})
    assert chosen_gateways(cloud.snapshot(), collected) == frozenset()


# --- VPN --------------------------------------------------------------------------------------------------------------


def test_a_packet_to_a_peers_subnet_is_encrypted_or_dropped() -> None:
    def service(**values: bool) -> tuple[VpnService, ...]:
        tunnel = VpnConnection(
            id="c",
            peer_address="198.51.100.7",
            peer_id="peer",
            local_cidrs=("10.0.0.0/24",),
            peer_cidrs=("10.9.0.0/24",),
            **values,
        )
        return (VpnService(id="s", connections=(tunnel,)),)

    cloud = Cloud()
    cloud.network("blue", "10.0.0.0/24")
    cloud.network("ext", "203.0.113.0/24", kind="flat", external=True, project_id="admin")
    cloud.port("a", "blue", "10.0.0.10")
    cloud.router("r", "blue", outside="ext", vpn_services=service())
    encrypted = cloud.trace("a", "10.9.0.5")
    assert (encrypted.verdict, encrypted.there.end_router_id) == (DELIVERED, "r"), encrypted.texts
    assert "snat change" not in encrypted.texts
    assert cloud.trace("a", "10.8.0.5").there.end_network_id == "ext"
    cloud.change_router("r", vpn_services=service(admin_state_up=False))
    disabled = cloud.trace("a", "10.9.0.5")
    assert disabled.verdict == ("dropped", "vpn-down")
    cloud.change_router("r", vpn_services=(*service(admin_state_up=False), *service()))
    assert cloud.trace("a", "10.9.0.5").verdict == DELIVERED  # another connection of the same subnets encrypts it
    # The owner of the router sees both: neither lies with another project.
    owner = Context(project_id=disabled.there.steps[0].project_id)
    for traced in (encrypted, disabled):
        seen = for_caller(traced.there, traced.back, "a", owner, traced.snapshot)
        shown = shown_steps(seen.steps, owner, traced.snapshot)
        assert (shown[-1]["kind"], shown[-1]["resource_id"]) == ("vpn", "c")
