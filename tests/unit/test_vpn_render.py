"""VPN in routers: proposals, connections of charon, packets of VICI, rules of nft, and what follows from SAs. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import SNAT
from neutrino.agent.l3.extensions.distributed import snat_table
from neutrino.agent.l3.services.charon.plan import installed, plan, statuses, to_initiate
from neutrino.agent.l3.services.charon.render import connections, ike_proposal, ipsec_proposal, render_charon, served
from neutrino.dataplane.nft.api import Table
from neutrino.dataplane.protocols.vici.protocol import Type, ViciError, ViciPacket, decode, encode
from neutrino.features.vpn.resources import AUTH_ALGORITHMS, ENCRYPTION_ALGORITHMS, PFS_GROUPS
from neutrino.model.routing import Router
from neutrino.model.vpn import IkePolicy, IpsecPolicy, VpnConnection, VpnService
from tests.support.routing import GATEWAY, QG, address, find_rendered, floating, interface, membership, router

SECRET = b"0123456789abcdef"
KERNEL, USERSPACE = L3Options(host="h1"), L3Options(host="h1", vpn_userspace=True)
HERE, THERE = "10.0.1.0/24", "10.9.0.0/24"


def tunnel(key: str = "c1", **values: Any) -> VpnConnection:
    whole = {"peer_address": "198.51.100.7", "peer_id": "198.51.100.7", "psk": "s3cret", **values}
    return VpnConnection(id=key, **{"local_cidrs": (HERE,), "peer_cidrs": (THERE,), **whole})


def with_vpn(*tunnels: VpnConnection, **values: Any) -> Router:
    return router(vpn_services=(VpnService(id="s1", connections=tunnels or (tunnel(),)),), **values)


# --- proposals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "ike", "ipsec"),
    [
        ({}, "aes128-sha256-modp1536", "aes128-sha256-modp1536"),
        (
            {"encryption_algorithm": "aes-256-gcm-16", "auth_algorithm": "sha512", "pfs": "group31"},
            "aes256gcm16-prfsha512-curve25519",
            "aes256gcm16-curve25519",
        ),
        (
            {"encryption_algorithm": "aes-192-ctr", "auth_algorithm": "aes-xcbc", "pfs": "group14"},
            "aes192ctr-aesxcbc-modp2048",
            "aes192ctr-aesxcbc-modp2048",
        ),
    ],
)
def test_proposals(values: dict[str, str], ike: str, ipsec: str) -> None:
    assert ike_proposal(IkePolicy(**values)) == ike  # type: ignore[arg-type]
    assert ipsec_proposal(IpsecPolicy(**values)) == ipsec  # type: ignore[arg-type]


def test_every_algorithm_of_the_api_has_a_name_in_charon() -> None:
    for cipher in ENCRYPTION_ALGORITHMS:
        for auth in AUTH_ALGORITHMS:
            words = ike_proposal(IkePolicy(encryption_algorithm=cipher, auth_algorithm=auth)).split("-")
            assert len(words) == 3
    groups = {ike_proposal(IkePolicy(pfs=group)).split("-")[2] for group in PFS_GROUPS}
    assert len(groups) == len(PFS_GROUPS)
    assert not any(name.startswith("group") for name in groups)
    assert ipsec_proposal(IpsecPolicy(protocol="ah")) == "sha256-modp1536"


# --- connections ------------------------------------------------------------------------------------------------------


def test_a_connection_as_charon_gets_it() -> None:
    ((name, found),) = connections(with_vpn(), SECRET).items()
    assert name.startswith("c1.")
    assert found.key == {"id": name, "type": "IKE", "data": "s3cret", "owners": ["198.51.100.7", "203.0.113.5"]}
    ike = found.connection[name]
    assert (ike["version"], ike["local_addrs"], ike["remote_addrs"]) == ("1", ["203.0.113.5"], ["198.51.100.7"])
    assert ike["local"] == {"auth": "psk", "id": "203.0.113.5"}
    assert ike["remote"] == {"auth": "psk", "id": "198.51.100.7"}
    assert (ike["dpd_delay"], ike["dpd_timeout"]) == ("30s", "120s")
    assert (ike["rekey_time"], ike["over_time"]) == ("3240s", "360s")
    child = ike["children"]["net-0"]
    assert (child["local_ts"], child["remote_ts"], child["mode"]) == ([HERE], [THERE], "tunnel")
    assert (child["rekey_time"], child["life_time"], child["start_action"]) == ("3240s", "3600s", "start")


def test_a_connection_that_only_responds_and_one_without_dead_peer_detection() -> None:
    quiet = tunnel(initiates=False, dpd_action="disabled", local_id="here@example.org", ike=IkePolicy(version=2))
    ((name, found),) = connections(with_vpn(quiet), SECRET).items()
    ike = found.connection[name]
    assert (ike["version"], ike["local"]["id"]) == ("2", "here@example.org")
    assert "dpd_delay" not in ike
    assert ike["children"]["net-0"]["start_action"] == "none"
    assert not found.initiates


def test_ikev1_has_a_child_for_each_pair_of_subnets_and_ikev2_one() -> None:
    both = {"local_cidrs": (HERE, "10.0.2.0/24"), "peer_cidrs": (THERE, "10.8.0.0/24")}
    (one,) = connections(with_vpn(tunnel(**both)), SECRET).values()
    (two,) = connections(with_vpn(tunnel(**both, ike=IkePolicy(version=2))), SECRET).values()
    assert (len(one.children), len(two.children)) == (4, 1)


def test_a_connection_that_changes_in_any_way_has_another_name() -> None:
    names = {
        name
        for values in ({}, {"psk": "t"}, {"dpd_interval": 5}, {"ike": IkePolicy(version=2)}, {"initiates": False})
        for name in connections(with_vpn(tunnel(**values)), SECRET)  # type: ignore[arg-type]
    }
    moved = msgspec.structs.replace(GATEWAY, addresses=(address("203.0.113.6", "203.0.113.0/24"),))
    names |= set(connections(with_vpn(gateway=moved), SECRET)) | set(connections(with_vpn(), b"f" * 16))
    assert len(names) == 7
    assert set(connections(with_vpn(), SECRET)) <= names


def test_which_tunnels_a_host_ends() -> None:
    assert [each.id for each in served(with_vpn())] == ["c1"]
    assert not served(with_vpn(tunnel(admin_state_up=False)))
    assert not served(with_vpn(gateway=None))
    assert not served(with_vpn(tunnel(peer_address="2001:db8::7")))  # the gateway has no such address
    assert not served(with_vpn(distributed=True, centralized=False))
    assert served(with_vpn(distributed=True, centralized=True))


def test_aggressive_mode_is_off_unless_a_policy_asks_for_it() -> None:
    option = "i_dont_care_about_security_and_use_aggressive_mode_psk"
    assert f"{option} = no" in render_charon("/d", with_vpn(), userspace=False)
    asking = with_vpn(tunnel(ike=IkePolicy(aggressive=True)))
    assert f"{option} = yes" in render_charon("/d", asking, userspace=False)
    assert "kernel-libipsec" in render_charon("/d", asking, userspace=True)
    assert "kernel-libipsec" not in render_charon("/d", asking, userspace=False)


def test_keys_are_not_in_representations() -> None:
    assert "s3cret" not in repr(with_vpn())


# --- rules ------------------------------------------------------------------------------------------------------------


def chain(wanted: Router, options: L3Options, name: str, **values: Any) -> tuple[str, ...]:
    found = find_rendered(wanted, options, **values)
    assert found is not None
    tables: tuple[Table, ...] = found.namespace.tables
    return next((each.rules for table in tables for each in table.chains if each.name == name), ())


def test_packets_of_tunnels_keep_their_source_and_never_leave_in_clear() -> None:
    own, between, *_ = chain(with_vpn(), USERSPACE, SNAT.name)
    assert own == "meta mark == 0x42 accept"  # IKE, whose ports stay
    assert between == f"ip saddr {HERE} ip daddr {THERE} accept"
    assert chain(with_vpn(), USERSPACE, "vpn_forward") == (
        f'oifname "{QG}" ip saddr {HERE} ip daddr {THERE} drop',
        f'iifname "{QG}" ip saddr {THERE} ip daddr {HERE} drop',
    )
    assert chain(with_vpn(), KERNEL, "vpn_forward") == (
        f'oifname "{QG}" ip saddr {HERE} ip daddr {THERE} rt ipsec missing drop',
        f'iifname "{QG}" ip saddr {THERE} ip daddr {HERE} meta ipsec missing drop',
    )
    # A connection that is disabled leaks nothing either.
    disabled = with_vpn(tunnel(admin_state_up=False))
    assert chain(disabled, USERSPACE, "vpn_forward") == chain(with_vpn(), USERSPACE, "vpn_forward")
    assert chain(router(), USERSPACE, "vpn_forward") == ()
    assert chain(with_vpn(gateway=None), USERSPACE, "vpn_forward") == ()


def test_several_subnets_and_ipv6() -> None:
    several = tunnel(local_cidrs=("10.0.3.0/24", HERE), peer_cidrs=(THERE, "10.7.0.0/24", "10.7.0.128/25"))
    six = tunnel("c2", local_cidrs=("fd00::/64",), peer_cidrs=("fd01::/64",))
    found = chain(with_vpn(several, six), USERSPACE, "vpn_forward")
    # Prefixes that overlap are joined: nft refuses a set with such.
    assert f'oifname "{QG}" ip saddr {{ {HERE}, 10.0.3.0/24 }} ip daddr {{ 10.7.0.0/24, {THERE} }} drop' in found
    assert f'iifname "{QG}" ip6 saddr fd01::/64 ip6 daddr fd00::/64 drop' in found
    assert not any("ip6" in rule for rule in chain(with_vpn(six), USERSPACE, SNAT.name))


def test_a_distributed_router_sends_nothing_in_clear_on_any_host() -> None:
    here = msgspec.structs.replace(floating(9, "10.0.1.9"), host="h1")
    wanted = with_vpn(
        distributed=True, floating_ips=(here,), agent_gateway=interface(7), snat_interfaces=(interface(3),)
    )
    for kind, device in (("router", "rfp-r1"), ("snat", QG)):
        rules = chain(wanted, USERSPACE, "vpn_forward", kind=kind, link=("169.254.0.1", "169.254.0.0"))
        assert rules[0].startswith(f'oifname "{device}"')


def test_a_distributed_router_sends_packets_to_peers_where_tunnels_end() -> None:
    here = msgspec.structs.replace(floating(9, "10.0.1.9"), host="h1")
    several = tunnel(local_cidrs=("10.0.0.0/16", "10.0.2.128/25"), peer_cidrs=(THERE,))
    wanted = with_vpn(
        several,
        distributed=True,
        floating_ips=(here,),
        agent_gateway=interface(7),
        snat_interfaces=(
            interface(3, address("10.0.1.7", "10.0.1.0/24")),
            interface(4, address("10.0.2.7", "10.0.2.0/24")),
        ),
    )
    ways = {}
    for kind in ("router", "snat"):
        found = find_rendered(wanted, USERSPACE, kind=kind, link=("169.254.0.1", "169.254.0.0"))
        assert found is not None
        rules = [each for each in found.namespace.rules if each.destination]
        ways[kind] = {(each.source, each.destination, each.table) for each in rules}
        floating_rules = [each.priority for each in found.namespace.rules if each.source == "10.0.1.9/32"]
        assert all(each.priority < min(floating_rules) for each in rules)
    one, two = snat_table("10.0.1.0/24"), snat_table("10.0.2.0/24")
    # The local prefix, or the subnet if that is in it.
    own = {("10.0.1.0/24", THERE, one), ("10.0.2.0/24", THERE, two), ("10.0.2.128/25", THERE, two)}
    assert ways == {"router": own, "snat": set()}


def test_routes_of_charon_stay_while_there_are_connections() -> None:
    found, without = find_rendered(with_vpn(), USERSPACE), find_rendered(router(), USERSPACE)
    assert found is not None
    assert without is not None
    assert (found.namespace.others_tables, without.namespace.others_tables) == ({220}, frozenset())
    ha = find_rendered(with_vpn(ha=membership()), USERSPACE)
    assert ha is not None
    assert ha.namespace.others_tables == {220}


# --- plans and statuses -----------------------------------------------------------------------------------------------


def test_connections_are_compared_by_their_names() -> None:
    assert plan(["a.1", "b.1"], ["a.1", "b.2", "c.1"], complete=True) == (("b.2", "c.1"), ("b.1",))
    assert plan(["a.1", "b.1", "d.1"], ["a.1", "b.2", "c.1"], complete=False) == ((), ("d.1",))
    assert plan(["a.1"], ["a.1"], complete=True) == ((), ())


def association(name: str, state: str = "ESTABLISHED", *children: str) -> dict[str, Any]:
    return {name: {"state": state, "child-sas": {c: {"name": c, "state": "INSTALLED"} for c in children}}}


def test_what_is_initiated_again() -> None:
    desired = connections(with_vpn(tunnel("c1"), tunnel("c2"), tunnel("c3", initiates=False)), SECRET)
    one, two, _ = desired
    assert list(to_initiate(desired, [])) == [(one, "net-0"), (two, "net-0")]
    assert list(to_initiate(desired, [association(one, "CONNECTING")])) == [(two, "net-0")]
    assert list(to_initiate(desired, [association(one), association(two, "ESTABLISHED", "net-0")])) == [(one, "net-0")]


def test_statuses_follow_from_tunnels() -> None:
    wanted = with_vpn(tunnel("c1"), tunnel("c2"), tunnel("c3", admin_state_up=False), tunnel("c4"))
    names = installed([association("c1.0", "ESTABLISHED", "net-0"), association("c2.0"), {"c3.0": {}}])
    assert names == {"c1.0"}
    assert statuses(wanted, names, {"c4"}) == {
        ("vpnservice", "s1"): "ACTIVE",
        ("ipsec_site_connection", "c1"): "ACTIVE",
        ("ipsec_site_connection", "c2"): "DOWN",
        ("ipsec_site_connection", "c3"): "DOWN",
        ("ipsec_site_connection", "c4"): "ERROR",
    }
    disabled = with_vpn(tunnel(admin_state_up=False))
    assert statuses(disabled, ["c1.0"]) == {("vpnservice", "s1"): "DOWN", ("ipsec_site_connection", "c1"): "DOWN"}


# --- VICI -------------------------------------------------------------------------------------------------------------


def test_packets_are_read_as_they_were_written() -> None:
    message = {"a": "ü", "several": ["x", ""], "section": {"inner": {"b": "c"}, "none": []}, "empty": {}}
    for sent in (
        ViciPacket(Type.REQUEST, "load-conn", message),
        ViciPacket(Type.RESPONSE, "", message),
        ViciPacket(Type.CONFIRM),
    ):
        raw = encode(sent)
        assert int.from_bytes(raw[:4]) == len(raw) - 4
        assert decode(raw[4:]) == sent


def test_a_packet_of_the_documentation() -> None:
    raw = bytes.fromhex("01 01 01 61 03 01 62 0003 787978 02".replace(" ", ""))
    assert decode(raw) == ViciPacket(Type.RESPONSE, "", {"a": {"b": "xyx"}})


@pytest.mark.parametrize("raw", [b"", b"\x09", b"\x00", b"\x00\x05ab", b"\x01\x03\x01a\x00\x09x", b"\x01\x04\x01a\x01"])
def test_what_is_no_packet_is_refused(raw: bytes) -> None:
    with pytest.raises(ViciError):
        decode(raw)
