"""Address scopes as rules: for each kind of router, which packets between its devices are dropped."""

from __future__ import annotations

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import FORWARD, MARK, SNAT
from neutrino.model.routing import Delegation, Router, RouterInterface
from tests.support.routing import GATEWAY, QG, address, interface, membership, rendered, router, rules

OPTIONS = L3Options(host="h1", veth=True)
PASS = "ct status & dnat != 0 accept"
QR = [f"qr-{number:08x}-aa" for number in range(5)]
SG = [f"sg-{number:08x}-aa" for number in range(5)]


def scoped(number: int, four: str | None, six: str | None) -> RouterInterface:
    return interface(
        number,
        address(f"10.0.{number}.1", f"10.0.{number}.0/24", address_scope_id=four),
        address(f"fd00:{number}::1", f"fd00:{number}::/64", address_scope_id=six),
    )


def outside(four: str | None, six: str | None) -> RouterInterface:
    own = (
        address("203.0.113.5", "203.0.113.0/24", "203.0.113.1", address_scope_id=four),
        address("2001:db8::5", "2001:db8::/64", "2001:db8::1", address_scope_id=six),
    )
    return msgspec.structs.replace(GATEWAY, addresses=own)


SAME, OTHER, PLAIN = scoped(1, "s", "s6"), scoped(2, "t", "t6"), scoped(3, None, None)
ROUTER = router(SAME, OTHER, PLAIN, gateway=outside("s", "s6"))


def names(*devices: str) -> str:
    return "{ " + ", ".join(f'"{each}"' for each in devices) + " }"


def between(devices: list[str]) -> set[str]:
    """Drop rules between scopes; networks without a scope count as one."""
    return {
        f"iifname {names(devices[1])} oifname {names(devices[2], devices[3])} drop",
        f"iifname {names(devices[2])} oifname {names(devices[1], devices[3])} drop",
        f"iifname {names(devices[3])} oifname {names(devices[1], devices[2])} drop",
    }


def four_outside(devices: list[str], outward: str = "ct state invalid") -> set[str]:
    foreign = names(devices[2], devices[3])
    return {
        f'iifname {foreign} oifname "{QG}" {outward} drop',
        f'iifname "{QG}" oifname {foreign} ct status & snat != 0 accept',
        f'iifname "{QG}" oifname {foreign} drop',
    }


def six_outside(devices: list[str]) -> set[str]:
    foreign = names(devices[2], devices[3])
    return {f'iifname {foreign} oifname "{QG}" drop', f'iifname "{QG}" oifname {foreign} drop'}


@pytest.mark.parametrize("ha", [None, membership()], ids=["centralized", "HA"])
def test_what_a_router_forwards(ha: object) -> None:
    made = rendered(msgspec.structs.replace(ROUTER, ha=ha), OPTIONS)
    assert set(rules(made, FORWARD)) == {PASS, *between(QR), *four_outside(QR)}
    assert set(rules(made, FORWARD, "ip6")) == {PASS, *between(QR), *six_outside(QR)}
    # Of the same devices, an accepting rule precedes the dropping one.
    assert rules(made, FORWARD)[0] == PASS
    assert rules(made, FORWARD)[-2].endswith("accept")


def test_packets_within_the_external_scope_keep_their_source() -> None:
    """By the scope of the device that they came in by, whatever their source."""
    made = rendered(ROUTER, OPTIONS)
    assert f"iifname {names(QR[1])} meta mark set meta mark | 0x10000" in rules(made, MARK)
    leaving = rules(made, SNAT)
    kept = leaving.index(f'oifname "{QG}" meta mark & 0x10000 != 0 accept')
    assert kept < leaving.index("snat ip to 203.0.113.5 fully-random")


def test_without_snat_instances_with_a_floating_ip_reach_the_outside() -> None:
    made = rendered(msgspec.structs.replace(ROUTER, enable_snat=False), OPTIONS)
    assert four_outside(QR, "ip saddr != @fixed_to_floating") < set(rules(made, FORWARD))


def test_a_distributed_router_drops_in_both_namespaces() -> None:
    """Between subnets on each host; to the outside, on the host with the SNAT."""
    central = tuple(msgspec.structs.replace(each, id=each.id.replace("aaaa", "aabb")) for each in (SAME, OTHER, PLAIN))
    this = msgspec.structs.replace(ROUTER, distributed=True, snat_interfaces=central)
    local = rendered(this, OPTIONS)
    assert set(rules(local, FORWARD)) == set(rules(local, FORWARD, "ip6")) == {PASS, *between(QR)}
    snat = rendered(this, OPTIONS, kind="snat")
    assert set(rules(snat, FORWARD)) == {PASS, *between(SG), *four_outside(SG)}
    assert set(rules(snat, FORWARD, "ip6")) == {PASS, *between(SG), *six_outside(SG)}
    assert f"iifname {names(SG[1])} meta mark set meta mark | 0x10000" in rules(snat, MARK)


@pytest.mark.parametrize(
    "this",
    [
        router(PLAIN, scoped(4, None, None), gateway=outside(None, None)),
        router(SAME, scoped(4, "s", "s6"), gateway=outside("s", "s6")),
        router(SAME, gateway=None),
    ],
    ids=["no scopes", "one scope", "alone"],
)
def test_within_one_scope_nothing_is_dropped(this: Router) -> None:
    made = rendered(this, OPTIONS)
    assert rules(made, FORWARD) == rules(made, FORWARD, "ip6") == ()


def test_each_version_has_its_own_scope() -> None:
    made = rendered(router(SAME, scoped(4, "s", "t6"), gateway=outside("s", "s6")), OPTIONS)
    assert rules(made, FORWARD) == ()
    assert any(QR[4] in each for each in rules(made, FORWARD, "ip6"))


def test_a_delegated_prefix_reaches_the_outside() -> None:
    six = PLAIN.addresses[1]
    this = msgspec.structs.replace(ROUTER, delegations=(Delegation(six.subnet_id, six.cidr),))
    assert f'iifname {names(QR[2])} oifname "{QG}" drop' in rules(rendered(this, OPTIONS), FORWARD, "ip6")
