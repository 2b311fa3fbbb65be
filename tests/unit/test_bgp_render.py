"""bgpd's configuration, the commands that change a running one, and the routes that a speaker advertises."""

from __future__ import annotations

from neutrino.agent.bgp.render import Settings, as_file, changes, parse, render
from neutrino.features.bgp.routes import (
    AdvertisedFloatingIp,
    AdvertisedRouter,
    GatewayAddress,
    InstanceAddress,
    Route,
    TenantSubnet,
    advertised_routes,
)
from neutrino.model.bgp import BgpPeer, BgpRoute, BgpSpeaker

SETTINGS = Settings("10.0.0.1")
PEER = BgpPeer(peer_ip="192.0.2.1", remote_as=65000, password="s3cret?")
FIRST = BgpRoute("203.0.113.5/32", "203.0.113.10")
SPEAKER = BgpSpeaker(id="s", local_as=64512, peers=(PEER,), routes=(FIRST,))

# As FRR 8.4 shows the configuration of SPEAKER.
RUNNING = """Building configuration...

Current configuration:
!
frr version 8.4.4
frr defaults traditional
hostname vm
log stdout informational
bgp no-rib
!
router bgp 64512
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 no bgp network import-check
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 password s3cret?
 neighbor 192.0.2.1 ebgp-multihop 255
 neighbor 192.0.2.1 timers connect 10
 !
 address-family ipv4 unicast
  network 203.0.113.5/32 route-map next-hop-203.0.113.10
  neighbor 192.0.2.1 activate
  neighbor 192.0.2.1 route-map nothing in
  neighbor 192.0.2.1 attribute-unchanged next-hop
 exit-address-family
exit
!
route-map nothing deny 10
exit
!
route-map next-hop-203.0.113.10 permit 10
 set ip next-hop 203.0.113.10
exit
!
end
"""


def speaker(*routes: BgpRoute, peers: tuple[BgpPeer, ...] = (PEER,), **values: int) -> BgpSpeaker:
    return BgpSpeaker(**{"id": "s", "local_as": 64512, "peers": peers, "routes": routes, **values})  # type: ignore[arg-type]


def commands(after: BgpSpeaker, before: BgpSpeaker = SPEAKER) -> list[str]:
    return [each.strip() for each in changes(render(after, SETTINGS), render(before, SETTINGS))]


def test_a_running_bgpd_with_the_rendered_configuration_needs_no_change() -> None:
    assert parse(RUNNING) == render(SPEAKER, SETTINGS)
    assert changes(render(SPEAKER, SETTINGS), parse(RUNNING)) == []


def test_the_file_defines_route_maps_before_networks_name_them() -> None:
    text = as_file(render(SPEAKER, SETTINGS))
    assert text.index("route-map next-hop-203.0.113.10 permit") < text.index("network 203.0.113.5/32")
    assert text.index("remote-as 65000") < text.index("password s3cret?")
    assert parse(text) == render(SPEAKER, SETTINGS)


def test_a_new_route_and_one_that_is_withdrawn() -> None:
    second = BgpRoute("203.0.113.6/32", "203.0.113.11")
    assert commands(speaker(second)) == [
        *("route-map next-hop-203.0.113.11 permit 10", "set ip next-hop 203.0.113.11", "exit"),
        *("router bgp 64512", "address-family ipv4 unicast"),
        "no network 203.0.113.5/32 route-map next-hop-203.0.113.10",
        "network 203.0.113.6/32 route-map next-hop-203.0.113.11",
        *("exit-address-family", "exit"),
        "no route-map next-hop-203.0.113.10 permit 10",
    ]


def test_a_route_with_another_next_hop_is_not_withdrawn_in_between() -> None:
    found = commands(speaker(BgpRoute(FIRST.destination, "203.0.113.11")))
    assert "network 203.0.113.5/32 route-map next-hop-203.0.113.11" in found
    assert not any(each.startswith("no network") for each in found)


def test_peers_come_and_go_without_a_change_of_others() -> None:
    other = BgpPeer(peer_ip="2001:db8::1", remote_as=64512)
    added = commands(speaker(FIRST, peers=(PEER, other)))
    assert "neighbor 2001:db8::1 remote-as 64512" in added
    assert not any("multihop" in each for each in added)  # of the same AS
    assert not any(PEER.peer_ip in each for each in added)
    removed = commands(SPEAKER, speaker(FIRST, peers=(PEER, other)))
    assert removed == ["router bgp 64512", "no neighbor 2001:db8::1", "exit"]


def test_a_new_password_replaces_the_old_one() -> None:
    peer = BgpPeer(peer_ip=PEER.peer_ip, remote_as=PEER.remote_as, password="other")
    assert commands(speaker(FIRST, peers=(peer,))) == ["router bgp 64512", "neighbor 192.0.2.1 password other", "exit"]


def test_an_ipv6_speaker() -> None:
    six = speaker(BgpRoute("2001:db8:1::/64", "2001:db8::10"), ip_version=6)
    text = as_file(render(six, SETTINGS))
    assert "set ipv6 next-hop global 2001:db8::10" in text
    assert "address-family ipv6 unicast" in text
    assert "address-family ipv4 unicast" not in text
    assert parse(text) == render(six, SETTINGS)


def test_a_peer_is_logged_without_its_password() -> None:
    assert "s3cret" not in repr(SPEAKER)


# --- the routes that the server computes --------------------------------------------------------------------------------

GATEWAY = GatewayAddress("out", "203.0.113.10", "scope")


def router(key: str = "r1", *subnets: TenantSubnet, distributed: bool = False) -> AdvertisedRouter:
    return AdvertisedRouter(key, distributed, (GATEWAY,), subnets)


def test_subnets_of_the_gateways_scope_alone() -> None:
    inside, elsewhere = TenantSubnet("n1", "10.0.0.0/24", "scope"), TenantSubnet("n2", "10.1.0.0/24", "other")
    bound = TenantSubnet("out", "203.0.113.0/24", "scope")
    one = router("r1", inside, elsewhere, bound)
    assert advertised_routes([one]) == (Route("10.0.0.0/24", "203.0.113.10"),)
    assert advertised_routes([one], tenant_networks=False) == ()


def test_a_subnet_of_two_routers_has_one_next_hop() -> None:
    shared = TenantSubnet("n1", "10.0.0.0/24", "scope")
    second = AdvertisedRouter("r2", False, (GatewayAddress("out", "203.0.113.11", "scope"),), (shared,))
    wanted = (Route("10.0.0.0/24", "203.0.113.10"),)
    assert advertised_routes([second, router("r1", shared)]) == wanted


def test_floating_ips_by_router_and_by_host() -> None:
    hosts = {("out", "c1"): "203.0.113.20"}
    floating = [AdvertisedFloatingIp(f"203.0.113.{n}", "out", "r1", host) for n, host in ((30, "c1"), (31, "c2"))]
    central = "203.0.113.10"
    assert [r.next_hop for r in advertised_routes([router()], floating, hosts)] == [central, central]
    distributed = advertised_routes([router(distributed=True)], floating, hosts)
    assert distributed == (Route("203.0.113.30/32", "203.0.113.20"), Route("203.0.113.31/32", central))
    assert advertised_routes([router("other")], floating, hosts) == ()
    away = [AdvertisedFloatingIp("198.51.100.1", "elsewhere", "r1")]
    assert advertised_routes([router()], away) == ()


def test_instances_behind_a_distributed_router_by_their_hosts() -> None:
    hosts = {("out", "c1"): "203.0.113.20", ("second", "c2"): "198.51.100.2"}
    subnet = TenantSubnet("n1", "10.0.0.0/24", "scope")

    def instance(number: int, host: str = "c1", **values: str) -> InstanceAddress:
        given = {"router_id": "r1", "network_id": "out", "address_scope_id": "scope", **values}
        return InstanceAddress(ip_address=f"10.0.0.{number}", host=host, **given)

    away = [
        instance(5, "c2"),  # whose host has no gateway there
        instance(6, "c2", network_id="second"),  # not a network of the speaker
        instance(7, address_scope_id="other"),
        instance(8, router_id="r9"),
    ]
    routers = [router("r1", subnet, distributed=True)]
    prefix = Route("10.0.0.0/24", "203.0.113.10")
    found = advertised_routes(routers, (), hosts, [instance(4), *away])
    assert found == (prefix, Route("10.0.0.4/32", "203.0.113.20"))
    assert advertised_routes(routers, (), hosts, [instance(4)], tenant_networks=False) == ()
