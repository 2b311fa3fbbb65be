"""Third-party drivers, installed by entry point: added attributes, notifications of bindings and statuses, segments."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.segments import Segments, SegmentsInUse
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.test_bad_input import send
from tests.drivers.installed import installed


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("drivers"), "logger", "rack", "faulty"):
        yield


@pytest.fixture
def server(another_server: Callable[..., Server], drivers: None, tmp_path: Path) -> Server:
    settings = {
        "ml2": {
            "mechanism_drivers": "rack_switch,openvswitch,logger,faulty",
            "extension_drivers": "port_security,dns,rack",
        },
        "ml2_logger": {"path": str(tmp_path / "log")},
        "ml2_faulty": {"directory": str(tmp_path)},
    }
    made: Server = another_server(settings)
    return made


def log(tmp_path: Path, **wanted: Any) -> list[dict[str, Any]]:
    """The lines of the logger driver in which these values are as given."""
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    return [line for line in lines if all(line[name] == value for name, value in wanted.items())]


def queries(server: Server, run: Callable[[], object]) -> int:
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", counted)
    try:
        run()
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", counted)
    return count


# --- added attributes -------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_an_added_attribute_is_validated_processed_stored_and_shown(api: Api) -> None:
    network = api.network()
    port = api.port(network, rack="R1", rack_units=3)
    assert (port["rack"], port["rack_units"]) == ("r1", 3)
    assert api.port(network)["rack_units"] == 1
    assert api.show("port", port["id"])["rack"] == "r1"
    api.post("/ports", {"port": {"network_id": network["id"], "rack_units": 43}}).refused(400, "HTTPBadRequest")
    api.post("/ports", {"port": {"network_id": network["id"], "rack": "basement"}}).refused(400, "InvalidInput")
    changed = api.change("port", port["id"], rack="R2")
    assert (changed["rack"], changed["rack_units"], changed["revision_number"]) == (
        "r2",
        3,
        port["revision_number"] + 1,
    )
    assert api.change("port", port["id"], name="x")["rack"] == "r2"
    assert api.show("port", port["id"])["rack"] == "r2"
    api.delete(f"/ports/{port['id']}").expect(204)


@pytest.mark.every_database
def test_lists_show_and_filter_by_an_added_attribute(api: Api, server: Server) -> None:
    network = api.network()
    for rack in ("a", "b", "b"):
        api.port(network, rack=rack)
    assert sorted(port["rack"] for port in api.all("/ports")) == ["a", "b", "b"]
    assert len(api.all("/ports", {"rack": "b"})) == 2
    assert len(api.all("/ports", {"rack": "b", "rack_units": 2})) == 0
    assert [p["rack"] for p in api.all("/ports", {"sort_key": "rack", "fields": "rack"})] == ["a", "b", "b"]
    api.port(network, rack="c")
    few = queries(server, lambda: api.all("/ports", {"rack": "a"}))
    assert queries(server, lambda: api.all("/ports")) <= few, "a list is a fixed number of queries"


def test_only_administrators_set_a_guarded_attribute(api: Api) -> None:
    member, admin = api.as_member(api.project), api.as_admin()
    member.post("/networks", {"network": {"rack_fabric": "x"}}).refused(403, "PolicyNotAuthorized")
    network = member.network()
    assert network["rack_fabric"] == ""
    member.put(f"/networks/{network['id']}", {"network": {"rack_fabric": "x"}}).refused(403, "PolicyNotAuthorized")
    assert admin.change("network", network["id"], rack_fabric="x")["rack_fabric"] == "x"
    assert member.show("network", network["id"])["rack_fabric"] == "x"


def test_a_subnet_has_added_attributes(api: Api) -> None:
    subnet = api.subnet(api.network(), rack_row="c")
    assert subnet["rack_row"] == "c"
    assert api.change("subnet", subnet["id"], rack_row="d")["rack_row"] == "d"
    assert api.show("subnet", subnet["id"])["rack_row"] == "d"


def test_added_attributes_are_documented(api: Api, server: Server) -> None:
    assert "rack" in {e["alias"] for e in api.get("/extensions").body["extensions"]}
    assert '"rack_units"' in json.dumps(send(server, "GET", "/openapi.json").body)


@pytest.mark.every_database
def test_values_are_deleted_with_their_object(api: Api, server: Server) -> None:
    network = api.network()
    port = api.port(network, rack="r1")
    api.delete(f"/ports/{port['id']}").expect(204)
    with server.db.read() as connection:
        left = sa.select(sa.func.count()).where(t.port_attributes.c.object_id == port["id"])
        assert connection.execute(left).scalar() == 0


# --- mechanism drivers ------------------------------------------------------------------------------------------------


def test_a_cascade_passes_each_port_before_the_network(api: Api, tmp_path: Path) -> None:
    network = api.network()
    ports = sorted(api.port(network)["id"] for _ in range(2))
    api.delete(f"/networks/{network['id']}?cascade=true").expect(204)
    for phase in ("precommit", "postcommit"):
        lines = log(tmp_path, operation="delete", phase=phase)
        assert [(line["kind"], line["id"]) for line in lines] == [
            *(("port", key) for key in ports),
            ("network", network["id"]),
        ]
        assert [line["segments"] for line in lines] == [["vxlan"]] * 3


def test_ports_and_subnets_come_with_segments(api: Api, tmp_path: Path) -> None:
    network = api.network()
    api.subnet(network)
    api.port(network)
    for kind in ("subnet", "port"):
        lines = log(tmp_path, kind=kind, operation="create")
        assert [line["segments"] for line in lines] == [["vxlan"]] * 2
        assert all(line["network"] == network["id"] for line in lines)


def test_bindings_of_a_live_migration_are_notified(api: Api, server: Server, tmp_path: Path) -> None:
    for host in ("from", "to"):
        switch(server, host)
    nova = api.as_service()
    port = api.as_admin().port(api.network(), **{"binding:host_id": "from", "device_owner": "compute:nova"})
    path = f"/ports/{port['id']}/bindings"
    nova.post(path, {"binding": {"host": "to"}}).expect(201)
    nova.put(f"{path}/to", {"binding": {"vnic_type": "normal"}}).expect(200)
    nova.put(f"{path}/to/activate").expect(200)
    nova.delete(f"{path}/from").expect(204)
    lines = log(tmp_path, kind="port_binding", phase="postcommit")
    assert [(line["operation"], line["host"]) for line in lines] == [
        ("create", "to"),
        ("update", "to"),
        ("activate", "to"),
        ("delete", "from"),
    ]
    assert {line["port"] for line in lines} == {port["id"]}
    assert len(log(tmp_path, kind="port_binding", phase="precommit")) == 4
    assert len(log(tmp_path, kind="port", operation="update", phase="postcommit")) == 1, "its host is another now"


def test_a_binding_whose_postcommit_fails_is_deleted_again(api: Api, server: Server, tmp_path: Path) -> None:
    for host in ("from", "to"):
        switch(server, host)
    nova = api.as_service()
    port = api.as_admin().port(api.network(), **{"binding:host_id": "from", "device_owner": "compute:nova"})
    (tmp_path / "fail-create_port_binding_postcommit").touch()
    path = f"/ports/{port['id']}/bindings"
    nova.post(path, {"binding": {"host": "to"}}).refused(409, "MechanismDriverError")
    assert [binding["host"] for binding in nova.get(path).body["bindings"]] == ["from"]


def test_status_changes_are_notified(api: Api, server: Server, tmp_path: Path) -> None:
    switch(server, "h")
    admin = api.as_admin()
    port = admin.port(api.network(), **{"binding:host_id": "h"})
    provisioning = server.core.provisioning
    assert provisioning.complete(port["id"], "L2", "h")
    (tmp_path / "fail-update_port_postcommit").touch()  # the drivers could not be notified: the status stays
    assert provisioning.lost(port["id"], "h")
    assert api.show("port", port["id"])["status"] == "DOWN"
    lines = log(tmp_path, kind="port", operation="update", phase="postcommit")
    assert [(line["status"], line["segments"]) for line in lines] == [("ACTIVE", ["vxlan"]), ("DOWN", ["vxlan"])]
    with server.db.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.journal)).scalar() == 0


@pytest.mark.every_database
def test_two_bindings_at_once_share_one_dynamic_segment(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second allocates between the read and the insert of the first; on SQLite it waits for the first."""
    network_id = api.as_admin().network()["id"]
    segments, wanted = server.core.networks.segments, Segment("vlan", "physnet1")
    reserve, other = Segments.reserve, list[Segment]()
    second = threading.Thread(target=lambda: other.append(segments.allocate(network_id, wanted, None)))

    def interrupted(self: Segments, in_use: SegmentsInUse, segment: Segment) -> Segment:
        monkeypatch.setattr(Segments, "reserve", reserve)
        second.start()
        second.join(1.0)
        return reserve(self, in_use, segment)

    monkeypatch.setattr(Segments, "reserve", interrupted)
    first = segments.allocate(network_id, wanted, None)
    second.join(30.0)
    assert other == [first]
    s = t.network_segments.c
    with server.db.read() as connection:
        rows = connection.execute(sa.select(s.id).where(s.network_id == network_id, s.network_type == "vlan")).all()
    assert [row.id for row in rows] == [first.id]
    segments.release(first.id, None)
    assert segments.allocate(network_id, wanted, None).id == first.id, "a released one may be allocated again"


def test_a_dynamic_segment_is_shared_and_released(api: Api, server: Server) -> None:
    switch(server, "h")
    admin = api.as_admin()
    network = admin.network()
    ports = [admin.port(network, **{"binding:host_id": "h"}) for _ in range(2)]
    assert {port["binding:vif_type"] for port in ports} == {"ovs"}
    s, b = t.network_segments.c, t.port_bindings.c
    with server.db.read() as connection:
        vlans = connection.execute(sa.select(s.id).where(s.network_type == "vlan", s.network_id == network["id"])).all()
        levels = connection.execute(sa.select(b.levels).where(b.port_id == ports[0]["id"])).scalar()
    assert len(vlans) == 1, "ports of one network share it"
    assert [(level["driver"]) for level in json.loads(str(levels))] == ["rack_switch", "openvswitch"]
    assert json.loads(str(levels))[-1]["segment_id"] == vlans[0].id
    shown = admin.show("network", network["id"])
    assert (shown["provider:network_type"], "segments" in shown) == ("vxlan", False), "the API does not show it"
    for port in ports:
        admin.delete(f"/ports/{port['id']}").expect(204)
    with server.db.read() as connection:
        assert connection.execute(sa.select(s.id).where(s.id == vlans[0].id)).first() is None
