"""QoS of routers: which addresses are limited in which namespace, by which rate, and which routers a policy concerns."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from neutrino.agent.config import configuration
from neutrino.agent.l3.config import L3Options, describe
from neutrino.agent.l3.extensions.qos import RouterQos
from neutrino.agent.runtime.service_namespaces import plan_table
from neutrino.configuration.neutron_values import INCLUDED, TABLE
from neutrino.dataplane.nft.api import ChainState, TableState
from neutrino.dataplane.nft.elements import element_from_json, key_of
from neutrino.feed.state import StateChange
from neutrino.model.agents import EXTENSIONS
from neutrino.model.qos import BandwidthLimit, PacketRateLimit, QosPolicy
from neutrino.model.routing import FloatingIp, PortForwarding, Router
from tests.support.routing import GATEWAY, QG, address, floating, interface, membership, rendered, router, table

OPTIONS = L3Options(host="h1")
INGRESS, EGRESS = "qos_ingress_bytes", "qos_egress_bytes"
LINK = ("169.254.64.0", "169.254.64.1")
AGENT_GATEWAY = msgspec.structs.replace(GATEWAY, id="ffffffff-1111-bbbb-cccc-dddddddddddd")


def policy(key: str = "gold", ingress: int = 0, egress: int = 0, burst: int = 0) -> QosPolicy:
    rates = {"ingress": ingress, "egress": egress}
    limits = (BandwidthLimit(direction=d, max_kbps=r, max_burst_kbps=burst) for d, r in rates.items() if r)
    return QosPolicy(id=key, bandwidth_limits=tuple(limits))


GOLD = policy(ingress=1000, egress=2000)


def limited(number: int, key: str = "gold", **values: object) -> FloatingIp:
    return msgspec.structs.replace(floating(number, f"10.0.1.{number}"), qos_policy_id=key, **values)


def forwarding(number: int, key: str = "gold") -> PortForwarding:
    ports = {f"{side}_port_{end}": 80 + number for side in ("external", "internal") for end in ("first", "last")}
    addresses = {"external_ip_address": "203.0.113.30", "internal_ip_address": "10.0.1.9"}
    return PortForwarding(id=f"pf-{number}", protocol="tcp", qos_policy_id=key, **addresses, **ports)  # type: ignore[arg-type]


def sets(wanted: Router, *policies: QosPolicy, **values: object) -> dict[str, set[str]]:
    """The elements of each set of this extension."""
    found = table(rendered(wanted, OPTIONS, policies=policies or (GOLD,), **values))  # type: ignore[arg-type]
    return {each.name: set(each.elements) for each in found.sets if each.name.startswith("qos_")} if found else {}


def addresses(wanted: Router, **values: object) -> set[str]:
    found = sets(wanted, **values)
    assert {key_of(each) for each in found.get(INGRESS, ())} == {key_of(each) for each in found.get(EGRESS, ())}
    return {key_of(each) for each in found.get(INGRESS, ())}


def test_each_direction_has_its_own_limit_at_the_device_towards_the_outside() -> None:
    found = table(rendered(router(floating_ips=(limited(9),)), OPTIONS, policies=(GOLD,)))
    assert found is not None
    assert sets(router(floating_ips=(limited(9),))) == {
        INGRESS: {"203.0.113.9 limit rate over 125000 bytes/second burst 1 bytes"},
        EGRESS: {"203.0.113.9 limit rate over 250000 bytes/second burst 1 bytes"},
    }
    chains = {each.name: each for each in found.chains}
    assert chains["qos_ingress"].rules == (f'iifname "{QG}" ip daddr @{INGRESS} drop',)
    assert chains["qos_egress"].rules == (f'oifname "{QG}" ip saddr @{EGRESS} drop',)
    assert chains["prerouting_dnat"].hook.priority > chains["qos_ingress"].hook.priority, "before the translation"  # type: ignore[union-attr]
    assert chains["postrouting_snat"].hook.priority < chains["qos_egress"].hook.priority, "after it"  # type: ignore[union-attr]


def test_a_policy_with_one_direction_limits_that_one_alone() -> None:
    assert sets(router(floating_ips=(limited(9),)), policy(egress=2000)).keys() == {EGRESS}


@pytest.mark.parametrize(
    "policies",
    [(), (policy(key="other", ingress=1),), (QosPolicy(id="gold", dscp_mark=10),), (policy(ingress=0),)],
    ids=["unknown", "another", "without-limits", "rate-0"],
)
def test_nothing_is_rendered_without_a_limit(policies: tuple[QosPolicy, ...]) -> None:
    plain = rendered(router(floating_ips=(floating(9, "10.0.1.9"),)), OPTIONS)
    wanted = router(floating_ips=(limited(9),), gateway_qos_policy_id="gold")
    assert table(rendered(wanted, OPTIONS, policies=policies)) == table(plain)


@pytest.mark.parametrize(
    ("kbps", "burst_kbps", "expected"),
    [
        (1000, 0, "limit rate over 125000 bytes/second burst 1 bytes"),  # 80 % are in the bucket of one second
        (1000, 500, "limit rate over 125000 bytes/second burst 1 bytes"),
        (1000, 3000, "limit rate over 125000 bytes/second burst 250000 bytes"),
        (64, 0, "limit rate over 8000 bytes/second burst 7000 bytes"),  # room for the first packets of a connection
        (2**31 - 1, 2**31 - 1, "limit rate over 17000000000 bytes/second burst 1000000000 bytes"),
    ],
)
def test_the_burst_is_what_the_bucket_of_one_second_lacks(kbps: int, burst_kbps: int, expected: str) -> None:
    found = sets(router(floating_ips=(limited(9),)), policy(ingress=kbps, burst=burst_kbps))
    assert found == {INGRESS: {f"203.0.113.9 {expected}"}}


def test_packet_rates_are_limited_by_sets_of_their_own() -> None:
    rules = tuple(PacketRateLimit(direction=way, max_kpps=2) for way in ("ingress", "egress"))
    both = msgspec.structs.replace(policy(egress=1000), packet_rate_limits=rules)
    found = sets(router(floating_ips=(limited(9),)), both)
    packets = "203.0.113.9 limit rate over 2000/second burst 1600 packets"
    assert found == {
        EGRESS: {"203.0.113.9 limit rate over 125000 bytes/second burst 1 bytes"},
        "qos_ingress_packets": {packets},
        "qos_egress_packets": {packets},
    }
    none = msgspec.structs.replace(both, bandwidth_limits=(), packet_rate_limits=(PacketRateLimit(max_kpps=0),))
    assert sets(router(floating_ips=(limited(9),)), none) == {}


def test_the_gateways_policy_limits_its_ipv4_addresses() -> None:
    six = address("2001:db8::5", "2001:db8::/64")
    gateway = msgspec.structs.replace(GATEWAY, addresses=(*GATEWAY.addresses, six))
    assert addresses(router(gateway=gateway, gateway_qos_policy_id="gold")) == {"203.0.113.5"}
    assert addresses(router(gateway=None, gateway_qos_policy_id="gold")) == set()


def test_the_floating_ip_of_port_forwardings_has_one_limit() -> None:
    assert addresses(router(port_forwardings=(forwarding(1), forwarding(2)))) == {"203.0.113.30"}


def test_floating_ips_of_one_policy_have_a_bucket_each() -> None:
    assert addresses(router(floating_ips=(limited(9), limited(10)))) == {"203.0.113.9", "203.0.113.10"}


def test_a_standby_host_has_the_limits_too() -> None:
    wanted = router(floating_ips=(limited(9),), gateway_qos_policy_id="gold", ha=membership())
    assert addresses(wanted) == {"203.0.113.5", "203.0.113.9"}


def test_a_distributed_router_limits_each_address_where_it_is_translated() -> None:
    snat = msgspec.structs.replace(interface(1), id="dddddddd-aaaa-bbbb-cccc-dddddddddddd")
    wanted = router(
        interface(1),
        distributed=True,
        snat_interfaces=(snat,),
        agent_gateway=AGENT_GATEWAY,
        gateway_qos_policy_id="gold",
        floating_ips=(limited(9, host="h1"), limited(10)),
        port_forwardings=(forwarding(1),),
    )
    assert addresses(wanted, kind="router", link=LINK) == {"203.0.113.9"}
    assert addresses(wanted, kind="snat", link=LINK) == {"203.0.113.5", "203.0.113.10", "203.0.113.30"}
    local = table(rendered(wanted, OPTIONS, link=LINK, policies=(GOLD,)))
    assert local is not None
    assert {rule for each in local.chains if each.name == "qos_egress" for rule in each.rules} == {
        f'oifname "rfp-r1" ip saddr @{EGRESS} drop'
    }


def test_a_changed_policy_concerns_the_routers_that_use_it() -> None:
    routers = [
        router(id="plain"),
        router(id="fip", floating_ips=(limited(9),)),
        router(id="gateway", gateway_qos_policy_id="gold"),
        router(id="forwarding", port_forwardings=(forwarding(1),)),
        router(id="other", floating_ips=(limited(9, "silver"),)),
    ]
    change = StateChange("qos_policy", "gold", GOLD, policy(ingress=5000))
    assert set(RouterQos().routers_affected(change, routers)) == {"fip", "gateway", "forwarding"}


def test_a_changed_limit_replaces_one_element_and_no_table() -> None:
    several = (*(limited(number) for number in range(10, 20)), limited(9, "silver"))
    before, after = (
        table(rendered(router(floating_ips=several), OPTIONS, policies=(GOLD, policy("silver", ingress=rate))))
        for rate in (3000, 4000)
    )
    assert before is not None
    assert after is not None
    elements = {"rendered": frozenset[str](), **{each.name: each.elements for each in before.sets}}
    chains = {each.name: ChainState(each.hook, each.marks()) for each in before.chains}
    plan = plan_table(after, TableState(before.digest(), chains, elements))
    assert plan.table is None
    assert plan.text().splitlines() == [
        f"remove element {INGRESS} 203.0.113.9 limit rate over 375000 bytes/second burst 1 bytes",
        f"add element {INGRESS} 203.0.113.9 limit rate over 500000 bytes/second burst 1 bytes",
    ]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            {"rate": 1000, "burst": 2, "rate_unit": "kbytes", "burst_unit": "mbytes"},
            "limit rate over 1024000 bytes/second burst 2097152 bytes",
        ),
        ({"rate": 7, "burst": 5}, "limit rate over 7/second burst 5 packets"),
    ],
)
def test_nft_lists_limits_in_the_largest_unit(found: dict[str, object], expected: str) -> None:
    listed = {"elem": {"val": "203.0.113.9", "limit": {"per": "second", "inv": True, **found}}}
    assert element_from_json(listed, "ipv4_addr") == f"203.0.113.9 {expected}"


def test_the_agent_reports_the_extensions_that_it_has_built_in(tmp_path: Path) -> None:
    """Clients look for them: neutron-tempest-plugin tests QoS of floating IPs only if an L3 agent reports `fip_qos`."""
    file = tmp_path / "agent.ini"
    file.write_text("[agent]\nextensions = fip_qos,gateway_ip_qos,port_forwarding\n")
    reported = describe(configuration([str(file)])).configurations[EXTENSIONS]
    included = {name for name, as_here in TABLE["agent", "extensions"].names.items() if as_here == INCLUDED}
    assert {"fip_qos", "gateway_ip_qos", "port_forwarding"} <= set(reported) <= included
