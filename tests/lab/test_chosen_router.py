"""A floating IP on a router that is two hops from its port: packets pass both routers, each way."""

from __future__ import annotations

import pytest

from neutrino.lab.api_client import ApiError
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Spec, make_group, make_guests
from tests.support.lab_trace import trace
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    connect,
    external_network,
    floating_ip,
    make_router,
    tenant_network,
    wait_until_reachable,
    wait_until_unreachable,
)


def interface_on(lab: Lab, router: Object, network: Object) -> str:
    (port,) = lab.api.list("port", device_id=router["id"], network_id=network["id"])
    return str(port["fixed_ips"][0]["ip_address"])


def add_interface(lab: Lab, router: Object, network: Object) -> None:
    port = lab.api.create("port", network_id=network["id"])
    lab.api.request("PUT", f"/v2.0/routers/{router['id']}/add_router_interface", {"port_id": port["id"]})


def test_by_way_of_a_transit_network(lab: Lab) -> None:
    out = external_network(lab)
    inner_net, transit = (tenant_network(lab, name, n, six=False) for name, n in (("inner", 1), ("transit", 2)))
    inner = make_router(lab, None, inner_net, name="inner")
    outer = make_router(lab, out, transit, name="outer")
    add_interface(lab, inner, transit)
    to_outer, to_inner = interface_on(lab, outer, transit), interface_on(lab, inner, transit)
    lab.api.update("router", inner["id"], routes=[{"destination": "0.0.0.0/0", "nexthop": to_outer}])
    lab.api.update("router", outer["id"], routes=[{"destination": "10.0.1.0/24", "nexthop": to_inner}])
    group, _ = make_group(lab, "open", *EVERYTHING)
    (guest,) = make_guests(lab, Spec("guest", inner_net, "h2", [group]))
    with pytest.raises(ApiError):
        floating_ip(lab, out, guest.port_id)
    made = floating_ip(lab, out, guest.port_id, router_id=outer["id"])
    assert made["router_id"] == outer["id"]
    address = made["floating_ip_address"]
    wait_until_reachable(lab, EXTERNAL, address)
    with connect(lab, EXTERNAL, guest.name, address) as inward:
        assert inward.peer == MACHINE
    with connect(lab, guest.name, EXTERNAL, MACHINE) as outward:
        assert outward.peer == address
    for values in (
        {"source": "external", "destination_address": address},
        {"source_port_id": guest.port_id, "destination_address": MACHINE},
    ):
        found = trace(lab, protocol="icmp", **values)
        assert found["verdict"] == "delivered", found
    lab.api.update("floatingip", made["id"], port_id=None)
    wait_until_unreachable(lab, EXTERNAL, address)
