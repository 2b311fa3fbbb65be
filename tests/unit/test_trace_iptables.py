"""The evaluator of iptables rules, on the chains that the hybrid firewall renders."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.agent.l2.hybrid.render import FALLBACK, NO_LOGS, Logging, port_chain, port_device, render
from neutrino.agent.trace.netfilter.iptables import BridgedPacket, Verdict, evaluate
from neutrino.dataplane.iptables.api import Rule
from tests.support.l2 import OUT, Cloud, group, mac, network, port, rule

ID, OTHER = "0e20961c-3264-462c-9b3f-3ce543638576", "5ea9ceaa-105a-48fa-a16d-4b2860439fe0"
TAP, INNER = port_device("tap", ID), port_device("qvb", ID)


@pytest.fixture(scope="module", params=[NO_LOGS, Logging(frozenset({ID}), frozenset({ID}))], ids=["", "logged"])
def rules(request: pytest.FixtureRequest) -> tuple[dict[int, Any], Any]:
    """A port that accepts TCP 80 to 90 and all of its own group."""
    cloud = Cloud("h1")
    host = cloud.hosts["h1"]
    web = group("web", rule(protocol=6, port_min=80, port_max=90), rule(protocol=17, remote_group_id="web"))
    objects = (network("net"), web, OUT, port(ID, 1, groups=["web", "out"], hybrid_plug=True))
    desired = host.resolve(cloud.state_for("h1", objects))
    found = render(desired.ports, (), {"group:web": frozenset({"10.0.0.7"})}, {ID: 4097}, request.param)
    tables = {
        family: {**chains["filter"], **found.jumps["filter"]}  # as iptables-save lists them: with the kernel's chains
        for family, chains in found.tables.items()
    }
    return tables, found.sets


def judge(rules: tuple[dict[int, Any], Any], direction: str, **values: Any) -> Verdict:
    ends = (TAP, INNER) if direction == "egress" else (INNER, TAP)
    sender = (mac(1), "10.0.0.1", "10.0.0.2") if direction == "egress" else (mac(2), "10.0.0.2", "10.0.0.1")
    known = {"mac": sender[0], "source": sender[1], "destination": sender[2], "protocol": 6, "destination_port": 80}
    sent = BridgedPacket(**{**known, "device_in": ends[0], "device_out": ends[1], **values})
    return evaluate(rules[0][6 if ":" in sent.source else 4], rules[1], "FORWARD", sent)


@pytest.mark.parametrize(
    "direction, values, result, chain",
    [
        ("ingress", {}, "ACCEPT", ""),
        ("ingress", {"destination_port": 90}, "ACCEPT", ""),
        ("ingress", {"destination_port": 91}, "DROP", FALLBACK),
        ("ingress", {"destination_port": 91, "state": "ESTABLISHED", "reply": True}, "ACCEPT", ""),
        ("ingress", {"destination_port": 91, "state": "ESTABLISHED"}, "DROP", FALLBACK),
        ("ingress", {"protocol": 17, "source": "10.0.0.7", "destination_port": 5}, "ACCEPT", ""),
        ("ingress", {"protocol": 17, "source": "10.0.0.8", "destination_port": 5}, "DROP", FALLBACK),
        ("ingress", {"protocol": 17, "source_port": 67, "destination_port": 68}, "ACCEPT", ""),
        ("egress", {}, "ACCEPT", ""),
        ("egress", {"source": "10.0.0.9"}, "DROP", port_chain("s", ID)),
        ("egress", {"mac": mac(9)}, "DROP", port_chain("s", ID)),
        ("egress", {"protocol": 17, "source_port": 67, "destination_port": 68}, "DROP", port_chain("o", ID)),
        (
            "egress",
            {"source": "2001:db8::1", "destination": "ff02::1", "protocol": 58, "destination_port": 134},
            "DROP",
            port_chain("o", ID),
        ),
    ],
)
def test_chains_of_a_port(
    rules: tuple[dict[int, Any], Any], direction: str, values: dict[str, Any], result: str, chain: str
) -> None:
    found = judge(rules, direction, **values)
    assert (found.result, found.unknown) == (result, ())
    if result == "DROP":
        assert found.chain == chain


def test_other_traffic_is_not_touched(rules: tuple[dict[int, Any], Any]) -> None:
    assert judge(rules, "egress", device_in="eth0", device_out="eth1", destination_port=1).result == "ACCEPT"


def test_a_rule_of_others_and_one_that_is_not_understood() -> None:
    sent = BridgedPacket(mac(1), "10.0.0.1", "10.0.0.2", 6, 40000, 80)
    chains = {"FORWARD": (Rule("-m owner --uid-owner 0 -j ACCEPT"), Rule('-p tcp -m comment --comment "a b" -j DROP'))}
    found = evaluate(chains, {}, "FORWARD", sent)
    assert (found.result, found.unknown) == ("DROP", ("--uid-owner 0",))
    assert evaluate({"FORWARD": (Rule("! -s 10.0.0.1/32 -j DROP"),)}, {}, "FORWARD", sent).result == "ACCEPT"
    assert (
        evaluate({"FORWARD": (Rule("-p tcp -m multiport --dports 22,80:90 -j DROP"),)}, {}, "FORWARD", sent).result
        == "DROP"
    )
