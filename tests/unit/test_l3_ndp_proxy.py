"""NDP proxies in routers: neighbours, sysctls and the filter, by the kind of the router and the state of HA."""

from __future__ import annotations

import msgspec

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import render, router_namespaces
from neutrino.agent.runtime.namespaces import DesiredNamespace, plan_namespace
from neutrino.dataplane.netlink.api import DeleteItem, SetItem
from neutrino.dataplane.netlink.values import Device, NamespaceState, ProxyNeighbour, proxy_neighbour
from neutrino.model.routing import NdpProxy, Router
from tests.support.routing import GATEWAY, QG, address, interface, membership, rendered, router, table

OPTIONS = L3Options(host="h1")
INSIDE = "2001:db8:0:2::9"
OUTSIDE = msgspec.structs.replace(
    GATEWAY, addresses=(*GATEWAY.addresses, address("2001:db8:0:1::5", "2001:db8:0:1::/64", address_scope_id="wide"))
)
SAME = interface(1, address("2001:db8:0:2::1", "2001:db8:0:2::/64", address_scope_id="wide"))
OTHER = interface(2, address("fd00::1", "fd00::/64"))
RULE = f'iifname "{QG}" ip6 daddr {{ 2001:db8:0:2::/64 }} ip6 daddr != @ndp_proxied drop'


def proxying(**values: object) -> Router:
    known = {"gateway": OUTSIDE, "enable_ndp_proxy": True, "ndp_proxies": (NdpProxy("p1", INSIDE),), **values}
    return router(SAME, OTHER, **known)


def filters(namespace: DesiredNamespace) -> dict[str, tuple[str, ...]]:
    return {
        chain.name: chain.rules for each in namespace.tables for chain in each.chains if chain.name == "forward_ndp"
    }


def test_a_router_answers_and_lets_only_proxied_addresses_in() -> None:
    found = rendered(proxying(), OPTIONS)
    assert found.namespace.proxies == {proxy_neighbour(QG, INSIDE)}
    assert found.namespace.sysctls[f"net/ipv6/conf/{QG}/proxy_ndp"] == "1"
    assert filters(found.namespace) == {"forward_ndp": (RULE,)}
    six = table(found, "ip6")
    assert six is not None
    assert {each.name: each.elements for each in six.sets}["ndp_proxied"] == {INSIDE}


def test_without_proxies_nobody_is_let_in() -> None:
    found = rendered(proxying(ndp_proxies=()), OPTIONS).namespace
    assert found.proxies == frozenset()
    assert filters(found) == {"forward_ndp": (RULE,)}


def test_a_router_that_has_it_off_or_no_gateway_is_as_before() -> None:
    for values in ({"enable_ndp_proxy": False}, {"gateway": None}):
        found = rendered(proxying(**values), OPTIONS).namespace
        assert not found.proxies
        assert not filters(found)
        assert not any("proxy_ndp" in name for name in found.sysctls)


def test_only_the_active_host_of_an_ha_router_answers() -> None:
    (namespace,) = router_namespaces(proxying(ha=membership()), OPTIONS)
    active, standby = (render(namespace, active=state).namespace for state in (True, False))
    assert active.proxies == {proxy_neighbour(QG, INSIDE)}
    assert standby.proxies == frozenset()
    assert filters(active) == filters(standby) == {"forward_ndp": (RULE,)}


def test_of_a_distributed_router_the_snat_answers() -> None:
    wanted = proxying(distributed=True, snat_interfaces=(SAME,))
    assert rendered(wanted, OPTIONS, kind="snat").namespace.proxies == {proxy_neighbour(QG, INSIDE)}
    assert filters(rendered(wanted, OPTIONS, kind="snat").namespace) == {"forward_ndp": (RULE,)}
    local = rendered(wanted, OPTIONS, kind="router").namespace
    assert not local.proxies
    assert not filters(local)


def test_the_plan_sets_and_removes_proxies() -> None:
    wanted = rendered(proxying(), OPTIONS).namespace
    stale = proxy_neighbour(QG, "2001:db8:0:2::77")
    there = NamespaceState(
        devices={QG: Device(QG)}, proxies=frozenset({stale}), sysctls={"net/ipv6/conf/all/disable_ipv6": "0"}
    )
    changes = plan_namespace(wanted, there).changes
    assert [each for each in changes if isinstance(getattr(each, "item", None), ProxyNeighbour)] == [
        SetItem(proxy_neighbour(QG, INSIDE)),
        DeleteItem(stale),
    ]
    unsynced = plan_namespace(wanted, there, complete=False).changes
    assert DeleteItem(stale) not in unsynced
