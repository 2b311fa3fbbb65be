"""Traces through a namespace with rules of others, compared with real packets: nft, and both variants of iptables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.dataplane.nft.real import RealNft
from neutrino.model.trace import Cause
from tests.functional.test_trace_namespaces import Traced, net, open_router, traced
from tests.support.filtered_router import INSIDE, OTHER, FilteredRouter
from tests.support.firewall import ICMP, PASSES, TCP, UDP

__all__ = ["net", "traced"]
QUESTIONS = ((OTHER, INSIDE, TCP, 80), (INSIDE, OTHER, TCP, 80), (OTHER, INSIDE, TCP, 8000), (OTHER, INSIDE, UDP, 5000),
             (OTHER, INSIDE, ICMP, 0))  # fmt: skip
INTO = "-o qr-00000001-aa"
RULES = (  # of the chain FORWARD, with the packets that they stop: at least one of the questions, but not all
    "-p tcp -j DROP",
    "-p tcp --dport 80 -j REJECT --reject-with tcp-reset",
    "-p udp -j REJECT",
    f"{INTO} -p icmp -j DROP",
    f"{INTO} -p tcp -m multiport --dports 80,443 -j DROP",
    "-i qr-00000002-a+ -p udp -m comment --comment theirs -j DROP",
    "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN --dport 8000 -j DROP",
    "-s 10.0.2.0/24 -p icmp -m conntrack --ctstate NEW -j DROP",
    "-d 10.0.1.0/24 -p tcp -m state --state NEW -m tcp --dport 80 -j DROP",
)


@pytest.fixture(params=["iptables-legacy", "iptables-nft"])
def program(request: pytest.FixtureRequest, net: FilteredRouter) -> Iterator[str]:
    open_router(net)
    yield request.param
    for words in ("-P FORWARD ACCEPT", "-F", "-X", "-t raw -F"):
        net.run(request.param, *words.split())


def compare(net: FilteredRouter, traced: Traced) -> list[bool]:
    """Whether each question's packet passes: in the trace as in the kernel."""
    found = []
    for sender, receiver, protocol, port in QUESTIONS:
        passes = net.send(sender, receiver, protocol, port) == PASSES
        left, trail = traced.ask(sender, receiver, protocol, port)
        assert (left is not None) == passes, (sender, receiver, protocol, port, passes, trail)
        assert passes or trail.exits[0].cause == Cause.DRIFT
        found.append(passes)
    return found


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_decides_as_on_real_packets(program: str, rule: str, net: FilteredRouter, traced: Traced) -> None:
    assert all(compare(net, traced))
    net.run(program, "-A", "FORWARD", *rule.split())
    found = compare(net, traced)
    assert any(found)
    assert not all(found)
    (table,) = RealNft().foreign_drops(traced.name)
    assert table == ("iptables-legacy filter" if program == "iptables-legacy" else "ip filter")


def test_a_policy(program: str, net: FilteredRouter, traced: Traced) -> None:
    """As Docker sets it, with rules that accept some packets."""
    net.run(program, "-P", "FORWARD", "DROP")
    assert not any(compare(net, traced))
    for rule in ("-p udp -j ACCEPT", "-m conntrack --ctstate ESTABLISHED -j ACCEPT", "-p tcp --dport 80 -j ACCEPT"):
        net.run(program, "-A", "FORWARD", *rule.split())
    assert compare(net, traced) == [True, True, False, True, False]
    assert len(RealNft().foreign_drops(traced.name)) == 1


def test_chains_and_tables(program: str, net: FilteredRouter, traced: Traced) -> None:
    net.run(program, "-N", "theirs")
    net.run(program, "-A", "theirs", "-p", "udp", "-j", "RETURN")
    net.run(program, "-A", "theirs", "-p", "tcp", "--dport", "8000", "-j", "DROP")
    net.run(program, "-A", "FORWARD", "-j", "theirs")
    net.run(program, "-t", "raw", "-A", "PREROUTING", "-p", "icmp", "-j", "DROP")
    assert compare(net, traced) == [True, True, False, True, False]


def test_a_match_that_is_not_understood_is_named(program: str, net: FilteredRouter, traced: Traced) -> None:
    net.run(program, "-A", "FORWARD", *["-p", "udp", "-m", "length", "--length", "0:9999", "-j", "DROP"])
    _, trail = traced.ask(OTHER, INSIDE, UDP, 5000)
    assert any("not understood" in each.note for each in trail.observations)
