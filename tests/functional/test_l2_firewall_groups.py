"""Firewall groups of instance ports: real packets through a real switch with its own connection tracker."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from neutrino.agent.l2.extensions.firewall_groups import REJECTED
from neutrino.agent.l2.packet_logger import PacketLogger
from neutrino.agent.l2.packets import CONTROLLER_ID
from neutrino.dataplane.protocols.packet_in import PacketIns
from neutrino.model import state
from tests.functional.test_dataplane_connections import RealHost
from tests.support.firewall import ICMP, TCP, UDP, group, rule
from tests.support.l2 import OPEN, mac, network, port
from tests.support.openvswitch import OpenVSwitch
from tests.support.waiting import eventually

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
        before = self.sent(target)
        self.inject(source, target, protocol, ports, version)
        return self._comes(target, before)

    def sent(self, number: int) -> int:
        """How many packets have left by a port."""
        return self._sent(number)

    def metered(self) -> tuple[int, int]:
        """How many rejected packets the meter of the group has counted, and dropped."""
        address = f"unix:{self.switch.run_directory}/br-int.mgmt"
        shown = self.switch.call("ovs-ofctl", "-O", "OpenFlow14", "meter-stats", address)
        (counted,) = re.findall(r"packet_in_count:(\d+)", shown)
        (dropped,) = re.findall(r"0: packet_count:(\d+)", shown)
        return int(counted), int(dropped)

    def inject(
        self, source: int, target: int, protocol: int, ports: tuple[int, int], version: int = 4, times: int = 1
    ) -> None:
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
        self.switch.appctl("netdev-dummy/receive", f"p{source}", *[flow] * times)


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


@contextlib.asynccontextmanager
async def answering(host: GroupHost) -> AsyncIterator[None]:
    """The agent's connection to the switch, by which it answers."""

    async def started(times: int) -> int:
        if times:
            await asyncio.Event().wait()
        return 1

    logger = PacketLogger(PacketIns(str(host.switch.run_directory), CONTROLLER_ID))
    task = asyncio.create_task(logger.run("br-int", lambda: host.host.desired, started))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("sender", "receiver"), [(HERE, OTHER), (OTHER, HERE)], ids=["from the port", "to the port"])
def test_what_a_rule_rejects_is_answered_and_a_flood_within_limits(
    host: GroupHost, version: int, sender: int, receiver: int
) -> None:
    rejected = tuple(rule("reject", protocol, version, dport=53) for protocol in (TCP, UDP))
    rules = (*rejected, rule(protocol=TCP, version=version, dport=80))
    host.filter(group(ingress=rules, egress=rules))

    def flood() -> None:
        for protocol in (TCP, UDP):
            before = host.sent(sender)
            host.inject(sender, receiver, protocol, (4000, 53), version)
            eventually(lambda: host.sent(sender) == before + 1, 10)  # noqa: B023
        before, began, (metered, dropped) = host.sent(sender), time.monotonic(), host.metered()
        for _ in range(5):
            host.inject(sender, receiver, UDP, (4000, 53), version, times=200)
        # Behind the flood in the port's queue, or dropped if that is full: then all of it has passed the meter.
        eventually(lambda: host.sends(sender, receiver, TCP, version=version), 10)
        seen, lost = host.metered()
        copied = (seen - metered) - (lost - dropped)
        assert lost > dropped
        assert 0 < copied <= REJECTED.burst + REJECTED.rate * (time.monotonic() - began) < 1000
        eventually(lambda: host.sent(sender) == before + copied, 10)

    async def run() -> None:
        async with answering(host):
            await asyncio.to_thread(flood)

    asyncio.run(run())


def test_nothing_is_left_when_the_group_goes(host: GroupHost) -> None:
    host.filter(group())
    assert not host.sends(OTHER, HERE, UDP)
    assert not host.sends(HERE, OTHER, UDP)
    host.filter(group(), group_id="")
    assert host.sends(OTHER, HERE, UDP)
    assert "reg11" not in host.switch.call(
        "ovs-ofctl", "-O", "OpenFlow14", "dump-flows", f"unix:{host.switch.run_directory}/br-int.mgmt"
    )
