"""Mechanism drivers written for Neutron (tests/drivers/fabric): contexts, hierarchical binding, callbacks, failures."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from neutron_lib.callbacks import registry

from neutrino.errors import RefusedToStart
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.ml2.operations import Operations
from tests.api.agents import switch
from tests.api.client import Api
from tests.drivers.installed import installed


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("drivers"), "fabric"):
        yield


def settings(tmp_path: Path, names: str = "fabric,fabric_leaf,openvswitch", **ml2: str) -> dict[str, Any]:
    return {"ml2": {"mechanism_drivers": names, **ml2}, "fabric": {"path": str(tmp_path / "log")}}


@pytest.fixture
def server(another_server: Callable[..., Server], drivers: None, tmp_path: Path) -> Server:
    registry.clear()  # of drivers of other servers of this process
    made: Server = another_server(
        {**settings(tmp_path, driver_timeout="1"), "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199"}}
    )
    return made


def log(tmp_path: Path, **wanted: Any) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    return [line for line in lines if all(line.get(name) == value for name, value in wanted.items())]


def bare_metal(admin: Api, network: Any, **values: Any) -> Any:
    return admin.port(network, **{"binding:host_id": "node", "binding:vnic_type": "baremetal", **values})


def vlans(server: Server, network: Any) -> list[int]:
    s = t.network_segments.c
    where = s.network_id == network["id"], s.network_type == "vlan"
    with server.db.read() as connection:
        return list(connection.execute(sa.select(s.segmentation_id).where(*where)).scalars())


# --- binding ----------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_port_is_bound_on_two_levels_and_becomes_active(admin: Api, server: Server, tmp_path: Path) -> None:
    network = admin.network(name="racks")
    admin.subnet(network, cidr="192.0.2.0/24", enable_dhcp=False)
    port = bare_metal(admin, network)
    assert port["binding:vif_type"] == "other"
    details = {"connectivity": "l2", "leaf": "1", "bound_drivers": {"0": "fabric", "1": "fabric_leaf"}}
    assert port["binding:vif_details"] == details
    (vlan,) = vlans(server, network)
    assert admin.show("port", port["id"])["status"] == "ACTIVE", "the driver has completed its component"
    (above,) = log(tmp_path, method="bind_port")
    assert [level[0] for level in above["above"]] == ["fabric"]
    (plugged,) = log(tmp_path, method="plug")
    assert (plugged["id"], plugged["subnets"], plugged["network"]) == (port["id"], ["192.0.2.0/24"], "racks")
    (created,) = log(tmp_path, id=port["id"], method="create_port_postcommit")
    bound, active = log(tmp_path, id=port["id"], method="update_port_postcommit")
    assert (created["vif"], created["original_vif"], created["levels"]) == ("unbound", None, [])
    levels = bound["levels"]
    assert [level[:2] for level in levels] == [["fabric", "vxlan"], ["fabric_leaf", "vlan"]]
    assert levels[1][2] == vlan
    assert (bound["vif"], bound["original_vif"], bound["original_levels"]) == ("other", "unbound", [])
    assert (bound["top"], bound["bottom"], bound["host"]) == ("vxlan", "vlan", "node")
    assert (active["status"], active["original_levels"]) == ("ACTIVE", levels)
    assert bound["tenant"] == network["project_id"]


def test_precommits_and_postcommits_come_in_neutrons_order(admin: Api, server: Server, tmp_path: Path) -> None:
    port = bare_metal(admin, admin.network(), name="slow")
    methods = [line["method"] for line in log(tmp_path, id=port["id"]) if line["method"] != "plug"]
    assert methods == [
        *("create_port_precommit", "update_port_precommit"),
        *("create_port_postcommit", "update_port_postcommit"),
    ]
    assert port["status"] == admin.show("port", port["id"])["status"] == "DOWN", "its component is not complete"


@pytest.mark.every_database
def test_unbinding_has_the_levels_that_were_and_the_last_delete_releases_the_segment(
    admin: Api, server: Server, tmp_path: Path
) -> None:
    network = admin.network()
    ports = [bare_metal(admin, network) for _ in range(2)]
    admin.change("port", ports[0]["id"], **{"binding:host_id": ""})
    unbound = log(tmp_path, id=ports[0]["id"], method="update_port_postcommit")[-1]
    assert (unbound["vif"], unbound["original_vif"], unbound["levels"]) == ("unbound", "other", [])
    assert [level[0] for level in unbound["original_levels"]] == ["fabric", "fabric_leaf"]
    admin.change("port", ports[0]["id"], **{"binding:host_id": "elsewhere"})
    again = log(tmp_path, id=ports[0]["id"], method="update_port_precommit")
    assert [line["vif"] for line in again if line["host"] == "elsewhere"][:2] == ["unbound", "other"]
    assert len(vlans(server, network)) == 1
    admin.delete(f"/ports/{ports[0]['id']}").expect(204)
    assert len(vlans(server, network)) == 1, "the other port is on it"
    admin.delete(f"/ports/{ports[1]['id']}").expect(204)
    assert vlans(server, network) == []
    deleted = log(tmp_path, id=ports[1]["id"], method="delete_port_postcommit")[0]
    assert [level[0] for level in deleted["levels"]] == ["fabric", "fabric_leaf"]


def test_a_driver_of_ours_binds_what_a_driver_for_neutron_leaves_to_it(admin: Api, server: Server) -> None:
    switch(server, "h")
    network = admin.network()
    port = admin.port(network, **{"binding:host_id": "h"})
    assert (port["binding:vif_type"], port["status"]) == ("ovs", "DOWN")
    assert server.core.provisioning.complete(port["id"], "L2", "h")
    assert len(vlans(server, network)) == 1


# --- what drivers are told --------------------------------------------------------------------------------------------


def test_networks_subnets_options_and_callbacks(
    admin: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = admin.network()
    admin.subnet(network, cidr="192.0.2.0/24")
    port = admin.port(network, name="told")
    admin.delete(f"/ports/{port['id']}").expect(204)
    (start,) = log(tmp_path, method="initialize")
    assert start["drivers"] == ["fabric", "fabric_leaf", "openvswitch"], "options are read from the server's files"
    assert log(tmp_path, method="create_network_postcommit")[0]["segments"] == ["vxlan"]
    assert log(tmp_path, method="create_subnet_postcommit")[0]["network"] == network["id"]
    events = [line["method"] for line in log(tmp_path, id=port["id"], name="told")]
    assert events == ["precommit_delete", "after_delete"]


def test_a_driver_reads_the_trunk_of_a_port(admin: Api, server: Server, tmp_path: Path) -> None:
    network = admin.network()
    parent = admin.port(network, **{"binding:vnic_type": "baremetal"})
    subport = {"port_id": admin.port(admin.network())["id"], "segmentation_type": "vlan", "segmentation_id": 7}
    trunk = (
        admin.post("/trunks", {"trunk": {"port_id": parent["id"], "sub_ports": [subport]}}).expect(201).body["trunk"]
    )
    admin.change("port", parent["id"], **{"binding:host_id": "node"})
    (line,) = log(tmp_path, method="trunk")
    assert (line["id"], line["details"], line["tags"]) == (trunk["id"], trunk["id"], [7])
    assert line["segments"] == 2, "with the dynamic one"


def test_trunks_that_come_and_go_are_published(admin: Api, server: Server, tmp_path: Path) -> None:
    def trunk(network: Any) -> tuple[str, str]:
        subport = {"port_id": admin.port(admin.network())["id"], "segmentation_type": "vlan", "segmentation_id": 7}
        parent = admin.port(network)
        made = admin.post("/trunks", {"trunk": {"port_id": parent["id"], "sub_ports": [subport]}}).expect(201)
        return made.body["trunk"]["id"], parent["id"]

    def published(key: str) -> list[Any]:
        return [(line["method"], line["port"], line["tags"]) for line in log(tmp_path, id=key) if "port" in line]

    network = admin.network()
    deleted, cascaded = trunk(network), trunk(network)
    admin.delete(f"/trunks/{deleted[0]}").expect(204)
    admin.delete(f"/networks/{network['id']}?cascade=true").expect(204)
    for key, parent in (deleted, cascaded):
        assert published(key) == [("trunk after_create", parent, [7]), ("trunk after_delete", parent, [7])]


def test_objects_have_the_attributes_that_the_api_shows(admin: Api, server: Server, tmp_path: Path) -> None:
    network = admin.network()
    subnet = admin.subnet(network, cidr="192.0.2.0/24")
    port = bare_metal(admin, network)
    for shown, method in (
        (network, "create_network_postcommit"),
        (subnet, "create_subnet_postcommit"),
        (port, "create_port_postcommit"),
        (port, "update_port_postcommit"),
    ):
        line = log(tmp_path, method=method)[0]
        assert sorted(shown.keys() - set(line["keys"])) == [], method


def test_the_options_of_a_driver_are_known(server: Server) -> None:
    assert ("fabric", "path") in server.conf.registered


def test_a_replayed_postcommit_has_the_levels(
    admin: Api, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the postcommit, before it deletes its entry: another one repeats it."""
    port = bare_metal(admin, admin.network())
    monkeypatch.setattr(Operations, "_delete_entries", lambda self, ids: None)
    admin.delete(f"/ports/{port['id']}").expect(204)
    monkeypatch.undo()
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.journal).values(owner=f"{server.conf.host}:1:0"))
    assert server.core.operations.replay() == 1
    calls = log(tmp_path, id=port["id"], method="delete_port_postcommit")
    assert len(calls) == 2
    assert calls[0]["levels"] == calls[1]["levels"] != []


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["update_port_precommit", "update_port_postcommit"])
def test_a_driver_that_raises_refuses_the_port(admin: Api, server: Server, method: str) -> None:
    network = admin.network()
    refused = admin.post("/ports", {"port": {"network_id": network["id"], "name": f"raise-{method}"} | ON_NODE})
    refused.refused(409, "MechanismDriverError")
    assert method in refused.message or "create_port_postcommit" in refused.message
    assert "fabric_leaf" in refused.message
    assert not [port for port in admin.get("/ports").body["ports"] if port["name"].startswith("raise-")]


ON_NODE = {"binding:host_id": "node", "binding:vnic_type": "baremetal"}


@pytest.mark.parametrize("how", ["raise", "hang", "unknown", "session"])
def test_a_driver_that_fails_to_bind_is_named_with_the_port(
    admin: Api, server: Server, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = admin.port(admin.network(), name=f"{how}-bind_port", **ON_NODE)
    assert port["binding:vif_type"] == "binding_failed"
    reason = {
        "raise": "the switch is on fire",
        "hang": "has not returned after 1 s",
        "session": "a session of neutron_lib.db.api, which is not provided",
        "unknown": "the core plugin's sync_everything, which is not provided",
    }[how]
    assert reason in caplog.text
    assert f"driver fabric_leaf, bind_port of {port['id']}" in caplog.text or how == "raise"
    assert port["id"] in caplog.text


def test_a_postcommit_that_hangs_is_given_up(admin: Api, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    port = bare_metal(admin, admin.network())
    changed = admin.put(f"/ports/{port['id']}", {"port": {"name": "hang-update_port_postcommit"}})
    changed.refused(409, "MechanismDriverError")
    assert "fabric_leaf" in changed.message
    assert f"driver fabric_leaf, update_port_postcommit of {port['id']} has not returned" in caplog.text


@pytest.mark.every_database
def test_a_precommit_that_hangs_is_given_up_and_kept_out_of_the_transaction(
    admin: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = bare_metal(admin, admin.network())
    changed = admin.put(f"/ports/{port['id']}", {"port": {"name": "hang-update_port_precommit"}})
    changed.refused(409, "MechanismDriverError")
    assert "update_port_precommit" in changed.message
    assert f"driver fabric_leaf, update_port_precommit of {port['id']} has not returned" in caplog.text
    assert admin.show("port", port["id"])["name"] == "", "nothing is written"
    (driver,) = (one for one in server.core.operations.mechanisms.drivers.values() if one.name == "fabric_leaf")
    driver.wrapped.held.set()
    try:
        deadline = time.monotonic() + 10
        while not log(tmp_path, method="late", id=port["id"]) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        driver.wrapped.held.clear()
    (late,) = log(tmp_path, method="late", id=port["id"])  # calls of other tests may have hung until now too
    assert late["error"].startswith("GivenUp: ")
    assert not [row for row in blocks(server, port["id"]) if row == "LATE"]
    admin.change("port", port["id"], name="again")


def blocks(server: Server, port_id: str) -> list[str]:
    p = t.provisioning_blocks.c
    with server.db.read() as connection:
        return list(connection.execute(sa.select(p.component).where(p.port_id == port_id)).scalars())


@pytest.mark.every_database
def test_a_segment_that_is_allocated_in_a_precommit_is_part_of_its_transaction(
    admin: Api, server: Server, tmp_path: Path
) -> None:
    network = admin.network()
    admin.port(network, name="dynamic")
    (line,) = log(tmp_path, method="precommit segment")
    assert vlans(server, network) == [line["made"]]


@pytest.mark.parametrize("how", ["raise", "hang"])
def test_a_driver_that_does_not_initialise_is_tried_again_unless_it_hangs(
    another_server: Callable[..., Server],
    drivers: None,
    tmp_path: Path,
    how: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "log.how").write_text(how)
    server = another_server(settings(tmp_path, "fabric_starting,openvswitch", driver_timeout="1"))
    server.core.begin()
    assert "mechanism driver fabric_starting is not initialised" in caplog.text
    api = Api(server.app).as_admin()
    refused = api.post("/networks", {"network": {"name": "n"}}).refused(409, "MechanismDriverError")
    assert "fabric_starting" in refused.message
    assert api.get("/networks").body["networks"] == []
    assert not log(tmp_path, method="create_network_precommit"), "it is refused before anything is written"
    reason = {"raise": "RuntimeError: no answer from the controller", "hang": "has not returned after 1 s"}[how]
    mechanisms = server.core.operations.mechanisms
    assert reason in mechanisms.details()["drivers_not_ready"]["fabric_starting"]
    assert mechanisms.measures() == {("fabric_starting",): 1.0}
    server.process.write()
    (found,) = [one for one in api.get("/status").body["status"]["problems"] if one["kind"] == "driver-not-ready"]
    assert f"mechanism driver fabric_starting is not initialised in 1 of 1 processes on {server.conf.host}" in str(
        found
    )
    assert reason in str(found)
    (tmp_path / "log.how").unlink()
    if how == "raise":
        api.network()
        assert log(tmp_path, method="create_network_postcommit", name="starting")
        assert mechanisms.details() == {}
        assert mechanisms.measures() == {("fabric_starting",): 0.0}
    else:
        assert len(log(tmp_path, name="starting")) == 1, "never a second call beside one that has not returned"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("mechanism_drivers", "fabric_broken", "'fabric_broken' cannot be loaded"),
        ("mechanism_drivers", "fabric_rpc", "module neutron.agent of Neutron is not provided to drivers"),
        ("mechanism_drivers", "absent", "no package offers 'absent' as neutrino.ml2.mechanism_drivers or neutron.ml2."),
        ("type_drivers", "fabric_type", "keeps its allocations in Neutron's database"),
    ],
)
def test_a_driver_that_cannot_be_used_refuses_the_start(
    another_server: Callable[..., Server], drivers: None, tmp_path: Path, kind: str, name: str, message: str
) -> None:
    more = {"ml2": {kind: name, **({"project_network_types": name} if kind == "type_drivers" else {})}}
    with pytest.raises((RefusedToStart, ValueError)) as refused:
        another_server({**more, "fabric": {"path": str(tmp_path / "log")}})
    assert message in str(refused.value)


def test_without_neutron_lib_the_start_says_what_to_install(
    another_server: Callable[..., Server], drivers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RefusedToStart, match="needs neutron-lib: pip install 'neutrino\\[neutron-drivers\\]'"):
        another_server(settings(tmp_path))


def test_a_subscription_that_is_never_called_is_logged(
    another_server: Callable[..., Server], drivers: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = another_server(settings(tmp_path))
    with caplog.at_level(logging.WARNING):
        made.core.begin()
    api = Api(made.app).as_admin()
    api.network()
    assert "router_created subscribes to after_create of router, which is never published here" in caplog.text
    assert "neutron" in sys.modules
