"""Drivers that fail: a failed precommit rolls back, a failed postcommit deletes a new object and is logged otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.client import Api
from tests.drivers.installed import installed
from tests.faults import integrity

on_sqlite = pytest.mark.parametrize(
    "database", ["sqlite"], indirect=True
)  # the order of calls, not what a database does


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both test drivers on the Python path."""
    with installed(tmp_path_factory.mktemp("drivers"), "logger", "faulty"):
        yield


@pytest.fixture
def drivers(both: None, tmp_path: Path) -> Path:
    """The directory that controls the failing driver."""
    directory = tmp_path / "faults"
    directory.mkdir()
    return directory


@pytest.fixture
def faulty(another_server: Any, drivers: Path, tmp_path: Path) -> Server:
    made: Server = another_server(
        {
            "ml2": {"mechanism_drivers": "openvswitch,logger,faulty"},
            "ml2_logger": {"path": str(tmp_path / "log")},
            "ml2_faulty": {"directory": str(drivers)},
        }
    )
    return made


def rows(server: Server, table: sa.Table) -> int:
    with server.db.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


@on_sqlite
def test_a_driver_is_notified_of_every_operation(faulty: Server, tmp_path: Path) -> None:
    api = Api(faulty.app)
    network = api.network()
    subnet = api.subnet(network)
    port = api.port(network)
    api.change("port", port["id"], name="x")
    for path in (f"/ports/{port['id']}", f"/subnets/{subnet['id']}", f"/networks/{network['id']}"):
        api.delete(path).expect(204)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    calls = [(line["phase"], line["operation"], line["kind"], line["id"]) for line in lines]
    expected = [
        ("create", "network", network["id"]),
        ("create", "subnet", subnet["id"]),
        ("create", "port", port["id"]),
        ("update", "port", port["id"]),
        ("delete", "port", port["id"]),
        ("delete", "subnet", subnet["id"]),
        ("delete", "network", network["id"]),
    ]
    assert calls == [(phase, *one) for one in expected for phase in ("precommit", "postcommit")]
    assert all(line["in_transaction"] == (line["phase"] == "precommit") for line in lines)
    assert lines[0]["segments"] == ["vxlan"]
    assert rows(faulty, t.journal) == 0


BODIES: dict[str, dict[str, Any]] = {"network": {}, "subnet": {"ip_version": 4, "cidr": "10.9.0.0/24"}, "port": {}}


@pytest.mark.parametrize("kind", ["network", "subnet", "port"])
@pytest.mark.parametrize("phase", ["precommit", "postcommit"])
def test_a_create_that_a_driver_fails_leaves_nothing(faulty: Server, drivers: Path, kind: str, phase: str) -> None:
    api = Api(faulty.app)
    network = api.network()
    api.subnet(network)
    kept = ("changes", "quota_usages")  # the change log keeps the rolled back create, and a counter of zero stays
    before = {table.name: rows(faulty, table) for table in t.metadata.sorted_tables if table.name not in kept}
    (drivers / f"fail-create_{kind}_{phase}").touch()
    body = {**BODIES[kind], **({} if kind == "network" else {"network_id": network["id"]})}
    answer = api.post(f"/{kind}s", {kind: body})
    assert answer.status >= 400
    assert phase == "precommit" or answer.error == "MechanismDriverError"
    assert {name: rows(faulty, t.metadata.tables[name]) for name in before} == before
    integrity.check(faulty.db)
    (drivers / f"fail-create_{kind}_{phase}").unlink()
    api.post(f"/{kind}s", {kind: body}).expect(201)


@on_sqlite
def test_a_failed_bulk_create_leaves_nothing(faulty: Server, drivers: Path) -> None:
    api = Api(faulty.app)
    network = api.network()
    (drivers / "fail-create_port_postcommit").touch()
    api.post("/ports", {"ports": [{"network_id": network["id"]}] * 3}).refused(409, "MechanismDriverError")
    assert api.all("/ports") == []
    integrity.check(faulty.db)


@on_sqlite
@pytest.mark.parametrize("kind", ["network", "subnet", "port"])
def test_a_failed_postcommit_of_an_update_is_logged(faulty: Server, drivers: Path, kind: str) -> None:
    api = Api(faulty.app)
    network = api.network()
    one = {"network": network, "subnet": api.subnet(network), "port": api.port(network)}[kind]
    path = f"/{kind}s/{one['id']}"
    (drivers / f"fail-update_{kind}_postcommit").touch()
    api.put(path, {kind: {"name": "new"}}).refused(409, "MechanismDriverError")
    assert api.show(kind, one["id"])["name"] == "new"
    for port in api.all("/ports"):
        if kind != "port":
            api.delete(f"/ports/{port['id']}").expect(204)
    (drivers / f"fail-delete_{kind}_postcommit").touch()
    api.delete(path).refused(409, "MechanismDriverError")
    api.get(path).expect(404)
    integrity.check(faulty.db)


@on_sqlite
@pytest.mark.parametrize("kind", ["network", "subnet", "port"])
def test_a_failed_precommit_of_an_update_rejects_it(faulty: Server, drivers: Path, kind: str) -> None:
    api = Api(faulty.app)
    network = api.network()
    one = {"network": network, "subnet": api.subnet(network), "port": api.port(network)}[kind]
    path = f"/{kind}s/{one['id']}"
    written = rows(faulty, t.changes)
    (drivers / f"fail-update_{kind}_precommit").touch()
    assert api.put(path, {kind: {"name": "new"}}).status >= 400
    assert api.show(kind, one["id"])["name"] == ""
    assert rows(faulty, t.changes) == written
    integrity.check(faulty.db)


@on_sqlite
def test_an_unknown_driver_is_rejected_by_name(another_server: Any) -> None:
    with pytest.raises(ValueError, match="kitchen"):
        another_server({"ml2": {"mechanism_drivers": "kitchen"}})


def test_failed_ports_of_routers_are_rolled_back(faulty: Server, drivers: Path) -> None:
    """The object that the port was created for is rolled back with it: router, gateway, interface, floating IP."""
    admin = Api(faulty.app).as_admin()
    outside = admin.network(router__external=True)
    admin.subnet(outside, "172.24.0.0/24", enable_dhcp=False)
    inside = admin.network()
    subnet = admin.subnet(inside)
    router = admin.make("router")
    gateway = {"external_gateway_info": {"network_id": outside["id"]}}
    fault = drivers / "fail-create_port_postcommit"
    fault.touch()
    admin.post("/routers", {"router": gateway}).refused(409, "MechanismDriverError")
    admin.put(f"/routers/{router['id']}", {"router": gateway}).refused(409, "MechanismDriverError")
    attach = f"/routers/{router['id']}/add_router_interface"
    admin.put(attach, {"subnet_id": subnet["id"]}).refused(409, "MechanismDriverError")
    floating = {"floatingip": {"floating_network_id": outside["id"]}}
    admin.post("/floatingips", floating).refused(409, "MechanismDriverError")
    assert [r["id"] for r in admin.all("/routers")] == [router["id"]]
    assert admin.show("router", router["id"])["external_gateway_info"] is None
    assert (admin.all("/ports"), admin.all("/floatingips")) == ([], [])
    integrity.check(faulty.db)
    fault.unlink()
    admin.put(f"/routers/{router['id']}", {"router": gateway}).expect(200)
    admin.put(attach, {"subnet_id": subnet["id"]}).expect(200)
    integrity.check(faulty.db)


def test_failed_gateways_of_a_router_are_rolled_back_alone(faulty: Server, drivers: Path) -> None:
    """The gateways that a router had before stay, in their order."""
    admin = Api(faulty.app).as_admin()
    outside = admin.network(router__external=True)
    admin.subnet(outside, "172.24.0.0/24", enable_dhcp=False)
    router, gateway = admin.make("router"), {"network_id": outside["id"]}
    add = f"/routers/{router['id']}/add_external_gateways"
    body = {"router": {"external_gateways": [gateway, gateway]}}
    fault = drivers / "fail-create_port_postcommit"
    fault.touch()
    admin.put(add, body).refused(409, "MechanismDriverError")
    assert admin.show("router", router["id"])["external_gateways"] == []
    integrity.check(faulty.db)
    fault.unlink()
    before = admin.put(add, body).expect(200).body["router"]["external_gateways"]
    fault.touch()
    admin.put(add, body).refused(409, "MechanismDriverError")
    assert admin.show("router", router["id"])["external_gateways"] == before
    assert len(admin.all("/ports", {"device_id": router["id"]})) == 2
    integrity.check(faulty.db)
