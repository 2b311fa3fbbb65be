"""The evaluator of nft rules, on JSON as nft 1.0.6 lists it for the rules that routers have."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.agent.trace.netfilter import nft
from neutrino.agent.trace.netfilter.nft import ACCEPT, DROP, REJECT, Hit, NftPacket, Rules, firewall_groups

Expression = dict[str, Any]
META = {name: {"meta": {"key": name}} for name in ("iifname", "oifname", "l4proto", "mark")}
CT = {name: {"ct": {"key": name}} for name in ("state", "status", "mark", "direction")}
SADDR, DADDR = ({"payload": {"protocol": "ip", "field": field}} for field in ("saddr", "daddr"))
DPORT = {"payload": {"protocol": "tcp", "field": "dport"}}
ICMP_TYPE = {"payload": {"protocol": "icmp", "field": "type"}}
VERDICT = {name: {name: None} for name in ("accept", "drop", "return")}


def match(left: Any, right: Any, op: str = "==") -> Expression:
    return {"match": {"op": op, "left": left, "right": right}}


def ruleset(
    *rules: list[Expression],
    chains: dict[str, list[list[Expression]]] | None = None,
    sets: tuple[dict[str, Any], ...] = (),
    policy: str = ACCEPT,
    family: str = "ip",
    commented: bool = True,
) -> Rules:
    where = {"family": family, "table": "neutrino"}
    hook = {"type": "filter", "hook": "forward", "prio": 0, "policy": policy}
    objects: list[dict[str, Any]] = [{"metainfo": {"version": "1.0.6"}}, {"chain": {**where, "name": "base", **hook}}]
    objects += [{"chain": {**where, "name": name}} for name in chains or {}]
    objects += [{"map" if "map" in each else "set": {**where, **each}} for each in sets]
    mark = {"comment": "0a1b2c3d"} if commented else {}
    for name, several in {"base": list(rules), **(chains or {})}.items():
        objects += [{"rule": {**where, "chain": name, "expr": each, **mark}} for each in several]
    return Rules(objects)


def packet(**values: Any) -> NftPacket:
    known = {"source": "10.0.1.12", "destination": "203.0.113.9", "protocol": 6, "source_port": 40000}
    return NftPacket(**{**known, "destination_port": 80, "iif": "qr-a", "oif": "qg-b", **values})


def run(rules: Rules, sent: NftPacket) -> tuple[str, list[Hit]]:
    hits: list[Hit] = []
    verdicts = [rules.run(chain, sent, hits) for chain in rules.base_chains("forward", sent.version)]
    return verdicts[0] if verdicts else "", hits


@pytest.mark.parametrize(
    "expression, values, matches",
    [
        (match(META["iifname"], "qr-a"), {}, True),
        (match(META["iifname"], "qr-*"), {}, True),
        (match(META["iifname"], "qg-*"), {}, False),
        (match(META["oifname"], "qg-b", "!="), {}, False),
        (match(META["iifname"], {"set": ["qr-x", "qr-a"]}), {}, True),
        (match(META["iifname"], {"set": ["qr-x", "qr-y"]}, "!="), {}, True),
        (match(META["l4proto"], {"set": [6, 17]}), {}, True),
        (match(META["l4proto"], 17), {}, False),
        (match(SADDR, {"prefix": {"addr": "10.0.0.0", "len": 8}}), {}, True),
        (match(SADDR, {"prefix": {"addr": "10.0.2.0", "len": 24}}), {}, False),
        (match(DADDR, {"range": ["203.0.113.1", "203.0.113.9"]}), {}, True),
        (match(DADDR, "203.0.113.9", "!="), {}, False),
        (match(DPORT, {"range": [79, 81]}), {}, True),
        (match(DPORT, 80), {"protocol": 17}, False),  # of TCP alone
        (match({"payload": {"protocol": "th", "field": "dport"}}, 80), {"protocol": 17}, True),
        (match({"payload": {"protocol": "ip6", "field": "saddr"}}, "fd00::1"), {}, False),
        (
            match({"payload": {"protocol": "icmp", "field": "type"}}, {"set": [3, 8]}),
            {"protocol": 1, "destination_port": 8},
            True,
        ),
        (
            match({"payload": {"protocol": "ether", "field": "saddr"}}, "02:00:00:00:00:01"),
            {"eth_src": "02:00:00:00:00:01"},
            True,
        ),
        (match({"payload": {"protocol": "ether", "field": "saddr"}}, "02:00:00:00:00:01"), {}, False),
        (match({"meta": {"key": "iiftype"}}, 1), {}, True),
        (match(CT["state"], 1, "in"), {}, False),
        (match(CT["state"], [2, 4], "in"), {"ct_state": nft.ESTABLISHED}, True),
        (match(CT["state"], [1, 8], "in"), {}, True),
        (match(CT["status"], 32, "in"), {"ct_status": nft.DESTINATION_NAT}, True),
        (match(CT["status"], 32, "!"), {"ct_status": nft.SOURCE_NAT}, True),
        (match(CT["status"], 32, "!"), {"ct_status": nft.DESTINATION_NAT}, False),
        (match(CT["direction"], 1), {"reply": True}, True),
        (match(CT["mark"], {"prefix": {"addr": 0, "len": 1}}, "!="), {"ct_mark": 0x80000000}, True),
        (match({"&": [CT["mark"], 0x7FFFFFFF]}, 0x123), {"ct_mark": 0x80000123}, True),
        (match({"&": [META["mark"], 65535]}, 2), {"mark": 0x10002}, True),
        (match({"&": [{"payload": {"protocol": "tcp", "field": "flags"}}, [2, 16]]}, 2), {}, True),
        (match({"&": [{"payload": {"protocol": "tcp", "field": "flags"}}, [2, 16]]}, 2), {"tcp_flags": 18}, False),
        (match({"concat": [META["iifname"], META["oifname"]]}, {"set": [{"concat": ["qr-a", "qg-b"]}]}), {}, True),
        (match({"concat": [META["iifname"], META["oifname"]]}, {"set": [{"concat": ["qr-a", "qr-a"]}]}), {}, False),
    ],
)
def test_matches(expression: Expression, values: dict[str, Any], matches: bool) -> None:
    verdict, hits = run(ruleset([expression, VERDICT["drop"]]), packet(**values))
    assert (verdict == DROP) is matches
    assert not [hit for hit in hits if hit.effect == "unknown"]


FLOATING = {"name": "floating_to_fixed", "map": "ipv4_addr", "elem": [["203.0.113.9", "10.0.1.12"]]}
FORWARDED = {
    "name": "forwarded",
    "map": "ipv4_addr . inet_service",
    "elem": [[{"concat": ["203.0.113.9", 6, {"range": [80, 90]}]}, {"concat": ["10.0.0.1", 22]}]],
}


def test_a_map_translates_the_destination_or_the_rule_does_not_match() -> None:
    rule = [{"dnat": {"addr": {"map": {"key": DADDR, "data": "@floating_to_fixed"}}}}]
    rules, sent = ruleset(rule, sets=(FLOATING,)), packet()
    verdict, hits = run(rules, sent)
    assert (verdict, sent.destination, sent.ct_status) == (ACCEPT, "10.0.1.12", nft.DESTINATION_NAT)
    assert [hit.effect for hit in hits] == ["dnat"]
    other = packet(destination="203.0.113.10")
    assert run(rules, other) == (ACCEPT, [])
    assert other.destination == "203.0.113.10"


def test_a_port_forwarding_of_a_range_to_one_port() -> None:
    key = {
        "concat": [
            DADDR,
            {"payload": {"protocol": "ip", "field": "protocol"}},
            {"payload": {"protocol": "th", "field": "dport"}},
        ]
    }
    rules = ruleset(
        [{"dnat": {"family": "ip", "addr": {"map": {"key": key, "data": "@forwarded"}}}}], sets=(FORWARDED,)
    )
    sent, other, icmp = packet(destination_port=85), packet(destination_port=91), packet(protocol=1, destination_port=8)
    run(rules, sent), run(rules, other), run(rules, icmp)
    assert (sent.destination, sent.destination_port) == ("10.0.0.1", 22)
    assert (other.destination, icmp.destination) == ("203.0.113.9", "203.0.113.9")


def test_a_source_becomes_the_gateways_address() -> None:
    sent = packet()
    _, hits = run(ruleset([{"snat": {"addr": "203.0.113.5", "flags": "fully-random"}}]), sent)
    assert (sent.source, sent.source_port, sent.ct_status) == ("203.0.113.5", 40000, nft.SOURCE_NAT)
    assert "203.0.113.5" in hits[0].note


def test_a_redirect_and_marks() -> None:
    marked = [
        match(META["iifname"], "qr-*"),
        {"mangle": {"key": META["mark"], "value": {"|": [META["mark"], 0x20000]}}},
    ]
    remembered = [{"mangle": {"key": CT["mark"], "value": 4660}}]
    redirected = [match({"&": [META["mark"], 0x20000]}, 0, "!="), {"redirect": {"port": 9697}}]
    sent = packet()
    run(ruleset(marked, remembered, redirected), sent)
    assert (sent.mark, sent.ct_mark, sent.destination_port) == (0x20000, 4660, 9697)


def test_chains_are_jumped_to_and_left() -> None:
    rules = ruleset(
        [{"vmap": {"key": META["iifname"], "data": {"set": [["qr-a", {"jump": {"target": "policy"}}]]}}}],
        [{"goto": {"target": "rest"}}],
        [VERDICT["drop"]],  # never reached
        chains={
            "policy": [[match(DPORT, 80), VERDICT["return"]], [{"counter": "firewall_ingress_g1"}, VERDICT["drop"]]],
            "rest": [],
        },
    )
    assert run(rules, packet()) == (ACCEPT, [])
    verdict, hits = run(rules, packet(destination_port=81))
    assert (verdict, hits[-1].chain, hits[-1].counter) == (DROP, "policy", "firewall_ingress_g1")
    assert [*firewall_groups(hits)] == ["g1"]


def test_reject_policy_and_rules_of_others() -> None:
    assert run(ruleset([{"reject": {"type": "tcp reset"}}]), packet())[0] == REJECT
    verdict, hits = run(ruleset(policy=DROP), packet())
    assert (verdict, hits[0].note) == (DROP, "the chain's policy")
    _, by_hand = run(ruleset([VERDICT["drop"]], commented=False), packet())
    assert not by_hand[0].commented


def test_limits_do_not_drop_the_packet_of_a_question() -> None:
    limited = {"name": "qos", "elem": [{"elem": {"val": "10.0.1.12", "limit": {"rate": 1, "inv": True}}}]}
    assert run(ruleset([match(SADDR, "@qos"), VERDICT["drop"]], sets=(limited,)), packet())[0] == ACCEPT
    assert run(ruleset([{"limit": {"rate": 1, "inv": True}}, VERDICT["drop"]]), packet())[0] == ACCEPT
    assert run(ruleset([{"limit": {"rate": 1}}, VERDICT["drop"]]), packet())[0] == DROP


def test_copies_for_a_log_decide_nothing() -> None:
    copying: list[Expression] = [{"limit": "firewall_log"}, {"log": {"prefix": "DROP egress qr-a", "group": 28269}}]
    rules = ruleset([{"jump": {"target": "copies"}}], [VERDICT["drop"]], chains={"copies": [copying]})
    verdict, hits = run(rules, packet())
    assert (verdict, [(hit.chain, hit.effect) for hit in hits]) == (DROP, [("base", DROP)])


def test_what_is_not_understood_is_noted_and_does_not_match() -> None:
    for expression in (
        {"fib": {"result": "oif"}},
        match({"meta": {"key": "skuid"}}, 0),
        match({"socket": {"key": "mark"}}, 1),
    ):
        verdict, hits = run(ruleset([expression, VERDICT["drop"]]), packet())
        assert (verdict, [hit.effect for hit in hits]) == (ACCEPT, ["unknown"])


def test_chains_of_a_hook_by_family_and_priority() -> None:
    where = {"table": "t", "type": "filter", "hook": "forward"}
    chains = [
        {"chain": {**where, "family": family, "name": name, "prio": priority}}
        for family, name, priority in (("ip", "b", 0), ("inet", "a", -10), ("ip6", "c", 5), ("bridge", "d", 0))
    ]
    rules = Rules(chains)
    assert [each.name for each in rules.base_chains("forward", 4)] == ["a", "b"]
    assert [each.name for each in rules.base_chains("forward", 6)] == ["a", "c"]


def test_chains_that_lead_to_each_other_end() -> None:
    rules = ruleset([{"jump": {"target": "loop"}}], chains={"loop": [[{"jump": {"target": "loop"}}]]})
    assert run(rules, packet())[0] == ACCEPT


def test_rules_by_the_addresses_of_a_connection() -> None:
    """As those that mark the replies of a connection from outside with the gateway that it came by."""
    left = {"ct": {"key": "ip daddr", "dir": "original"}}
    match = {"match": {"op": "==", "left": left, "right": "203.0.113.9"}}
    rules = [{"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 1, "expr": [match, {"drop": None}]}}]
    chain = {
        "family": "ip",
        "table": "t",
        "name": "c",
        "type": "filter",
        "hook": "prerouting",
        "prio": 0,
        "policy": "accept",
    }
    found = nft.Rules([{"chain": chain}, *rules])
    (base,) = found.base_chains("prerouting", 4)
    packet = nft.NftPacket("10.0.0.1", "192.0.2.1", 1)
    assert found.run(base, packet, []) != nft.DROP
    packet.ct_addresses = {"original": ("192.0.2.1", "203.0.113.9"), "reply": ("10.0.0.1", "192.0.2.1")}
    hits: list[nft.Hit] = []
    assert found.run(base, packet, hits) == nft.DROP
    assert not [hit for hit in hits if hit.effect == "unknown"]
    packet.ct_addresses = {"original": ("192.0.2.1", "203.0.113.8"), "reply": ("10.0.0.1", "192.0.2.1")}
    assert found.run(base, packet, []) != nft.DROP
