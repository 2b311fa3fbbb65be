"""Networks that carry the VLAN tags of instances: `vlan_transparent` and `qinq`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api

VLAN = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
ENABLED = {
    "DEFAULT": {"vlan_transparent": "true", "vlan_qinq": "true"},
    "ml2": {"mechanism_drivers": "openvswitch,l2population"},
}


@pytest.fixture
def tagging(another_server: Callable[..., Server]) -> Server:
    return another_server(ENABLED)


@pytest.fixture
def member(tagging: Server) -> Api:
    return Api(tagging.app)


def aliases(api: Api) -> set[str]:
    return {each["alias"] for each in api.all("/extensions")}


def test_without_the_options_the_attributes_do_not_exist(api: Api) -> None:
    network = api.network()
    assert not network.keys() & {"vlan_transparent", "qinq"}
    assert not api.show("network", network["id"]).keys() & {"vlan_transparent", "qinq"}
    assert not aliases(api) & {"vlan-transparent", "qinq"}
    for name in ("vlan_transparent", "qinq"):
        assert name in api.post("/networks", {"network": {name: True}}).expect(400).message
        api.get("/networks", {name: "true"}).expect(400)
    renamed = api.change("network", network["id"], name="n")
    assert not renamed.keys() & {"vlan_transparent", "qinq"}


@pytest.mark.every_database
def test_they_are_shown_and_filter_lists(member: Api) -> None:
    assert aliases(member) >= {"vlan-transparent", "qinq"}
    plain = member.network()
    assert (plain["vlan_transparent"], plain["qinq"]) == (False, False)
    tagged = member.network(vlan_transparent=True)
    assert member.show("network", tagged["id"])["vlan_transparent"] is True
    stacked = member.as_admin().network(**VLAN, qinq="true")
    assert (stacked["vlan_transparent"], stacked["qinq"]) == (False, True)

    def found(**query: Any) -> set[str]:
        return {each["id"] for each in member.all("/networks", query)}

    assert found(vlan_transparent="true") == {tagged["id"]}
    assert found(qinq="true") == {stacked["id"]}
    assert found(vlan_transparent="false") == {plain["id"], stacked["id"]}
    assert member.all("/networks", {"id": tagged["id"], "fields": "vlan_transparent"}) == [{"vlan_transparent": True}]


def test_they_are_given_once(member: Api) -> None:
    network = member.network(vlan_transparent=True)
    for name in ("vlan_transparent", "qinq"):
        assert name in member.put(f"/networks/{network['id']}", {"network": {name: True}}).expect(400).message
        assert name in member.post("/networks", {"network": {name: "perhaps"}}).expect(400).message
    renamed = member.change("network", network["id"], name="n")
    assert (renamed["name"], renamed["vlan_transparent"]) == ("n", True)


@pytest.mark.parametrize("type_", ["local", "vlan", "vxlan", "gre", "geneve"])
def test_types_that_carry_tags(member: Api, type_: str) -> None:
    provider = VLAN if type_ == "vlan" else {"provider__network_type": type_}
    assert member.as_admin().network(**provider, vlan_transparent=True)["vlan_transparent"] is True


def test_types_that_do_not(member: Api) -> None:
    flat = {"provider:network_type": "flat", "provider:physical_network": "dmz"}
    admin = member.as_admin()
    admin.post("/networks", {"network": {**flat, "vlan_transparent": True}}).refused(400, "VlanTransparencyDriverError")
    for provider in (flat, {"provider:network_type": "vxlan"}, {"provider:network_type": "local"}):
        admin.post("/networks", {"network": {**provider, "qinq": True}}).refused(400, "VlanQinqDriverError")
    segments = [
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1"},
        {"provider:network_type": "vxlan"},
    ]
    admin.post("/networks", {"network": {"segments": segments, "qinq": True}}).refused(400, "VlanQinqDriverError")
    both = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    body = {"network": {**both, "qinq": True, "vlan_transparent": True}}
    assert "qinq" in admin.post("/networks", body).refused(400, "InvalidInput").message
    assert admin.all("/networks") == []


def test_drivers_that_do_not(another_server: Callable[..., Server]) -> None:
    """All configured drivers must support it: any of them may bind a port of the network."""
    enabled = {**ENABLED, "ml2": {"mechanism_drivers": "openvswitch,sriovnicswitch"}}
    admin = Api(another_server(enabled).app).as_admin()
    assert admin.network(vlan_transparent=True)["vlan_transparent"] is True
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    admin.post("/networks", {"network": {**vlan, "qinq": True}}).refused(400, "VlanQinqDriverError")


def test_a_host_with_the_iptables_firewall_has_no_ports_on_it(tagging: Server, member: Api) -> None:
    """iptables does not look into tagged frames: they would pass all security groups."""
    switch(tagging, "hybrid", ovs_hybrid_plug=True)
    switch(tagging, "native")
    admin = member.as_admin()
    for values in ({"vlan_transparent": True}, {**VLAN, "qinq": True}):
        network = admin.network(**values)
        assert admin.port(network, binding__host_id="hybrid")["binding:vif_type"] == "binding_failed"
        assert admin.port(network, binding__host_id="native")["binding:vif_type"] == "ovs"
    assert admin.port(admin.network(), binding__host_id="hybrid")["binding:vif_type"] == "ovs"
