"""Rules of a host that drop packets of tunnels: as the kernel does with those of a VXLAN device."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from neutrino.agent.trace.host_rules import HostRules
from neutrino.dataplane.inspection.real import RealInspection
from tests.support.throwaway_namespace import ThrowawayNamespace

LOCAL, PEER = "10.255.0.1", "10.255.0.2"
NFT = "add table inet fw; add chain inet fw c {{ type filter hook {} priority {}; policy {}; }}; {}"
# Commands, and whether packets are dropped that are sent, and received.
RULES = {
    "nothing": ((), False, False),
    "iptables: another port": (("iptables-nft -A INPUT -p udp --dport 6081 -j DROP",), False, False),
    "iptables: input": (("iptables-nft -A INPUT -p udp --dport 4789 -j DROP",), False, True),
    "iptables: a list of ports": (
        ("iptables-nft -A INPUT -p udp -m multiport --dports 53,4789 -j REJECT",),
        False,
        True,
    ),
    "iptables-legacy: output": (("iptables-legacy -A OUTPUT -p udp --dport 4789 -j DROP",), True, False),
    "iptables-legacy: by device": (("iptables-legacy -A OUTPUT -o under+ -p udp -j DROP",), True, False),
    "iptables-legacy: raw": (("iptables-legacy -t raw -A PREROUTING -p udp -j DROP",), False, True),
    "a policy": (("iptables-nft -A INPUT -p tcp -j ACCEPT", "iptables-nft -P INPUT DROP"), False, True),
    "a policy with its exception": (
        ("iptables-nft -A INPUT -p udp -m udp --dport 4789 -s 10.255.0.0/24 -j ACCEPT", "iptables-nft -P INPUT DROP"),
        False,
        False,
    ),
    "connections": (
        ("iptables-nft -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT", "iptables-nft -P INPUT DROP"),
        False,
        True,
    ),
}
TABLES = {
    "nft: input": (("input", 0, "accept", "add rule inet fw c udp dport 4789 drop"), False, True),
    "nft: a policy": (("input", 0, "drop", "add rule inet fw c ct state established accept"), False, True),
    "nft: an exception": (("input", 0, "drop", "add rule inet fw c udp dport { 4789, 6081 } accept"), False, False),
    "nft: output": (
        ("output", 0, "accept", "add rule inet fw c oif underlay udp dport 4789 reject"),
        True,
        False,
    ),
    "nft: raw": (("prerouting", -300, "accept", "add rule inet fw c ip saddr 10.255.0.2 drop"), False, True),
}


class Hosts:
    """Two hosts with a VXLAN tunnel between them."""

    def __init__(self, host: ThrowawayNamespace, peer: ThrowawayNamespace) -> None:
        self.host, self.peer = host, peer
        host.run("ip", "link", "add", "underlay", "type", "veth", "peer", "name", "underlay", "netns", str(peer.pid))
        for number, each in enumerate((host, peer), 1):
            remote = PEER if each is host else LOCAL
            each.run("ip", "address", "add", f"10.255.0.{number}/24", "dev", "underlay")
            each.run("ip", "link", "set", "underlay", "up")
            ends = f"id 7 dstport 4789 local 10.255.0.{number} remote {remote}"
            tunnel = f"ip link add vx address 02:00:00:00:00:0{number} type vxlan {ends}"
            each.run(*tunnel.split())
            each.run("ip", "address", "add", f"10.77.0.{number}/24", "dev", "vx")
            each.run("ip", "link", "set", "vx", "up")
        # Without ARP: its packets, in either direction, pass the same rules.
        for each, other in ((host, 2), (peer, 1)):
            neighbour = f"ip neighbour replace 10.77.0.{other} lladdr 02:00:00:00:00:0{other} dev vx nud permanent"
            each.run(*neighbour.split())

    def passes(self, sender: ThrowawayNamespace, receiver: ThrowawayNamespace, address: str) -> bool:
        """Whether a ping arrives at the other end of the tunnel, where other rules may drop it."""
        before = _received(receiver)
        sender.run("sh", "-c", f"ping -c 1 -W 0.3 {address} || true")
        return _received(receiver) > before


def _received(inside: ThrowawayNamespace) -> int:
    (shown,) = json.loads(inside.run("ip", "-json", "-stats", "link", "show", "vx"))
    return int(shown["stats64"]["rx"]["packets"])


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with ThrowawayNamespace() as host, ThrowawayNamespace() as peer:
        yield Hosts(host, peer)


@pytest.mark.parametrize("name", [*RULES, *TABLES])
def test_tunnels_pass_as_in_the_kernel(hosts: Hosts, name: str) -> None:
    if name in TABLES:
        (hook, priority, policy, rule), sent, received = TABLES[name]
        commands = [["nft", NFT.format(hook, priority, policy, rule)]]
    else:
        lines, sent, received = RULES[name]
        commands = [line.split() for line in lines]
    rules = HostRules(hosts.host.driver(RealInspection()))
    try:
        for command in commands:
            hosts.host.run(*command)
        assert hosts.passes(hosts.host, hosts.peer, "10.77.0.2") is not sent
        assert hosts.passes(hosts.peer, hosts.host, "10.77.0.1") is not received
        assert bool(rules.fault("vxlan", LOCAL, PEER, sent=True)) is sent
        assert bool(rules.fault("vxlan", LOCAL, PEER, sent=False)) is received
    finally:
        for program in ("iptables-legacy", "iptables-nft"):
            for words in ("-P INPUT ACCEPT", "-F", "-t raw -F"):
                hosts.host.run(program, *words.split())
        hosts.host.run("sh", "-c", "nft delete table inet fw || true")


def test_problems_are_named_in_either_direction(hosts: Hosts) -> None:
    hosts.host.run(*["iptables-legacy", "-A", "INPUT", "-p", "udp", "--dport", "4789", "-j", "DROP"])
    try:
        rules = HostRules(hosts.host.driver(RealInspection()))
        assert list(rules.problems(("gre", "geneve", "vxlan", "vxlan"), LOCAL, PEER)) == [
            "chain INPUT of table iptables-legacy filter of this host drops UDP port 4789 (vxlan) from 10.255.0.2"
        ]
    finally:
        hosts.host.run("iptables-legacy", "-F")
