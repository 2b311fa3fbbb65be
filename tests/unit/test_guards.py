"""Guards of the agent's start: which flows, ports and databases keep it from its work."""

from __future__ import annotations

import pytest

from neutrino.agent.guard.decide import (
    FOREIGN_FLOWS,
    OTHER_DATABASE,
    SWITCH,
    UNKNOWN_PORTS,
    CookieRange,
    Facts,
    Server,
    foreign,
    judge,
    parse_cookies,
    plugged_ports,
)
from neutrino.agent.l2.extension_api import cookie_of
from neutrino.dataplane.openflow.api import LEARNED_COOKIE, flow
from neutrino.dataplane.ovsdb.api import Bridge, Interface, Port, Snapshot
from neutrino.model.database_identity import new_identity, renewed
from tests.support.neutron_flows import BRIDGES, COOKIE, neutron_flows

DEFAULT = flow(0, 0, "", "NORMAL")  # of a new bridge


@pytest.mark.parametrize("bridge", BRIDGES)
def test_all_flows_of_neutrons_agent_are_foreign(bridge: str) -> None:
    flows = neutron_flows(bridge)
    assert foreign(flows, physical=bridge == "br-phys") == sorted(flows)


def test_flows_of_this_agent_and_of_a_new_bridge_are_not_foreign() -> None:
    ours = [
        flow(0, 0, "", "drop", cookie=cookie_of("bridge")),
        flow(60, 9, "arp", "NORMAL", cookie=cookie_of("an extension of a third party")),
        flow(20, 1, "dl_vlan=1", "drop", cookie=LEARNED_COOKIE),
    ]
    assert foreign([*ours, DEFAULT]) == []


def test_an_unmarked_flow_is_foreign_except_on_a_physical_bridge() -> None:
    """There it is the operator's, as agents mark theirs."""
    unmarked = flow(0, 7, "arp", "NORMAL")
    assert foreign([unmarked]) == [unmarked]
    assert foreign([unmarked], physical=True) == []
    other = flow(0, 0, "", "NORMAL", cookie=COOKIE)
    assert foreign([other], physical=True) == [other]


def test_kept_cookies() -> None:
    flows = [flow(0, 1, "arp", "drop", cookie=0x1234), flow(0, 2, "arp", "drop", cookie=0x5634)]
    assert foreign(flows, [parse_cookies("0x1234")]) == [flows[1]]
    assert foreign(flows, [parse_cookies("0x34/0xff")]) == []
    assert parse_cookies("7") == CookieRange(7, 2**64 - 1)
    for wrong in ("", "x", "0x1/", "0x1/0", "-1", "0x10000000000000000"):
        with pytest.raises(ValueError):
            parse_cookies(wrong)


def test_live_ports_are_those_with_a_number_and_an_id() -> None:
    def port(name: str, ofport: int | None, **ids: str) -> Port:
        external = {key.replace("_", "-"): value for key, value in ids.items()}
        return Port(name, interfaces=(Interface(name, ofport=ofport, external_ids=external),))

    ports = [port("tap1", 3, iface_id="p1"), port("tap2", -1, iface_id="p2"), port("tap3", None, iface_id="p3")]
    ports.append(port("patch-tun", 4))
    snapshot = Snapshot({"br-int": Bridge("br-int", ports={each.name: each for each in ports})})
    assert plugged_ports(snapshot, "br-int") == {"p1": "tap1"}
    assert plugged_ports(snapshot, "br-none") == {}


def plugged(number: int) -> dict[str, str]:
    return {f"p{each}": f"tap{each}" for each in range(number)}


def test_a_host_of_its_own_is_not_held() -> None:
    ports = frozenset(plugged(3))
    for facts in (
        Facts(),  # a fresh host, whose server has not answered
        Facts(server=Server("db", frozenset())),  # a fresh host
        Facts(plugged=plugged(3), database="db", ports=ports),  # a restart without a server
        Facts(plugged=plugged(3), database="db", ports=ports, server=Server("db", ports)),
        Facts(plugged=plugged(3), database="db", ports=ports, server=Server("", ports)),  # an older server
    ):
        verdict = judge(facts)
        assert (verdict.causes, verdict.needs_server) == ({}, False)


def test_a_host_with_ports_and_without_a_cache_waits_for_the_server() -> None:
    """It may be another agent's, whose flows a switch in fail mode standalone does not need."""
    assert judge(Facts(plugged=plugged(1))).needs_server
    verdict = judge(Facts(plugged=plugged(3), server=Server("db", frozenset(plugged(3)))))
    assert (verdict.causes, verdict.needs_server) == ({}, True)


def test_ports_that_the_same_server_has_deleted_are_not_unknown() -> None:
    """As while the agent was stopped: a restart cuts them off, as a running agent would have done."""
    facts = Facts(plugged=plugged(9), database="db", ports=frozenset(plugged(9)), server=Server("db", frozenset()))
    assert judge(facts).causes == {}


@pytest.mark.parametrize(
    ("number", "known", "held"),
    [(0, 0, False), (1, 0, False), (2, 0, True), (2, 1, False), (50, 48, True), (300, 297, False), (300, 296, True)],
)
def test_unknown_ports_beyond_a_small_share_hold_the_agent(number: int, known: int, held: bool) -> None:
    facts = Facts(plugged=plugged(number), server=Server("db", frozenset(plugged(known))))
    verdict = judge(facts)
    assert list(verdict.causes) == ([UNKNOWN_PORTS] if held else [])
    if held:
        text = verdict.causes[UNKNOWN_PORTS]
        assert f"knows {known} of the {number} ports" in text
        assert "[agent] start_despite = unknown_ports" in text
    assert judge(facts, {UNKNOWN_PORTS}).causes == {}


def test_another_database_holds_the_agent() -> None:
    """With all ports known, too: a copy of another cloud's."""
    ports, old, new = frozenset(plugged(3)), new_identity(), new_identity()
    facts = Facts(plugged=plugged(3), database=old, ports=ports, server=Server(new, ports))
    text = judge(facts).causes[OTHER_DATABASE]
    assert f"database {new}" in text
    assert f"database {old}" in text
    assert "[agent] start_despite = other_database" in text
    assert judge(facts, {OTHER_DATABASE}).causes == {}


def test_ports_of_the_cache_do_not_count_for_another_database() -> None:
    old, new = new_identity(), new_identity()
    facts = Facts(plugged=plugged(9), database=old, ports=frozenset(plugged(9)), server=Server(new, frozenset()))
    assert set(judge(facts).causes) == {OTHER_DATABASE, UNKNOWN_PORTS}
    assert set(judge(facts, {OTHER_DATABASE}).causes) == {UNKNOWN_PORTS}


@pytest.mark.parametrize(("known", "held"), [(9, False), (8, False), (7, True)])
def test_a_restored_backup_is_accepted_unless_it_lacks_ports_that_are_plugged(known: int, held: bool) -> None:
    """The operator has declared it by `neutrino db restored`; no option is needed on each host."""
    before = new_identity()
    after = renewed(before)
    assert before != after
    ports = frozenset(plugged(9))
    facts = Facts(plugged=plugged(9), database=before, ports=ports, server=Server(after, frozenset(plugged(known))))
    assert list(judge(facts).causes) == ([UNKNOWN_PORTS] if held else [])


def test_foreign_flows_hold_the_agent_without_a_server() -> None:
    facts = Facts({"br-int": neutron_flows("br-int"), "br-tun": neutron_flows("br-tun")})
    text = judge(facts).causes[FOREIGN_FLOWS]
    assert "br-int has 21, br-tun has 10" in text
    assert "[agent] start_despite = foreign_flows" in text
    assert f"cookie={COOKIE:#x}" in text
    verdict = judge(facts, {FOREIGN_FLOWS})
    assert verdict.causes == {}
    assert list(verdict.ignored) == [FOREIGN_FLOWS]
    assert verdict.needs_server, "nothing is added beside them before the server has sent everything"


def test_a_switch_that_cannot_be_read_is_waited_for() -> None:
    assert list(judge(Facts(unreadable="no answer"), {FOREIGN_FLOWS, UNKNOWN_PORTS, OTHER_DATABASE}).causes) == [SWITCH]
