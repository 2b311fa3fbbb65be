"""A lab as it comes up by itself has hosts for routers of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lab import open_group, temporary_lab, wait_until
from tests.support.lab_control import Lab
from tests.support.routing_lab import (
    MACHINE,
    SOON,
    active_host,
    external_network,
    hosts_of,
    l3_agent,
    make_router,
    routers_cleaned,
    tenant_network,
    wait_until_reachable,
)

CENTRAL, HOST = {"h1", "h2"}, "h3"  # the hosts that take every kind, and one that takes the distributed part alone


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary_lab() as made:
        for host in made.hosts:
            wait_until(lambda host=host: l3_agent(made, host) is not None, SOON, f"no L3 agent on {host}")  # type: ignore[misc]
        yield made


def test_two_hosts_take_routers_of_every_kind_and_the_others_what_is_distributed(lab: Lab) -> None:
    modes = {host: (l3_agent(lab, host) or {})["configurations"]["agent_mode"] for host in lab.hosts}
    assert modes == {"h1": "dvr_snat", "h2": "dvr_snat", "h3": "dvr"}


@pytest.mark.parametrize(
    "distributed, ha, agents",
    [
        pytest.param(False, False, 1, id="at one place"),
        pytest.param(False, True, 2, id="highly available"),
        pytest.param(True, False, 1, id="distributed"),
        pytest.param(True, True, 2, id="distributed and highly available"),
    ],
)
def test_a_router_of_every_kind_leads_outside(lab: Lab, distributed: bool, ha: bool, agents: int) -> None:
    with routers_cleaned(lab):
        out, blue = external_network(lab), tenant_network(lab, "blue", 1)
        router = make_router(lab, out, blue, distributed=distributed, ha=ha)
        lab.vm("a", network="blue", host=HOST, security_groups=[open_group(lab)], dhcp=False)
        wait_until_reachable(lab, "a", MACHINE, 3 * SOON)
        central = {host for host in hosts_of(lab, router) if host in CENTRAL}
        # A distributed router is also on the host that has the network's DHCP port.
        assert len(central) == agents or (distributed and len(central) > agents)
        if ha:
            assert active_host(lab, router, among=CENTRAL) in CENTRAL
        namespaces = lab.run(HOST, ["ip", "netns"]).stdout
        assert (f"qrouter-{router['id']}" in namespaces) == distributed
