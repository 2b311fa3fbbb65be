"""Desired state and plan of the metadata proxy's listeners."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import served_network
from neutrino.agent.metadata.desired import (
    NotServable,
    plan_listeners,
    render_instance,
    render_network,
    render_router,
)
from neutrino.agent.metadata.messages import ANY_DEVICE, Listener, Sources
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import FixedIp
from tests.support import metadata
from tests.support.metadata import HOST, dhcp_port
from tests.support.routing import address, interface

ISOLATED = DhcpSettings(HOST, "/dhcp", enable_isolated_metadata=True)


def listener_of(
    network: DhcpNetwork, *ports: DhcpPort, settings: DhcpSettings = ISOLATED, known: Sequence[DhcpPort] = ()
) -> Listener | None:
    return render_network(served_network(network, (dhcp_port(network.id), *ports), HOST), settings, known)


def router_port(network: DhcpNetwork, router: str, subnet: int = 0) -> DhcpPort:
    made = metadata.port(network.id, 3, device_owner="network:router_interface", device_id=router)
    fixed = FixedIp(network.subnets[subnet].id, network.subnets[subnet].gateway_ip or "")
    return DhcpPort(
        id=f"port of {router}",
        network_id=network.id,
        mac_address=made.mac_address,
        device_id=router,
        device_owner=made.device_owner,
        fixed_ips=(fixed,),
    )


def test_an_isolated_network_is_served_where_its_address_is() -> None:
    network = metadata.network("n1")
    assert listener_of(network) == Listener(Sources({ANY_DEVICE: "n1"}), 80, "169.254.169.254")
    assert listener_of(network, settings=DhcpSettings(HOST, "/dhcp")) is None, "enable_isolated_metadata is off"
    assert render_network(served_network(network, (), HOST), ISOLATED, ()) is None, "DHCP is not served here"


def test_ipv6_where_there_is_a_subnet_of_it() -> None:
    listener = listener_of(metadata.network("n1", "10.0.0.0/24", "fd00::/64"))
    assert listener is not None
    assert listener.ipv6


def test_a_network_whose_gateway_is_a_router_is_not_isolated() -> None:
    network = metadata.network("n1", gateway_ip="10.0.0.1")
    assert listener_of(network, router_port(network, "r1")) is None
    forced = dataclasses.replace(ISOLATED, force_metadata=True)
    assert listener_of(network, router_port(network, "r1"), settings=forced) is not None


def test_a_metadata_network_serves_the_networks_of_its_router() -> None:
    settings = dataclasses.replace(ISOLATED, enable_metadata_network=True)
    network = metadata.network("m1", "169.254.169.240/28", gateway_ip="169.254.169.241")
    assert network.project_id == "project-1"
    here = router_port(network, "r1")
    others = [
        router_port(metadata.network(name), router) for name, router in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"))
    ]
    listener = listener_of(network, here, settings=settings, known=[here, *others])
    assert listener is not None
    assert listener.sources == Sources({ANY_DEVICE: "m1"}, ("n1", "n2"), "project-1"), "instances of its own project"
    alone = listener_of(network, settings=settings, known=others)
    assert alone is not None
    assert alone.sources.routed == ()
    with pytest.raises(NotServable, match="2 routers"):
        listener_of(network, here, router_port(network, "r2"), settings=settings)


def test_a_router_is_served_for_its_internal_networks() -> None:
    router = Router(id="r1", interfaces=(interface(2), interface(1)))
    links = {"qr-00000001-aa": "net-1", "qr-00000002-aa": "net-2"}
    assert render_router(router, 9697) == Listener(Sources(links), 9697)
    assert render_router(router, 0) is None, "enable_metadata_proxy is off"
    assert render_router(Router(id="r1"), 9697) is None, "it has no interface"
    assert render_router(Router(id="r1", interfaces=(interface(1),), admin_state_up=False), 9697) is None
    six = Router(id="r1", interfaces=(interface(1, address("fd00::1", "fd00::/64")),))
    assert render_router(six, 9697) == Listener(Sources({"qr-00000001-aa": "net-1"}), 9697, ipv6=True)


def test_only_ports_of_instances_are_served() -> None:
    port = metadata.port("n1", 5, "10.0.0.5", "FD00:0::5")
    found = render_instance(port)
    assert found is not None
    assert found.addresses == ("10.0.0.5", "fd00::5"), "as the kernel writes them"
    assert (found.instance_id, found.project_id) == (port.device_id, "project-1")
    assert render_instance(metadata.port("n1", 5, "10.0.0.5", device_id="")) is None
    assert render_instance(dhcp_port("n1")) is None


# --- plans ------------------------------------------------------------------------------------------------------------

ONE = Sources({"qr-1": "n1"})
DESIRED = Listener(ONE, 9697)
RIGHT = Listener(ONE, 9697, inode=7)


def test_a_listener_as_desired_is_left() -> None:
    plan = plan_listeners({"qrouter-r1": DESIRED}, {"qrouter-r1": RIGHT}, {"qrouter-r1": 7})
    assert plan.text() == ""


@pytest.mark.parametrize(
    ("found", "inode"),
    [(None, 7), (RIGHT, 8), (replace(RIGHT, port=9698), 7), (replace(RIGHT, ipv6=True), 7)],
)
def test_missing_and_outdated_sockets_are_opened(found: Listener | None, inode: int) -> None:
    actual = {"qrouter-r1": found} if found is not None else {}
    plan = plan_listeners({"qrouter-r1": DESIRED}, actual, {"qrouter-r1": inode})
    assert (plan.open, plan.close, plan.sources) == ({"qrouter-r1": replace(DESIRED, inode=inode)}, (), {})


def test_other_sources_keep_the_sockets() -> None:
    sources = Sources({"qr-1": "n1", "qr-2": "n2"})
    plan = plan_listeners({"qrouter-r1": Listener(sources, 9697)}, {"qrouter-r1": RIGHT}, {"qrouter-r1": 7})
    assert (plan.open, plan.sources) == ({}, {"qrouter-r1": replace(RIGHT, sources=sources)})


def test_sockets_in_a_deleted_namespace_are_closed() -> None:
    actual = {"qrouter-r1": RIGHT, "qdhcp-n9": RIGHT}
    plan = plan_listeners({"qrouter-r1": DESIRED}, actual, {"qrouter-r1": None})
    assert (plan.open, plan.close, plan.missing) == ({}, ("qdhcp-n9", "qrouter-r1"), ("qrouter-r1",))
