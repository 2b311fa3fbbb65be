"""Firewall groups on router ports: which devices of which namespaces are filtered, and what is reported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extensions.firewall import BASE, FirewallGroups
from neutrino.agent.l3.firewall_log import GROUP
from neutrino.agent.reply_mac import REPLY_MAC
from neutrino.agent.runtime.role import ObjectStatus, StatusReports
from neutrino.dataplane.nft.api import Table
from neutrino.feed.state import StateChange
from neutrino.model.firewall import FirewallGroup
from neutrino.model.routing import Router, RouterInterface, RouterRoute
from tests.support.filtered_router import filtered
from tests.support.firewall import TCP, group, rule
from tests.support.l3_host import NAMESPACE, Feed, Host, run
from tests.support.routing import address, find_rendered, interface, membership, router, table

OPTIONS = L3Options(host="h1", veth=True)
QR1, QR2, SG1, RFP = "qr-00000001-aa", "qr-00000002-aa", "sg-50000001-aa", "rfp-r1"
PATH = "inet neutrino"
OPEN = group(ingress=(rule(protocol=TCP),), egress=(rule(),))


def firewall(wanted: Router, *groups: FirewallGroup, kind: str = "router", link: object = None) -> Table | None:
    made = find_rendered(wanted, OPTIONS, kind=kind, groups=groups, link=link)  # type: ignore[arg-type]
    return table(made, "inet") if made is not None else None


def chains(found: Table | None) -> dict[str, tuple[str, ...]]:
    return {each.name: each.rules for each in found.chains} if found is not None else {}


def generation(found: Table | None) -> str:
    (mark,) = set(re.findall(r"ct mark & 0xfffffffe == (0x[0-9a-f]+) accept", " ".join(chains(found)[BASE])))
    assert int(mark, 0)
    return str(mark)


def filters(found: Table | None) -> set[tuple[str, str, str]]:
    """Way in or out, device and chain of the policies for packets that open a connection."""
    several = " ".join(chains(found).get("firewall_opening", ()))
    return {
        (way, device, chain)
        for way, verdicts in re.findall(r"(iifname|oifname) vmap \{ (.*?) \}", several)
        for device, chain in re.findall(r'"(.*?)" : jump (\S+?)(?:,|$)', verdicts)
    }


def test_a_router_without_groups_has_no_table() -> None:
    assert firewall(router(interface(1)), OPEN) is None


def test_policies_by_device_and_direction() -> None:
    found = firewall(router(filtered(1), filtered(2, "group-2"), filtered(3, "")), OPEN, group(id="group-2"))
    assert filters(found) == {
        ("iifname", QR1, "firewall_egress_group-1"),
        ("iifname", QR2, "firewall_egress_group-2"),
        ("oifname", QR1, "firewall_ingress_group-1"),
        ("oifname", QR2, "firewall_ingress_group-2"),
    }


def test_ports_of_one_group_share_its_chains() -> None:
    many = group(ingress=tuple(rule(protocol=TCP, dport=port) for port in range(1, 501)))
    found = chains(firewall(router(filtered(1), filtered(2)), many))
    assert sum(len(rules) for rules in found.values()) < 2 * 500 + 40
    assert len(found["firewall_ingress_group-1"]) == 501
    assert found["firewall_ingress_group-1"][0] == "meta nfproto ipv4 meta l4proto 6 th dport 1 return"
    assert found["firewall_ingress_reply_group-1"][0] == "meta nfproto ipv4 meta l4proto 6 th sport 1 return"


@pytest.mark.parametrize(
    "impossible",
    [
        rule(protocol=TCP, source="fd00::/64"),
        rule(protocol=1, dport=80),
        rule(dport=80),
        rule(protocol=TCP, dport=(90, 80)),
    ],
    ids=["address of the other version", "ICMP with ports", "ports without a protocol", "empty range"],
)
def test_a_rule_that_no_packet_can_match_allows_nothing(impossible: object) -> None:
    found = chains(firewall(router(filtered(1)), group(ingress=(impossible,))))
    assert found["firewall_ingress_group-1"] == ("counter name firewall_ingress_group-1 drop",)


def test_icmp_of_an_ipv6_rule_is_icmpv6() -> None:
    found = chains(firewall(router(filtered(1)), group(ingress=(rule(protocol=1, version=6),))))
    assert found["firewall_ingress_group-1"][0] == "meta nfproto ipv6 meta l4proto 58 return"


def test_a_group_that_is_down_or_not_known_drops_everything() -> None:
    down = chains(firewall(router(filtered(1)), group(ingress=(rule(),), admin_state_up=False)))
    assert down == chains(firewall(router(filtered(1))))
    assert down["firewall_ingress_group-1"] == ("counter name firewall_ingress_group-1 drop",)


def test_names_of_chains_are_names() -> None:
    found = firewall(router(filtered(1, 'x"; drop {')), group(id='x"; drop {'))
    assert found is not None
    assert all(re.fullmatch(r"[\w-]+", each.name) for each in found.chains)


def test_the_mark_of_allowed_connections_changes_with_the_rules_alone() -> None:
    first = generation(firewall(router(filtered(1), filtered(2)), OPEN))
    again = router(filtered(1), filtered(2), ha=membership(), routes=(), name="renamed")
    assert generation(firewall(again, msgspec.structs.replace(OPEN, revision=7))) == first
    for other in (
        firewall(router(filtered(1), filtered(2, "")), OPEN),
        firewall(router(filtered(1), filtered(2)), group(ingress=OPEN.egress, egress=OPEN.ingress)),
        firewall(router(filtered(1), filtered(2)), msgspec.structs.replace(OPEN, admin_state_up=False)),
        firewall(router(filtered(1), filtered(2), routes=(RouterRoute("10.9.0.0/16", "10.0.2.9"),)), OPEN),
    ):
        assert generation(other) != first


def test_a_host_of_an_ha_router_tries_segments_as_replies_too() -> None:
    assert (
        "ct state new meta l4proto tcp goto firewall_either"
        in chains(firewall(router(filtered(1), ha=membership()), OPEN))[BASE]
    )
    assert "firewall_either" not in " ".join(chains(firewall(router(filtered(1)), OPEN))[BASE])


# --- distributed routers ----------------------------------------------------------------------------------------------


def distributed(*interfaces: RouterInterface, **values: object) -> Router:
    """With the SNAT port on the subnet of the first interface, whose group it has."""
    central = msgspec.structs.replace(
        interface(1, address("10.0.1.7", "10.0.1.0/24")),
        id="50000001-aaaa-bbbb-cccc-dddddddddddd",
        firewall_group_id=interfaces[0].firewall_group_id,
    )
    return router(*interfaces, distributed=True, snat_interfaces=(central,), **values)


def test_a_distributed_router_filters_towards_the_outside_in_snat_by_the_group_of_the_subnets_port() -> None:
    found = firewall(distributed(filtered(1), filtered(2, "")), OPEN, kind="snat")
    assert filters(found) == {
        ("iifname", SG1, "firewall_egress_group-1"),
        ("oifname", SG1, "firewall_ingress_group-1"),
    }
    assert "ct direction reply goto firewall_replying" in chains(found)[BASE]
    assert firewall(distributed(filtered(1, ""), filtered(2)), OPEN, kind="snat") is None, "the other subnet's"


def test_a_distributed_router_passes_between_subnets_replies_and_what_a_rule_allows() -> None:
    found = chains(firewall(distributed(filtered(1), filtered(2, "")), OPEN))
    between = f'iifname {{ "{QR1}", "{QR2}" }} oifname {{ "{QR1}", "{QR2}" }}'
    base = found[BASE]
    start = base.index(f'iifname . oifname {{ "{QR1}" . "{QR1}" }} accept')  # to snat-…, where it is filtered
    # Conntrack sees one direction of these: its states say nothing.
    assert base[start + 1 : start + 4] == (
        f"{between} ether saddr {REPLY_MAC} goto firewall_answering",
        f"{between} meta l4proto tcp goto firewall_either",
        f"{between} goto firewall_opening",
    )
    assert found["firewall_answering"][-1] == "goto firewall_either"
    assert found["firewall_either"][0] == "tcp flags & (syn | ack) == syn goto firewall_opening"
    for other in (router(filtered(1), filtered(2, "")), router(filtered(1), filtered(2, ""), ha=membership())):
        assert REPLY_MAC not in str(firewall(other, OPEN)), "no switch sets it for such a router"
    assert REPLY_MAC not in str(firewall(distributed(filtered(1)), OPEN, kind="snat"))


def test_errors_pass_between_ports_whose_groups_are_up() -> None:
    found = chains(firewall(distributed(filtered(1), filtered(2, "group-2")), group(id="group-2")))
    errors = [line for line in found["firewall_answering"] if line.endswith("accept")]
    assert len(errors) == 2
    assert all(line.startswith(f'iifname {{ "{QR2}" }} oifname {{ "{QR2}" }} icmp') for line in errors), "1 is unknown"


# --- addresses of other subnets ---------------------------------------------------------------------------------------


def spoofed(wanted: Router, **values: object) -> set[str]:
    found = chains(firewall(wanted, OPEN, **values))  # type: ignore[arg-type]
    rules = found.get("firewall_spoofed", ())
    assert all(each.endswith(" counter name firewall_invalid drop") for each in rules)
    assert any("jump firewall_spoofed" in each for each in found[BASE][:1]) == bool(rules), "before anything passes"
    return {each.removesuffix(" counter name firewall_invalid drop") for each in rules}


@pytest.mark.parametrize("values", [{}, {"ha": membership()}, {"distributed": True}])
def test_an_address_of_another_subnet_is_dropped(values: dict[str, object]) -> None:
    assert spoofed(router(filtered(1), filtered(2, ""), **values)) == {
        f'iifname != {{ "{QR1}" }} ip saddr {{ 10.0.1.0/24 }}',
        f'iifname != {{ "{QR1}" }} ip6 saddr {{ fd00:1::/64 }}',
        f'iifname != {{ "{QR2}" }} ip saddr {{ 10.0.2.0/24 }}',
        f'iifname != {{ "{QR2}" }} ip6 saddr {{ fd00:2::/64 }}',
    }


def test_ports_on_one_network_may_send_from_each_others_subnets() -> None:
    assert not spoofed(router(filtered(1), filtered(2, "", network_id="net-1")))


def test_addresses_behind_an_extra_route_are_of_the_next_hops_network() -> None:
    routes = (
        RouterRoute("10.9.0.0/16", "10.0.2.9"),
        RouterRoute("10.0.0.0/8", "10.0.2.9"),
        RouterRoute("::/0", "fd00:2::9"),
    )
    found = spoofed(router(filtered(1), filtered(2, ""), routes=routes))
    assert f'iifname != {{ "{QR2}" }} ip saddr {{ 10.0.2.0/24, 10.9.0.0/16 }}' in found
    assert f'iifname != {{ "{QR2}" }} ip6 saddr {{ fd00:2::/64 }}' in found


def test_only_the_snat_part_of_a_distributed_ha_router_fails_over() -> None:
    this = distributed(filtered(1), ha=membership())
    assert "ct state new meta l4proto tcp goto firewall_either" in chains(firewall(this, OPEN, kind="snat"))[BASE]
    assert "ct state new meta l4proto tcp goto firewall_either" not in chains(firewall(this, OPEN))[BASE]


# --- changes and reports ----------------------------------------------------------------------------------------------


def test_a_change_of_a_group_affects_the_routers_that_use_it() -> None:
    routers = [router(filtered(1), id="r1"), router(filtered(1, "group-2"), id="r2"), router(interface(1), id="r3")]
    change = StateChange(GROUP, "group-2", None, group(id="group-2"))
    assert list(FirewallGroups().routers_affected(change, routers)) == ["r2"]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def reported(host: Host) -> list[tuple[str, str]]:
    return [(key, status) for kind, key, status in host.feed.statuses if kind == GROUP]


def test_a_group_is_active_when_its_router_is_applied_and_again_after_each_change(host: Host) -> None:
    async def test() -> None:
        host.send_object(GROUP, "group-1", OPEN)
        host.send(router(filtered(1)))
        await host.until(lambda: reported(host) == [("group-1", "ACTIVE")], "not reported")
        assert host.nft.table(NAMESPACE, PATH) is not None
        assert await host.verified()
        host.send(router(filtered(1), name="renamed"))
        await host.role.finish()
        assert len(reported(host)) == 1, "nothing of the group has changed"
        host.send_object(GROUP, "group-1", group(admin_state_up=False, revision=1))
        await host.until(lambda: reported(host)[1:] == [("group-1", "ACTIVE")], "not reported")
        host.send(router(filtered(1, "")))
        await host.until(lambda: host.nft.table(NAMESPACE, PATH) is None, "the table is still there")

    run(host, test)


def test_a_group_that_cannot_be_applied_is_an_error_until_it_is(host: Host) -> None:
    async def test() -> None:
        host.send_object(GROUP, "group-1", OPEN)
        host.send(router(filtered(1)))
        await host.until(lambda: reported(host) == [("group-1", "ACTIVE")], "not reported")
        host.nft.refuses = "th dport 99"
        host.send_object(GROUP, "group-1", group(ingress=(rule(protocol=TCP, dport=99),), revision=1))
        await host.until(lambda: reported(host)[1:] == [("group-1", "ERROR")], "no error is reported")
        assert "th dport 99" in host.problems["r1"]
        assert host.feed.status_details[-1] == (1, host.problems["r1"])
        assert "firewall_egress_group-1" in str(host.nft.table(NAMESPACE, PATH)), "the firewall stays as it was"
        host.nft.refuses = ""
        await host.until(lambda: reported(host)[2:] == [("group-1", "ACTIVE")], "not reported")

    run(host, test)


def test_a_host_has_one_status_of_a_group_that_several_routers_use() -> None:
    feed = Feed()
    reports = StatusReports(feed, "l3")

    def status(revision: int) -> frozenset[ObjectStatus]:
        return frozenset({ObjectStatus(GROUP, "group-1", "ACTIVE", revision)})

    def sent() -> list[tuple[str, int, str]]:
        pairs = [(each[2], *more) for each, more in zip(feed.statuses, feed.status_details, strict=True)]
        feed.statuses.clear()
        feed.status_details.clear()
        return pairs

    reports.applied("r1", status(1))
    reports.applied("r2", status(1))
    assert sent() == [("ACTIVE", 1, "")]
    reports.failed("r2", status(2), "no memory")
    assert sent() == [("ERROR", 2, "no memory")]
    reports.applied("r1", status(2))
    assert sent() == [], "the other router's error stays"
    reports.applied("r2", status(2))
    assert sent() == [("ACTIVE", 2, "")]
    reports.failed("r1", status(2), "another part of the router")
    assert sent() == [], "the group is in force there"
    reports.failed("r2", status(3), "no memory")
    reports.applied("r1", status(3))
    sent()
    reports.forget("r2")
    assert sent() == [("ACTIVE", 3, "")]
    reports.forget("r1")
    assert sent() == [("INACTIVE", 0, "")], "this host has it no more"
    reports.applied("r1", status(3))
    assert sent() == [("ACTIVE", 3, "")], "the server may have deleted what it knew"


def test_a_restarted_agent_changes_nothing_and_reports_again(host: Host) -> None:
    async def first() -> None:
        host.send_object(GROUP, "group-1", OPEN)
        host.send(router(filtered(1)))
        await host.until(lambda: len(reported(host)) == 1, "not reported")

    async def second() -> None:
        await host.until(lambda: len(reported(host)) == 2, "not reported")
        assert len(replaced()) == 1

    def replaced() -> Iterable[Table]:
        return [made for _, made in host.nft.replaced if made.family == "inet"]

    run(host, first)
    host.restart()
    run(host, second)
