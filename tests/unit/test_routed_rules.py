"""Rules of routed networks and segment ranges: peer routes, numbers of ranges, the subnets that a DHCP agent serves."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.state import FixedIp, Subnet
from neutrino.server.ipam.routed import with_peer_routes
from neutrino.server.ml2.added_ranges import AddedRange, in_order, known, without


def subnet(number: int, segment: str, **values: Any) -> dict[str, Any]:
    given = {"id": str(number), "segment_id": segment, "ip_version": 4, "cidr": f"10.{number}.0.0/24"}
    return {**given, "gateway_ip": f"10.{number}.0.1", "host_routes": [], **values}


def test_a_route_for_each_subnet_of_another_segment() -> None:
    peers = [subnet(2, "b"), subnet(3, "a"), subnet(4, "c", ip_version=6, cidr="2001:db8::/64")]
    assert with_peer_routes(subnet(1, "a"), peers) == [{"destination": "10.2.0.0/24", "nexthop": "10.1.0.1"}]
    assert with_peer_routes(subnet(1, "a", gateway_ip=None), peers) == []


def test_routes_of_the_old_gateway_are_replaced_and_others_kept() -> None:
    own = {"destination": "192.0.2.0/24", "nexthop": "10.1.0.9"}
    old = {"destination": "10.2.0.0/24", "nexthop": "10.1.0.1"}
    changed = subnet(1, "a", gateway_ip="10.1.0.254", host_routes=[own, old])
    new = {"destination": "10.2.0.0/24", "nexthop": "10.1.0.254"}
    assert with_peer_routes(changed, [subnet(2, "b")], old_gateway="10.1.0.1") == [own, new]
    kept = subnet(1, "a", host_routes=[own, old])
    assert with_peer_routes(kept, [], gone=subnet(2, "b")) == [own]


@pytest.mark.parametrize(
    ("ranges", "excluded", "left"),
    [
        ([(1, 10)], [], ((1, 10),)),
        ([(1, 10)], [(4, 6)], ((1, 3), (7, 10))),
        ([(1, 10)], [(0, 3), (9, 20)], ((4, 8),)),
        ([(1, 10), (20, 30)], [(5, 25)], ((1, 4), (26, 30))),
        ([(1, 10)], [(1, 10)], ()),
        ([(1, 10)], [(11, 20)], ((1, 10),)),
    ],
)
def test_numbers_that_belong_to_others_are_left_out(ranges: Any, excluded: Any, left: Any) -> None:
    assert without(ranges, excluded) == left


def test_own_ranges_come_first_and_others_are_left_out() -> None:
    added = [
        AddedRange("vlan", "p", 200, 209, "me"),
        AddedRange("vlan", "p", 105, 106, "you"),
        AddedRange("vlan", "p", 107, 120),
        AddedRange("vxlan", None, 1, 5, "me"),
    ]
    configured = {"p": [(100, 110)], "q": ()}
    assert list(in_order(configured, added, "vlan", "me")) == [
        {"p": ((200, 209),)},
        {"p": ((100, 104), (107, 120)), "q": ()},
    ]
    assert list(in_order(configured, added, "vlan", "she")) == [{"p": ((100, 104), (107, 120)), "q": ()}]
    assert known(configured, added, "vlan") == {"p": ((100, 120), (200, 209)), "q": ()}


def test_an_agent_serves_the_subnets_of_its_segment() -> None:
    subnets = tuple(
        Subnet(id=f"s{n}", network_id="n", ip_version=4, cidr=f"10.{n}.0.0/24", segment_id=segment)
        for n, segment in enumerate(("a", "a", "b"))
    )
    own = DhcpPort(id="p", network_id="n", mac_address="fa:16:3e:00:00:01", fixed_ips=(FixedIp("s0", "10.0.0.2"),))
    network = DhcpNetwork(id="n", subnets=subnets)
    assert [one.id for one in ServedNetwork(network, (own,), own).dhcp_subnets] == ["s0", "s1"]
    assert not ServedNetwork(network, ()).is_served
