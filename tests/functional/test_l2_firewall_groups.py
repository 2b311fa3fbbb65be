"""Firewall groups of instance ports: real packets through a real switch with its own connection tracker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.model import state
from tests.functional.test_dataplane_connections import RealHost
from tests.support.firewall import ICMP, TCP, UDP, group, rule
from tests.support.l2 import OPEN, mac, network, port
from tests.support.openvswitch import OpenVSwitch

HERE, OTHER = 1, 2
SORTS = {
    "filtered": {"groups": ["open"]},
    "without port security": {"port_security_enabled": False},
    "hybrid": {"groups": ["open"], "hybrid_plug": True},
}


class GroupHost(RealHost):
    """Port 1 has the group."""

    def filter(self, only: state.Object, group_id: str = "group-1", **sort: object) -> None:
        here = port("p1", HERE, firewall_group_id=group_id, **{"groups": ["open"], **sort})  # type: ignore[arg-type]
        self.apply(network("net"), OPEN, only, here, port("p2", OTHER, groups=["open"]))

    def sends(
        self, source: int, target: int, protocol: int, ports: tuple[int, int] = (4000, 80), version: int = 4
    ) -> bool:
        before = self._sent(target)
        if version == 4:
            addresses = (
                f"eth_type(0x0800),ipv4(src=10.0.0.{source},dst=10.0.0.{target},proto={protocol},tos=0,ttl=64,frag=no)"
            )
        else:
            addresses = (
                f"eth_type(0x86dd),ipv6(src=2001:db8::{source},dst=2001:db8::{target},label=0,proto={protocol},"
                "tclass=0,hlimit=64,frag=no)"
            )
        transport = {
            UDP: f"udp(src={ports[0]},dst={ports[1]})",
            TCP: f"tcp(src={ports[0]},dst={ports[1]}),tcp_flags(ack)",
            ICMP: "icmp(type=8,code=0)",
        }[protocol]
        flow = f"in_port(1),eth(src={mac(source)},dst={mac(target)}),{addresses},{transport}"
        self.switch.appctl("netdev-dummy/receive", f"p{source}", flow)
        return self._comes(target, before)


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.fixture
def host(switch: OpenVSwitch) -> Iterator[GroupHost]:
    made = GroupHost(switch)
    yield made
    switch.appctl("dpctl/flush-conntrack")
    for bridge in switch.vsctl("list-br").split():
        switch.vsctl("del-br", bridge)


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS)
@pytest.mark.parametrize("version", [4, 6])
def test_a_connection_lives_and_dies_with_its_rule(host: GroupHost, sort: dict[str, object], version: int) -> None:
    def passes(source: int, target: int, ports: tuple[int, int]) -> bool:
        return host.sends(source, target, TCP, ports, version)

    there, back = (4000, 80), (80, 4000)
    web = rule(protocol=TCP, dport=(80, 83), version=version)
    host.filter(group(ingress=(web,)), **sort)
    assert not passes(HERE, OTHER, back), "not opened yet"
    assert passes(OTHER, HERE, there)
    assert passes(HERE, OTHER, back)
    assert passes(OTHER, HERE, there)
    assert not passes(OTHER, HERE, (4000, 84))
    # The answering side sends first after a change.
    host.filter(group(ingress=(rule("deny", UDP, version), web)), **sort)
    assert passes(HERE, OTHER, back)
    assert passes(OTHER, HERE, there)
    host.filter(group(ingress=(rule(protocol=TCP, dport=81, version=version),)), **sort)
    assert not passes(HERE, OTHER, back)
    assert not passes(OTHER, HERE, there)


def test_rules_in_order_by_address_ports_and_protocol(host: GroupHost) -> None:
    host.filter(
        group(
            egress=(
                rule("deny", TCP, dport=23),
                rule(protocol=TCP, source="10.0.0.0/24", destination="10.0.0.2/32"),
                rule(protocol=UDP, sport=(1000, 1023), dport=53),
                rule("deny", ICMP, destination="10.0.0.2"),
                rule(protocol=ICMP),
            )
        )
    )
    assert [host.sends(HERE, OTHER, TCP, (4000, dport)) for dport in (22, 23)] == [True, False]
    sent = [
        host.sends(HERE, OTHER, UDP, ports) for ports in ((999, 53), (1000, 53), (1023, 53), (1024, 53), (1000, 54))
    ]
    assert sent == [False, True, True, False, False]
    assert not host.sends(HERE, OTHER, ICMP)
    assert not host.sends(OTHER, HERE, UDP, (4000, 80))


def test_nothing_is_left_when_the_group_goes(host: GroupHost) -> None:
    host.filter(group())
    assert not host.sends(OTHER, HERE, UDP)
    assert not host.sends(HERE, OTHER, UDP)
    host.filter(group(), group_id="")
    assert host.sends(OTHER, HERE, UDP)
    assert "reg11" not in host.switch.call(
        "ovs-ofctl", "-O", "OpenFlow14", "dump-flows", f"unix:{host.switch.run_directory}/br-int.mgmt"
    )
