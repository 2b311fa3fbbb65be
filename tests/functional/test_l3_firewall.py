"""Firewall groups on router ports, on real packets: rules, their order, state, changes, failover."""

from __future__ import annotations

import contextlib

import pytest

from neutrino.agent.reply_mac import REPLY_MAC
from neutrino.model.routing import Router
from tests.support.filtered_router import (
    ADDRESSES,
    DUAL_GATEWAY,
    INSIDE,
    OTHER,
    OUTSIDE,
    SILENT,
    FilteredRouter,
    filtered,
    net,
)
from tests.support.firewall import (
    GRE,
    ICMP,
    ICMPV6,
    LOST,
    PASSES,
    REFUSED,
    SCTP,
    SECONDS,
    TCP,
    UDP,
    delivers,
    group,
    rule,
)
from tests.support.routing import floating, membership, router

__all__ = ["net"]  # fixture

EVERYTHING = (rule(), rule(version=6))


def test_without_a_group_everything_passes_and_there_is_no_table(net: FilteredRouter) -> None:
    net.apply(router(filtered(1, ""), filtered(2, ""), gateway=DUAL_GATEWAY))
    assert net.send(OTHER, INSIDE, TCP) == net.send(INSIDE, OUTSIDE, UDP, version=6) == PASSES
    assert "firewall" not in net.run("nft", "list", "ruleset")


def test_default_deny_in_both_directions_and_counted(net: FilteredRouter) -> None:
    net.filter(group())
    assert net.send(OTHER, INSIDE, TCP) == net.send(INSIDE, OTHER, TCP) == LOST
    assert net.send(OUTSIDE, INSIDE, ICMPV6, version=6) == net.send(INSIDE, OUTSIDE, ICMP) == LOST
    assert net.counted("firewall_ingress_group-1") >= 2
    assert net.counted("firewall_egress_group-1") >= 2
    # The other port has no group; the router's own addresses are not filtered.
    assert net.send(OTHER, OUTSIDE, TCP) == PASSES
    assert net.send(INSIDE, OTHER, ICMP, to="10.0.1.1") == PASSES


def test_rules_match_protocol_ports_and_addresses(net: FilteredRouter) -> None:
    net.filter(
        group(
            ingress=(
                rule(protocol=TCP, dport=80),
                rule(protocol=UDP, dport=(5000, 5010)),
                rule(protocol=ICMP, source="10.0.2.0/24"),
                rule(protocol=TCP, dport=443, source=ADDRESSES[OTHER][0], destination=ADDRESSES[INSIDE][0]),
                rule(protocol=TCP, sport=(6000, 6001), dport=22),
                rule(protocol=TCP, dport=80, version=6, source="fd00:2::/64"),
                rule(protocol=ICMPV6, version=6),
            )
        )
    )
    assert net.send(OTHER, INSIDE, TCP, 80) == net.send(OUTSIDE, INSIDE, TCP, 80) == PASSES
    assert net.send(OTHER, INSIDE, TCP, 81) == net.send(OTHER, INSIDE, UDP, 80) == LOST
    assert [net.send(OTHER, INSIDE, UDP, port) for port in (4999, 5000, 5010, 5011)] == [LOST, PASSES, PASSES, LOST]
    assert (net.send(OTHER, INSIDE, ICMP), net.send(OUTSIDE, INSIDE, ICMP)) == (PASSES, LOST)
    assert (net.send(OTHER, INSIDE, TCP, 443), net.send(OUTSIDE, INSIDE, TCP, 443)) == (PASSES, LOST)
    assert [net.send(OTHER, INSIDE, TCP, 22, sport=sport) for sport in (6001, 6002)] == [PASSES, LOST]
    assert net.send(OTHER, INSIDE, TCP, 80, version=6) == PASSES
    assert net.send(OUTSIDE, INSIDE, TCP, 80, version=6) == LOST
    assert net.send(OUTSIDE, INSIDE, ICMPV6, version=6) == PASSES


def test_the_first_rule_that_matches_counts(net: FilteredRouter) -> None:
    deny, allow = rule("deny", TCP, dport=80), rule(protocol=TCP)
    net.filter(group(ingress=(deny, allow)))
    assert (net.send(OTHER, INSIDE, TCP, 80), net.send(OTHER, INSIDE, TCP, 81)) == (LOST, PASSES)
    net.filter(group(ingress=(allow, deny)))
    assert net.send(OTHER, INSIDE, TCP, 80) == PASSES


@pytest.mark.parametrize("version", [4, 6])
def test_reject_answers_and_deny_does_not(net: FilteredRouter, version: int) -> None:
    net.filter(group(ingress=(rule("deny", TCP, version, dport=23), rule("reject", version=version))))
    assert net.send(OTHER, INSIDE, TCP, 23, version=version) == LOST
    assert net.send(OTHER, INSIDE, TCP, 80, version=version) == REFUSED
    assert net.send(OTHER, INSIDE, UDP, 80, version=version) == REFUSED
    assert net.send(OTHER, INSIDE, ICMP if version == 4 else ICMPV6, version=version) == REFUSED


def test_a_packet_between_two_ports_needs_both(net: FilteredRouter) -> None:
    first = group(egress=(rule(protocol=TCP),))
    for dport, outcome in ((8000, PASSES), (8001, LOST)):
        second = group(id="group-2", ingress=(rule(protocol=TCP, dport=dport),))
        net.apply(router(filtered(1), filtered(2, "group-2"), gateway=DUAL_GATEWAY), first, second)
        assert net.send(INSIDE, OTHER, TCP, 8000) == outcome
        assert net.send(OTHER, INSIDE, TCP, 8000) == LOST


def test_a_group_that_is_down_or_unknown_drops_everything(net: FilteredRouter) -> None:
    open_group = group(ingress=EVERYTHING, egress=EVERYTHING)
    net.filter(open_group)
    with net.connection(INSIDE, OTHER) as (here, there):
        assert delivers(here, there)
        net.filter(group(ingress=EVERYTHING, egress=EVERYTHING, admin_state_up=False))
        assert net.send(OTHER, INSIDE, TCP) == net.send(INSIDE, OUTSIDE, ICMP) == LOST
        assert not delivers(here, there)
        assert not delivers(there, here)
    net.apply(router(filtered(1), filtered(2, ""), gateway=DUAL_GATEWAY))
    assert net.send(OTHER, INSIDE, TCP) == LOST


def test_rules_see_addresses_after_dnat_and_before_snat(net: FilteredRouter) -> None:
    fixed, public = ADDRESSES[INSIDE][0], "203.0.113.20"
    net.run("ip", "address", "replace", f"{public}/32", "dev", "qg-eeeeeeee-aa")
    floating_ips = (floating(20, fixed),)
    for destination, outcome in ((fixed, PASSES), (public, LOST)):
        net.filter(group(ingress=(rule(destination=destination),)), floating_ips=floating_ips)
        assert net.send(OUTSIDE, INSIDE, TCP, to=public) == outcome
    for source, outcome in ((fixed, PASSES), (public, LOST)):
        net.filter(group(egress=(rule(source=source),)), floating_ips=floating_ips)
        assert net.send(INSIDE, OUTSIDE, TCP) == outcome
    net.filter(group(ingress=(rule("reject"),)), floating_ips=floating_ips)
    assert net.send(OUTSIDE, INSIDE, TCP, to=public) == net.send(OUTSIDE, INSIDE, UDP, to=public) == REFUSED


@pytest.mark.parametrize("version", [4, 6])
def test_a_change_ends_connections_that_it_forbids_and_no_others(net: FilteredRouter, version: int) -> None:
    """Whichever side sends next: each packet of a connection is filtered again once after a change."""
    web, ssh = rule(protocol=TCP, dport=80, version=version), rule(protocol=TCP, dport=22, version=version)
    for first_sender in ("client", "server"):
        net.filter(group(egress=(web, ssh)))
        with (
            net.connection(INSIDE, OUTSIDE, 80, version) as (web_client, web_server),
            net.connection(INSIDE, OUTSIDE, 22, version) as (ssh_client, ssh_server),
        ):
            assert delivers(web_client, web_server)
            assert delivers(ssh_server, ssh_client)
            net.filter(group(egress=(rule("deny", UDP, version), ssh)))
            if first_sender == "client":
                assert not delivers(web_client, web_server)
                assert delivers(ssh_client, ssh_server)
            assert not delivers(web_server, web_client)
            assert net.counted("firewall_ended" if first_sender == "server" else "firewall_egress_group-1")
            assert delivers(ssh_server, ssh_client)
            assert delivers(ssh_client, ssh_server)


def test_a_group_that_is_added_ends_connections(net: FilteredRouter) -> None:
    net.apply(router(filtered(1, ""), filtered(2, ""), gateway=DUAL_GATEWAY))
    with net.connection(OTHER, INSIDE, 80) as (client, server), net.connection(INSIDE, OTHER, 81) as (own, _):
        net.filter(group(ingress=(rule(protocol=TCP, dport=80),)))
        assert delivers(server, client)
        assert delivers(client, server)
        assert not delivers(own, _)


@pytest.mark.parametrize("ha", [None, membership()], ids=["centralized", "HA"])
def test_a_host_that_takes_over_knows_no_connections_and_follows_the_rules(net: FilteredRouter, ha: object) -> None:
    allowed = group(egress=(rule(protocol=TCP, dport=80),))
    for first_sender in ("client", "server") if ha else ("client",):
        net.filter(group(egress=EVERYTHING), ha=ha)
        with (
            net.connection(INSIDE, OTHER, 80) as (client, server),
            net.connection(INSIDE, OTHER, 81) as (forbidden, their),
        ):
            net.filter(allowed, ha=ha)
            net.run("conntrack", "-F")
            for _ in range(2):  # with and without an entry
                if first_sender == "server":
                    assert delivers(server, client)
                    assert not delivers(their, forbidden)
                assert delivers(client, server)
                assert delivers(server, client)
                assert not delivers(forbidden, their)
                assert not delivers(their, forbidden)
            net.filter(group(egress=(rule("deny", UDP), *allowed.egress)), ha=ha)
            assert delivers(server, client)
            assert delivers(client, server)
    assert net.send(OTHER, INSIDE, TCP, 80) == LOST, "a reply opens no connection"
    assert net.send(OTHER, INSIDE, TCP, 9000, sport=80) == LOST


@pytest.mark.parametrize("taken_over", [False, True])
def test_an_ha_router_cuts_connections_of_one_direction_though_the_other_allows_everything(
    net: FilteredRouter, taken_over: bool
) -> None:
    """A reply of a connection that is forbidden is no opening packet, even where those are allowed."""
    ha = membership()
    net.filter(group(ingress=EVERYTHING, egress=(rule(protocol=TCP, dport=80),)), ha=ha)
    with net.connection(INSIDE, OTHER, 80) as (client, server):
        if taken_over:
            net.run("conntrack", "-F")
        assert delivers(server, client)
        assert delivers(client, server)
        net.filter(group(ingress=EVERYTHING, egress=(rule(protocol=UDP),)), ha=ha)
        assert not delivers(server, client)
        assert not delivers(client, server)


def test_replies_to_udp_pass_and_errors_about_connections(net: FilteredRouter) -> None:
    net.filter(group(egress=(rule(protocol=UDP, dport=53), rule(protocol=ICMP))))
    assert net.send(INSIDE, OUTSIDE, UDP, 53) == PASSES
    assert net.send(INSIDE, OUTSIDE, ICMP) == PASSES
    assert net.send(OUTSIDE, INSIDE, UDP, 5353, sport=53) == LOST
    with net.socket(INSIDE, 2, 2) as here:
        here.connect((ADDRESSES[OUTSIDE][0], 53))
        here.settimeout(1)
        here.send(b"nobody listens")
        with pytest.raises(ConnectionRefusedError):  # port unreachable, from outside
            here.recv(10)


# --- between subnets of a distributed router --------------------------------------------------------------------------


def distributed(first: str = "group-1", second: str = "") -> Router:
    return router(filtered(1, first), filtered(2, second), gateway=DUAL_GATEWAY, distributed=True)


WEB = group(ingress=(rule("deny", ICMP), rule(protocol=TCP, dport=80)), egress=EVERYTHING)
"""What a web server behind the port needs: it may open any connection itself."""
EVERY_PROTOCOL = [(TCP, 4), (TCP, 6), (UDP, 4), (UDP, 6), (ICMP, 4), (ICMPV6, 6), (SCTP, 4), (GRE, 4)]


@pytest.mark.parametrize("kind", ["legacy", "ha", "dvr", "dvr, both directions on one host"])
@pytest.mark.parametrize(("protocol", "version"), EVERY_PROTOCOL)
def test_what_looks_like_a_reply_must_be_one(net: FilteredRouter, kind: str, protocol: int, version: int) -> None:
    """The rules allow everything out: a packet in is the reply to something that they would allow, and was not sent."""
    legacy = router(filtered(1), filtered(2, ""), gateway=DUAL_GATEWAY, ha=membership() if kind == "ha" else None)
    net.apply(distributed() if kind.startswith("dvr") else legacy, WEB)
    net.run("conntrack", "-F")
    with net.untracked() if kind == "dvr" else contextlib.nullcontext():
        assert net.send(OTHER, INSIDE, TCP, 80) == PASSES
        assert net.send_one(OTHER, INSIDE, protocol, version, 5000) == LOST
        assert net.send_one(INSIDE, OTHER, protocol, version, 5000) == PASSES
    if not kind.startswith("dvr"):  # there, the switch has to know
        assert net.send_one(OTHER, INSIDE, protocol, version, 5000, reply=True) == PASSES


@pytest.mark.parametrize(("protocol", "version"), EVERY_PROTOCOL)
def test_a_distributed_router_passes_replies_that_the_switch_has_found(
    net: FilteredRouter, protocol: int, version: int
) -> None:
    net.apply(distributed(), WEB)
    with net.untracked():
        # A TCP segment may be of a connection that the switch has not seen from its start.
        expected = PASSES if protocol == TCP else LOST
        assert net.send_one(OTHER, INSIDE, protocol, version, 5000, reply=True) == expected
        with net.sending_from(OTHER, REPLY_MAC):
            assert net.send_one(OTHER, INSIDE, protocol, version, 5000, reply=True) == PASSES
            net.apply(distributed(), group(ingress=WEB.ingress))
            assert net.send_one(OTHER, INSIDE, protocol, version, 5000, reply=True) == LOST, "of what is forbidden now"


def test_between_subnets_of_a_distributed_router_rules_decide(net: FilteredRouter) -> None:
    allowed = group(egress=(rule(protocol=TCP, dport=80), rule(protocol=UDP, dport=53), rule(version=6)))
    net.apply(distributed(), allowed)
    with net.untracked(), net.sending_from(OTHER, REPLY_MAC):
        assert (net.send(INSIDE, OTHER, TCP, 80), net.send(INSIDE, OTHER, TCP, 81)) == (PASSES, LOST)
        assert net.send(OTHER, INSIDE, TCP, 81, sport=80) == LOST, "a reply opens no connection"
        assert (net.send(INSIDE, OTHER, UDP, 53), net.send(INSIDE, OTHER, UDP, 54)) == (PASSES, LOST)
        assert net.send(OTHER, INSIDE, ICMP) == LOST
        assert net.send(INSIDE, OTHER, ICMPV6, version=6) == PASSES
        with net.connection(INSIDE, OTHER, 80) as (client, server):
            assert delivers(client, server)
            assert delivers(server, client)
            net.apply(distributed(), group(egress=(rule(protocol=UDP),)))
            assert not delivers(server, client)
            assert not delivers(client, server)
        net.apply(distributed(), group(egress=allowed.egress, admin_state_up=False))
        assert net.send(INSIDE, OTHER, ICMPV6, version=6) == LOST


def test_errors_between_subnets_of_a_distributed_router_are_about_connections(net: FilteredRouter) -> None:
    net.apply(distributed(), group(egress=(rule(protocol=UDP, dport=53),)))

    def is_refused() -> bool:
        with net.socket(INSIDE, 2, 2) as here:
            here.connect((ADDRESSES[OTHER][0], 53))
            here.settimeout(SECONDS)
            here.send(b"no listener")
            try:
                here.recv(10)
            except ConnectionRefusedError:
                return True
            except TimeoutError:
                return False
        raise AssertionError("an answer")

    with net.untracked():
        assert not is_refused(), "an error about nothing"
        with net.sending_from(OTHER, REPLY_MAC):
            assert is_refused()
            net.apply(distributed(), group(egress=(rule(protocol=UDP, dport=53),), admin_state_up=False))
            assert not is_refused()


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("kind", ["legacy", "dvr"])
def test_an_address_of_another_subnet_opens_no_connection(net: FilteredRouter, kind: str, version: int) -> None:
    """A sender without port security: with a packet of the other side to itself, which is routed back to its subnet."""
    net.apply(distributed() if kind == "dvr" else router(filtered(1), filtered(2, ""), gateway=DUAL_GATEWAY), WEB)
    net.run("conntrack", "-F")
    forged = SILENT[INSIDE][version == 6]
    net.send_one(OTHER, OTHER, UDP, version, 5000, source=forged)
    assert net.send_one(OTHER, INSIDE, UDP, version, 5000, reply=True) == LOST
    assert net.counted("firewall_invalid")
