"""Which DHCP port a host serves from, and the conntrack entries of removed addresses."""

from __future__ import annotations

from neutrino.agent.dhcp.network import served_network
from neutrino.agent.dhcp.reconcile import stale_conntrack
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.netlink.api import DeleteItem, SetItem
from neutrino.dataplane.netlink.values import address
from neutrino.model.dhcp import DhcpNetwork
from tests.support.dhcp import NETWORK, dhcp_port, port, subnet

V4 = subnet(1)
FIRST = dhcp_port(0xD1, "10.0.0.2", on=(V4,), host="h1")
SECOND = dhcp_port(0xD2, "10.0.0.3", on=(V4,), host="h2")
VM = port(1, "10.0.0.11", on=(V4,))
BLUE = DhcpNetwork(id=NETWORK, subnets=(V4,))


def test_a_host_serves_from_its_own_port() -> None:
    for host, own in (("h1", FIRST), ("h2", SECOND)):
        for distributed in (False, True):
            this = served_network(BLUE, [VM, SECOND, FIRST], host, distributed=distributed)
            assert (this.own, this.is_served) == (own, True)


def test_one_that_has_none_takes_the_first_if_it_answers_its_own_ports() -> None:
    assert not served_network(BLUE, [VM, SECOND, FIRST], "h3").is_served
    this = served_network(BLUE, [VM, SECOND, FIRST], "h3", distributed=True)
    assert (this.own, this.is_served) == (FIRST, True)
    assert not served_network(BLUE, [VM], "h3", distributed=True).is_served


def test_on_a_routed_network_a_copy_is_of_a_port_on_the_hosts_own_segment() -> None:
    one, two = subnet(1, segment_id="s1"), subnet(2, "10.0.2.0/24", segment_id="s2")
    racks = DhcpNetwork(id=NETWORK, subnets=(one, two))
    first = dhcp_port(0xD1, "10.0.0.2", on=(one,), host="h1")
    second = dhcp_port(0xD2, "10.0.2.2", on=(two,), host="h2")
    here, there = port(1, "10.0.0.11", on=(one,), host="h3"), port(2, "10.0.2.11", on=(two,), host="h4")
    for host, own, subnets in (("h3", first, (one,)), ("h4", second, (two,)), ("h5", None, ())):
        this = served_network(racks, [here, there, second, first], host, distributed=True)
        assert (this.own, this.is_copy, this.dhcp_subnets) == (own, own is not None, subnets)


def test_connections_end_with_their_address() -> None:
    old, new = address("ns-0", "10.0.0.2/24"), address("ns-0", "10.0.0.9/24")
    six = address("ns-0", "2001:db8::2/64")
    ended = stale_conntrack([SetItem(new), DeleteItem(old), DeleteItem(six)])
    assert ended == [
        ConntrackFlush(0, 4, "ingress", "10.0.0.2"),
        ConntrackFlush(0, 4, "egress", "10.0.0.2"),
        ConntrackFlush(0, 6, "ingress", "2001:db8::2"),
        ConntrackFlush(0, 6, "egress", "2001:db8::2"),
    ]
