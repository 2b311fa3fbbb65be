"""Trunks: subports, the bindings that follow the parent's, the status that follows from the ports."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from neutrino.features.trunk.status import TrunkStatus
from neutrino.feed.messages import Status
from neutrino.model.objects import Object
from neutrino.model.trunks import trunk_bridge
from neutrino.server.feed.reports.reports import Reports
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api, Response
from tests.api.races import before_next_write

DEAD = "00000000-0000-0000-0000-00000000dead"
VM = {"device_owner": "compute:nova", "device_id": "vm"}


def vlan(port: Object, number: Any, type_: str = "vlan") -> Object:
    return {"port_id": port["id"], "segmentation_type": type_, "segmentation_id": number}


def trunk_on(api: Api, parent: Object, *subports: Object, **values: Any) -> Object:
    return api.make("trunk", port_id=parent["id"], sub_ports=list(subports), **values)


def add(api: Api, trunk: Object, *subports: Object) -> Response:
    return api.put(f"/trunks/{trunk['id']}/add_subports", {"sub_ports": list(subports)})


def remove(api: Api, trunk: Object, *ports: Object) -> Response:
    return api.put(f"/trunks/{trunk['id']}/remove_subports", {"sub_ports": [{"port_id": p["id"]} for p in ports]})


def bind(admin: Api, port: Object, host: str | None) -> Object:
    return admin.change("port", port["id"], binding__host_id=host, **VM)


def places(admin: Api, *ports: Object) -> list[tuple[str, str, str]]:
    shown = [admin.show("port", port["id"]) for port in ports]
    return [(each["binding:host_id"], each["device_owner"], each["binding:vif_type"]) for each in shown]


def wire(server: Server, host: str, *ports: Object) -> None:
    for port in ports:
        server.core.provisioning.complete(port["id"], "L2", host)


@pytest.fixture
def ports(api: Api) -> list[Object]:
    """A parent and three ports for subports, on networks of their own."""
    return [api.port(api.network()) for _ in range(4)]


# --- the resource -----------------------------------------------------------------------------------------------------


def test_a_trunk_with_its_subports(api: Api, ports: list[Object]) -> None:
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent, vlan(one, 10), vlan(two, "11"), name="t", description="d")
    assert trunk["sub_ports"] == [vlan(one, 10), vlan(two, 11)]
    assert (trunk["status"], trunk["admin_state_up"], trunk["revision_number"]) == ("DOWN", True, 0)
    assert api.show("trunk", trunk["id"]) == trunk
    assert api.all("/trunks", {"port_id": parent["id"], "status": "DOWN"}) == [trunk]
    assert api.all("/trunks", {"status": "ACTIVE"}) == []
    assert api.get(f"/trunks/{trunk['id']}/get_subports").expect(200).body == {"sub_ports": trunk["sub_ports"]}
    assert "generation" not in trunk
    api.put(f"/trunks/{trunk['id']}/tags", {"tags": ["blue"]}).expect(200)
    assert [each["id"] for each in api.all("/trunks", {"tags": "blue"})] == [trunk["id"]]
    assert api.as_stranger().all("/trunks") == []
    api.as_stranger().get(f"/trunks/{trunk['id']}/get_subports").refused(404, "TrunkNotFound")
    api.as_reader().get(f"/trunks/{trunk['id']}/get_subports").expect(200)
    add(api.as_reader(), trunk).refused(403, "PolicyNotAuthorized")
    api.delete(f"/trunks/{trunk['id']}").expect(204)
    api.get(f"/trunks/{trunk['id']}").refused(404, "TrunkNotFound")


def test_the_parent_shows_its_subports(api: Api, ports: list[Object]) -> None:
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent, vlan(one, 10))
    add(api, trunk, vlan(two, 11)).expect(200)
    details = {
        "trunk_id": trunk["id"],
        "sub_ports": [{**vlan(p, n), "mac_address": p["mac_address"]} for p, n in ((one, 10), (two, 11))],
    }
    assert api.show("port", parent["id"])["trunk_details"] == details
    assert api.get(f"/ports/{parent['id']}", {"fields": "trunk_details"}).body == {"port": {"trunk_details": details}}
    assert api.change("port", parent["id"], name="parent")["trunk_details"] == details
    listed = {port["id"]: port for port in api.all("/ports")}
    assert listed[parent["id"]]["trunk_details"] == details
    assert "trunk_details" not in listed[one["id"]]
    assert all("trunk_id" not in port for port in listed.values())


@pytest.mark.parametrize(
    ("subport", "status", "type_"),
    [
        ({"port_id": DEAD, "segmentation_type": "vlan", "segmentation_id": 9}, 404, "PortNotFound"),
        ({"port_id": DEAD, "segmentation_type": "inherit"}, 404, "PortNotFound"),
        ({"port_id": "x"}, 400, "HTTPBadRequest"),
        ({}, 400, "HTTPBadRequest"),
        ("x", 400, "HTTPBadRequest"),
        ({"segmentation_type": "vlan"}, 400, "HTTPBadRequest"),
        ({"segmentation_type": "vlan", "segmentation_id": 0, "own": None}, 400, "InvalidInput"),
        ({"segmentation_type": "vlan", "segmentation_id": 4095, "own": None}, 400, "InvalidInput"),
        ({"segmentation_type": "vlan", "segmentation_id": "ten", "own": None}, 400, "InvalidInput"),
        ({"segmentation_type": "vxlan", "segmentation_id": 9, "own": None}, 400, "InvalidInput"),
        ({"segmentation_type": ["vlan"], "segmentation_id": {}, "own": None}, 400, "InvalidInput"),
        ({"own": None}, 400, "InvalidInput"),
    ],
)
def test_refused_subports(api: Api, ports: list[Object], subport: Any, status: int, type_: str) -> None:
    parent, one, two, _ = ports
    if isinstance(subport, dict) and "own" in subport:
        subport = {**subport, "port_id": one["id"]}
    body = {"trunk": {"port_id": parent["id"], "sub_ports": [subport]}}
    assert "sub_ports" in api.post("/trunks", body).refused(status, type_).message or status == 404
    trunk = trunk_on(api, parent, vlan(two, 9))
    api_type = "InvalidInput" if status == 400 else type_  # the body of an action is checked by the plugin
    add(api, trunk, subport).refused(status, api_type)
    assert api.show("trunk", trunk["id"])["sub_ports"] == [vlan(two, 9)]


@pytest.mark.every_database
def test_subports_are_unique(api: Api, ports: list[Object]) -> None:
    parent, one, two, three = ports
    for pair in ((vlan(one, 10), vlan(one, 11)), (vlan(one, 10), vlan(two, 10))):
        body = {"trunk": {"port_id": parent["id"], "sub_ports": list(pair)}}
        api.post("/trunks", body).refused(400, "HTTPBadRequest")
    trunk = trunk_on(api, parent, vlan(one, 10))
    add(api, trunk, vlan(one, 11)).refused(409, "TrunkPortInUse")
    add(api, trunk, vlan(two, 10)).refused(409, "DuplicateSubPort")
    add(api, trunk, vlan(parent, 12)).refused(409, "ParentPortInUse")
    api.post("/trunks", {"trunk": {"port_id": one["id"]}}).refused(409, "TrunkPortInUse")
    api.post("/trunks", {"trunk": {"port_id": parent["id"]}}).refused(409, "ParentPortInUse")
    other = trunk_on(api, two)
    add(api, trunk, vlan(two, 12)).refused(409, "ParentPortInUse")
    add(api, other, vlan(one, 12)).refused(409, "TrunkPortInUse")
    used = api.port(api.network(), device_id="something")
    add(api, trunk, vlan(used, 13)).refused(409, "PortInUse")
    items = {"trunks": [{"port_id": three["id"]}, {"port_id": three["id"]}]}
    api.post("/trunks", items).refused(409, "ParentPortInUse")
    remove(api, trunk, two).refused(404, "SubPortNotFound")
    assert remove(api, trunk, one).expect(200).body["sub_ports"] == []


def test_an_action_takes_so_many_subports(api: Api, ports: list[Object]) -> None:
    trunk = trunk_on(api, ports[0])
    many = [vlan({"id": str(uuid.uuid4())}, number) for number in range(1, 502)]
    assert "at most 500" in add(api, trunk, *many).refused(400, "InvalidInput").message
    for body in (None, [], {}, {"sub_ports": None}, {"trunk": {"sub_ports": []}}):
        api.put(f"/trunks/{trunk['id']}/add_subports", body).refused(400, "InvalidInput")


def test_a_subport_inherits_the_vlan_of_its_network(api: Api, admin: Api, ports: list[Object]) -> None:
    vlans = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    parent = admin.port(admin.network(**vlans))
    network = admin.network(**vlans)
    number = network["provider:segmentation_id"]
    port, tunnelled = admin.port(network), ports[0]
    trunk = trunk_on(admin, parent, {"port_id": port["id"], "segmentation_type": "inherit"})
    assert trunk["sub_ports"] == [vlan(port, number)]
    add(admin, trunk, vlan(tunnelled, None, "inherit")).refused(400, "InvalidInput")
    flat = admin.port(admin.network(provider__network_type="local"))
    add(admin, trunk, vlan(flat, None, "inherit")).refused(400, "InvalidInput")
    other = admin.port(network)
    add(admin, trunk, vlan(other, None, "inherit")).refused(409, "DuplicateSubPort")


def test_a_hidden_vlan_is_not_inherited(api: Api, admin: Api, another_server: Any, tmp_path: Path) -> None:
    vlans = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    parent, subport = (api.port(admin.network(**vlans, shared=True)) for _ in range(2))
    wanted = {"port_id": subport["id"], "segmentation_type": "inherit"}
    api.post("/trunks", {"trunk": {"port_id": parent["id"], "sub_ports": [wanted]}}).refused(403, "PolicyNotAuthorized")
    trunk = trunk_on(api, parent)
    refused = add(api, trunk, wanted).refused(403, "PolicyNotAuthorized")
    assert "get_network:provider:segmentation_id" in refused.message
    assert api.get(f"/trunks/{trunk['id']}/get_subports").expect(200).body["sub_ports"] == []
    add(admin, trunk, wanted).expect(200)
    path = tmp_path / "policy.yaml"
    path.write_text('"get_network:provider:segmentation_id": "rule:admin_or_owner"\n')
    api = Api(another_server({"oslo_policy": {"policy_file": str(path)}}).app)
    mine, theirs = (api.as_admin().network(**vlans, project_id=p, shared=True) for p in (api.project, "p2"))
    trunk = trunk_on(api, api.port(mine))
    add(api, trunk, {**wanted, "port_id": api.port(theirs)["id"]}).refused(403, "PolicyNotAuthorized")
    add(api, trunk, {**wanted, "port_id": api.port(mine)["id"]}).expect(200)


def test_a_subports_packets_fit_into_the_parents_device(api: Api, admin: Api) -> None:
    small, large = api.port(api.network(mtu=1300)), api.port(api.network(mtu=1400))
    body = {"trunk": {"port_id": small["id"], "sub_ports": [vlan(large, 10)]}}
    api.post("/trunks", body).refused(409, "SubPortMtuGreaterThanTrunkPortMtu")
    trunk_on(api, large, vlan(small, 10))


def test_ports_of_a_trunk_are_not_deleted(api: Api, ports: list[Object]) -> None:
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent, vlan(one, 10), vlan(two, 11))
    api.delete(f"/ports/{parent['id']}").refused(409, "PortInUseAsTrunkParent")
    api.delete(f"/ports/{one['id']}").refused(409, "PortInUseAsSubPort")
    remove(api, trunk, one).expect(200)
    api.delete(f"/ports/{one['id']}").expect(204)
    api.delete(f"/trunks/{trunk['id']}").expect(204)
    for port in (parent, two):
        api.delete(f"/ports/{port['id']}").expect(204)


def test_a_disabled_trunk_is_not_changed(api: Api, ports: list[Object]) -> None:
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent, vlan(one, 10), admin_state_up=False)
    add(api, trunk, vlan(two, 11)).refused(409, "TrunkDisabled")
    remove(api, trunk, one).refused(409, "TrunkDisabled")
    api.delete(f"/trunks/{trunk['id']}").refused(409, "TrunkDisabled")
    assert api.change("trunk", trunk["id"], admin_state_up=True)["revision_number"] == 1
    remove(api, trunk, one).expect(200)


def test_the_quota(api: Api, admin: Api, ports: list[Object]) -> None:
    admin.put(f"/quotas/{api.project}", {"quota": {"trunk": 1}}).expect(200)
    trunk = trunk_on(api, ports[0])
    api.post("/trunks", {"trunk": {"port_id": ports[1]["id"]}}).refused(409, "OverQuota")
    api.delete(f"/trunks/{trunk['id']}").expect(204)
    trunk_on(api, ports[1])


def test_ports_that_the_caller_may_not_see(api: Api, admin: Api, ports: list[Object]) -> None:
    stranger = api.as_stranger()
    own = stranger.port(stranger.network())
    stranger.post("/trunks", {"trunk": {"port_id": ports[0]["id"]}}).refused(404, "PortNotFound")
    trunk = trunk_on(stranger, own)
    add(stranger, trunk, vlan(ports[0], 10)).refused(404, "PortNotFound")
    add(admin, trunk, vlan(ports[0], 10)).expect(200)


# --- bindings ---------------------------------------------------------------------------------------------------------


def test_subports_are_bound_with_their_parent(server: Server, api: Api, admin: Api, ports: list[Object]) -> None:
    parent, one, two, three = ports
    for host in ("h1", "h2"):
        switch(server, host)
    trunk = trunk_on(api, parent, vlan(one, 10), vlan(two, 11))
    bound = bind(admin, parent, "h1")
    assert bound["binding:vif_details"]["bridge_name"] == trunk_bridge(trunk["id"]) == f"tbr-{trunk['id'][:10]}"
    assert places(admin, one, two) == [("h1", "trunk:subport", "ovs")] * 2
    shown = admin.show("port", one["id"])
    assert shown["device_id"] == trunk["id"]
    assert shown["binding:vif_details"]["bridge_name"] == "br-int"
    add(api, trunk, vlan(three, 12)).expect(200)
    assert places(admin, three) == [("h1", "trunk:subport", "ovs")]
    assert remove(api, trunk, one).expect(200).body["sub_ports"] == [vlan(two, 11), vlan(three, 12)]
    assert places(admin, one) == [("", "", "unbound")]
    assert admin.show("port", one["id"])["device_id"] == ""
    bind(admin, parent, "h2")
    assert places(admin, two, three) == [("h2", "trunk:subport", "ovs")] * 2
    api.delete(f"/trunks/{trunk['id']}").refused(409, "TrunkInUse")
    admin.change("port", parent["id"], binding__host_id=None, device_owner="", device_id="")
    assert places(admin, two, three) == [("", "trunk:subport", "unbound")] * 2
    api.delete(f"/trunks/{trunk['id']}").expect(204)
    assert places(admin, two, three) == [("", "", "unbound")] * 2
    bind(admin, parent, "h1")
    body = {"trunk": {"port_id": parent["id"]}}
    api.post("/trunks", body).refused(409, "ParentPortInUse")


def test_a_subport_is_filtered_by_the_switch_on_hosts_with_iptables(
    server: Server, api: Api, admin: Api, ports: Any
) -> None:
    switch(server, "h1", ovs_hybrid_plug=True)
    parent, one = ports[:2]
    trunk_on(api, parent, vlan(one, 10))
    assert bind(admin, parent, "h1")["binding:vif_details"]["ovs_hybrid_plug"] is True
    assert admin.show("port", one["id"])["binding:vif_details"]["ovs_hybrid_plug"] is False


def test_a_live_migration_moves_the_subports(server: Server, api: Api, admin: Api, ports: list[Object]) -> None:
    for host in ("h1", "h2"):
        switch(server, host)
    parent, one = ports[:2]
    nova = admin.as_service()
    trunk = trunk_on(api, parent, vlan(one, 10))
    bind(admin, parent, "h1")
    made = nova.post(f"/ports/{parent['id']}/bindings", {"binding": {"host": "h2"}}).expect(201).body["binding"]
    assert made["vif_details"]["bridge_name"] == trunk_bridge(trunk["id"])
    assert places(admin, one) == [("h1", "trunk:subport", "ovs")]
    nova.put(f"/ports/{parent['id']}/bindings/h2/activate", {}).expect(200)
    assert places(admin, one) == [("h2", "trunk:subport", "ovs")]
    nova.delete(f"/ports/{parent['id']}/bindings/h1").expect(204)
    assert places(admin, one) == [("h2", "trunk:subport", "ovs")]
    nova.delete(f"/ports/{parent['id']}/bindings/h2").expect(204)
    assert places(admin, one) == [("", "trunk:subport", "unbound")]


def test_the_status_follows_from_the_ports(server: Server, api: Api, admin: Api, ports: list[Object]) -> None:
    parent, one, two, three = ports
    switch(server, "h1")
    trunk = trunk_on(api, parent, vlan(one, 10), vlan(two, 11))

    def status() -> str:
        shown: str = api.show("trunk", trunk["id"])["status"]
        assert [each["id"] for each in api.all("/trunks", {"status": shown})] == [trunk["id"]]
        return shown

    assert status() == "DOWN"
    bind(admin, parent, "h1")
    assert status() == "DOWN"  # the instance does not run yet
    wire(server, "h1", parent, one)
    assert status() == "BUILD"
    wire(server, "h1", two)
    assert status() == "ACTIVE"
    assert add(api, trunk, vlan(three, 12)).expect(200).body["status"] == "BUILD"
    wire(server, "h1", three)
    assert status() == "ACTIVE"
    admin.change("port", three["id"], binding__host_id="nowhere")
    assert status() == "ERROR"
    unused = api.port(api.network())
    add(api, trunk, vlan(unused, 13)).refused(409, "TrunkInErrorState")
    admin.change("port", three["id"], binding__host_id=None)
    assert status() == "DEGRADED"
    remove(api, trunk, three).expect(200)
    assert status() == "ACTIVE"
    server.core.provisioning.lost(two["id"], "h1")
    assert status() == "BUILD"
    server.core.provisioning.lost(parent["id"], "h1")
    assert status() == "DOWN"


def test_a_host_that_cannot_wire_a_subport(server: Server, api: Api, admin: Api, ports: list[Object]) -> None:
    parent, one, two, _ = ports
    for host in ("h1", "h2"):
        switch(server, host)
    trunk = trunk_on(api, parent, vlan(one, 10), vlan(two, 11))
    bind(admin, parent, "h1")
    wire(server, "h1", parent, one)
    reports = Reports(None, None, server.core.provisioning, {"trunk": TrunkStatus(server.db).take})  # type: ignore[arg-type]

    def report(host: str, status: str) -> str:
        reports.write([(host, [Status(kind="trunk", id=trunk["id"], status=status, reason="no room", role="l2")])])
        shown = api.show("trunk", trunk["id"])
        assert "failed_host" not in shown
        return str(shown["status"])

    assert report("h2", "ERROR") == "BUILD"  # not the parent's host
    assert report("h1", "ERROR") == "DEGRADED"
    assert report("h1", "ACTIVE") == "BUILD"
    assert report("h1", "ERROR") == "DEGRADED"
    wire(server, "h1", two)
    assert api.show("trunk", trunk["id"])["status"] == "ACTIVE"
    bind(admin, parent, "h2")
    wire(server, "h2", parent)
    assert api.show("trunk", trunk["id"])["status"] == "BUILD"  # what the previous host could not do does not count


# --- two requests at once ---------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_subport_that_is_added_while_the_parent_is_bound(
    server: Server, api: Api, admin: Api, ports: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(server, "h1")
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent)
    before_next_write(server, monkeypatch, lambda: bind(admin, parent, "h1"))
    add(api, trunk, vlan(one, 10)).expect(200)
    assert places(admin, one) == [("h1", "trunk:subport", "ovs")]
    before_next_write(server, monkeypatch, lambda: add(api, trunk, vlan(two, 11)).expect(200))
    admin.change("port", parent["id"], binding__host_id=None)
    assert [host for host, _, _ in places(admin, one, two)] == ["", ""]


@pytest.mark.every_database
def test_a_subport_that_is_removed_while_the_parent_is_bound(
    server: Server, api: Api, admin: Api, ports: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(server, "h1")
    parent, one = ports[:2]
    trunk = trunk_on(api, parent, vlan(one, 10))
    before_next_write(server, monkeypatch, lambda: remove(api, trunk, one).expect(200))
    bind(admin, parent, "h1")
    assert places(admin, one) == [("", "", "unbound")]


@pytest.mark.every_database
def test_a_parent_that_is_bound_while_its_trunk_is_created(
    server: Server, api: Api, admin: Api, ports: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(server, "h1")
    one, two = ports[:2]
    before_next_write(server, monkeypatch, lambda: bind(admin, one, "h1"))
    api.post("/trunks", {"trunk": {"port_id": one["id"]}}).refused(409, "ParentPortInUse")
    before_next_write(server, monkeypatch, lambda: trunk_on(api, two))
    assert bind(admin, two, "h1")["binding:vif_details"]["bridge_name"].startswith("tbr-")


@pytest.mark.every_database
def test_a_parent_that_is_bound_while_its_trunk_is_deleted(
    server: Server, api: Api, admin: Api, ports: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(server, "h1")
    one, two = ports[:2]
    trunk = trunk_on(api, one)
    before_next_write(server, monkeypatch, lambda: bind(admin, one, "h1"))
    api.delete(f"/trunks/{trunk['id']}").refused(409, "TrunkInUse")
    other = trunk_on(api, two)
    before_next_write(server, monkeypatch, lambda: api.delete(f"/trunks/{other['id']}").expect(204))
    assert bind(admin, two, "h1")["binding:vif_details"]["bridge_name"] == "br-int"


@pytest.mark.every_database
def test_a_port_does_not_become_a_parent_and_a_subport(
    server: Server, api: Api, ports: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent)
    before_next_write(server, monkeypatch, lambda: trunk_on(api, one))
    add(api, trunk, vlan(one, 10)).refused(409, "ParentPortInUse")
    before_next_write(server, monkeypatch, lambda: add(api, trunk, vlan(two, 11)).expect(200))
    api.post("/trunks", {"trunk": {"port_id": two["id"]}}).refused(409, "TrunkPortInUse")


@pytest.mark.every_database
def test_a_port_that_is_deleted_while_it_becomes_a_subport(
    server: Server, api: Api, ports: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, one, two, _ = ports
    trunk = trunk_on(api, parent)
    before_next_write(server, monkeypatch, lambda: api.delete(f"/ports/{one['id']}").expect(204))
    add(api, trunk, vlan(one, 10)).refused(404, "PortNotFound")
    before_next_write(server, monkeypatch, lambda: add(api, trunk, vlan(two, 11)).expect(200))
    api.delete(f"/ports/{two['id']}").refused(409, "PortInUseAsSubPort")
