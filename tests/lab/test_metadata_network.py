"""A metadata network: VMs behind a router without metadata ask through a network of 169.254.0.0/16, on any host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.model.roles import USUAL
from tests.support.lab import network, open_group, wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.lab_metadata import IDENTITY, curl, wait_for_metadata
from tests.support.routing_lab import (
    SOON,
    attach,
    detach,
    host_of,
    move_router,
    wait_until_no_drift,
)

LAB = LabKind(
    hosts=2,
    roles=USUAL,
    agent="""[DEFAULT]
enable_isolated_metadata = true
enable_metadata_network = true
enable_metadata_proxy = false
""",
)


@pytest.fixture(autouse=True)
def clean_lab(lab: Lab) -> Iterator[None]:
    with cleaned(lab):
        yield


def subnet_of(lab: Lab, name: str) -> dict[str, str]:
    (subnet,) = lab.api.list("subnet", network_id=lab.api.find("network", name)["id"])
    return subnet


def test_whoever_is_behind_its_router_is_answered_there(lab: Lab) -> None:
    open_group(lab)
    network(lab, "service", ["169.254.169.240/28"], enable_dhcp=True)
    router = lab.api.create("router", name="r1")
    attach(lab, router, subnet_of(lab, "service"))
    for number, name in enumerate(("green", "yellow")):
        network(lab, name, [f"10.0.{number}.0/24"])
        attach(lab, router, subnet_of(lab, name))
        lab.vm(name, network=name, host=f"h{number + 1}", security_groups=["open"])
    (agent,) = lab.api.request("GET", f"/v2.0/networks/{lab.api.find('network', 'service')['id']}/dhcp-agents")[
        "agents"
    ]
    served = agent["host"]
    for host in lab.hosts:  # with the router on the same host, and on another one
        if host_of(lab, router) != host:
            move_router(lab, router, host)
        for name in ("green", "yellow"):
            wait_for_metadata(lab, name, SOON)
    wait_until_no_drift(lab, served)

    detach(lab, router, subnet_of(lab, "yellow"))
    attach(lab, router, subnet_of(lab, "yellow"))
    wait_for_metadata(lab, "yellow", SOON)
    assert curl(lab, "green", IDENTITY)[0] == 200


def test_several_routers_on_it_are_refused_and_one_is_served_again(lab: Lab) -> None:
    open_group(lab)
    network(lab, "service", ["169.254.169.240/28"], enable_dhcp=True)
    network(lab, "green", ["10.0.0.0/24"])
    router = lab.api.create("router", name="r1")
    for name in ("service", "green"):
        attach(lab, router, subnet_of(lab, name))
    lab.vm("green", network="green", host="h1", security_groups=["open"])
    wait_for_metadata(lab, "green", SOON)

    def problems() -> str:
        agents = lab.api.list("agent", agent_type="Metadata agent")
        return " ".join(str(agent["configurations"].get("problems", "")) for agent in agents)

    second = lab.api.create("router", name="r2")
    service = lab.api.find("network", "service")
    port = lab.api.create("port", network_id=service["id"], name="second")
    lab.api.request("PUT", f"/v2.0/routers/{second['id']}/add_router_interface", {"port_id": port["id"]})
    wait_until(lambda: "has 2 routers, and may have one" in problems(), SOON, "the problem is not reported")
    lab.api.request("PUT", f"/v2.0/routers/{second['id']}/remove_router_interface", {"port_id": port["id"]})
    wait_until(lambda: "routers" not in problems(), SOON, "the problem is still reported")
    wait_for_metadata(lab, "green", SOON)
