"""Tap services, tap flows and tap mirrors: attributes, errors, who may do what, what deletes what, and statuses."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.taas.feed import read_taps
from neutrino.features.taas.status import TapStatus
from neutrino.features.taas.tables import tap_mirrors
from neutrino.feed.messages import Status
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api

DEAD = "00000000-0000-0000-0000-00000000dead"
SERVICES, FLOWS, MIRRORS = "/taas/tap_services", "/taas/tap_flows", "/taas/tap_mirrors"


@pytest.fixture
def network(api: Api) -> Object:
    made = api.network()
    api.subnet(made)
    return made


def make_flow(api: Api, service: Object, source: Object, direction: str = "BOTH", **more: Any) -> Object:
    return api.make("tap_flow", tap_service_id=service["id"], source_port=source["id"], direction=direction, **more)


def make_mirror(api: Api, port: Object, directions: Object | None = None, **more: Any) -> Object:
    values = {"directions": directions or {"IN": 101}, "remote_ip": "192.0.2.9", "mirror_type": "gre", **more}
    return api.make("tap_mirror", port_id=port["id"], **values)


def changes_of(server: Server, port: Object) -> int:
    count = sa.select(sa.func.count()).where(t.changes.c.kind == "port", t.changes.c.object_id == port["id"])
    with server.db.read() as connection:
        return int(connection.execute(count).scalar() or 0)


def test_a_tap_service_from_creation_to_deletion(api: Api, network: Object) -> None:
    port = api.port(network)
    made = api.make("tap_service", port_id=port["id"], name="ids")
    assert made == {
        "id": made["id"],
        "name": "ids",
        "description": "",
        "project_id": api.project,
        "tenant_id": api.project,
        "port_id": port["id"],
        "status": "DOWN",
    }
    changed = api.change("tap_service", made["id"], name="new", description="d" * 1024)
    assert changed == {**made, "name": "new", "description": "d" * 1024}
    api.put(f"{SERVICES}/{made['id']}", {"tap_service": {"port_id": port["id"]}}).refused(400, "HTTPBadRequest")
    assert api.all(SERVICES, {"port_id": port["id"], "status": "DOWN"}) == [changed]
    api.delete(f"{SERVICES}/{made['id']}").expect(204)
    api.get(f"{SERVICES}/{made['id']}").refused(404, "TapServiceNotFound")
    api.delete(f"{SERVICES}/{made['id']}").refused(404, "TapServiceNotFound")


def test_a_tap_flow_is_deleted_with_its_service(server: Server, api: Api, network: Object) -> None:
    source, sink = api.port(network), api.port(network)
    service = api.make("tap_service", port_id=sink["id"])
    made = make_flow(api, service, source, "IN", vlan_filter="9,18-20")
    assert made == {
        "id": made["id"],
        "name": "",
        "description": "",
        "project_id": api.project,
        "tenant_id": api.project,
        "tap_service_id": service["id"],
        "source_port": source["id"],
        "direction": "IN",
        "vlan_filter": "9,18-20",
        "status": "DOWN",
    }
    changed = api.change("tap_flow", made["id"], name="new")
    assert api.show("tap_flow", made["id"]) == changed == {**made, "name": "new"}
    for name, value in (("direction", "OUT"), ("source_port", sink["id"]), ("vlan_filter", "1")):
        api.put(f"{FLOWS}/{made['id']}", {"tap_flow": {name: value}}).refused(400, "HTTPBadRequest")
    second = make_flow(api, service, source, "OUT")
    assert second["vlan_filter"] is None
    assert api.all(FLOWS, {"tap_service_id": service["id"], "direction": "OUT"}) == [second]
    api.delete(f"{FLOWS}/{second['id']}").expect(204)
    api.delete(f"{FLOWS}/{second['id']}").refused(404, "TapFlowNotFound")
    api.delete(f"{SERVICES}/{service['id']}").expect(204)
    api.get(f"{FLOWS}/{made['id']}").refused(404, "TapFlowNotFound")
    # By which hosts learn it. The source: created, two flows made, one deleted, the other with its service.
    assert changes_of(server, source) == 5
    assert changes_of(server, sink) == 6  # and the service itself


def test_a_tap_mirror_from_creation_to_deletion(server: Server, api: Api, network: Object) -> None:
    port = api.port(network)
    made = make_mirror(api, port, {"IN": "101", "OUT": 102}, mirror_type="erspanv1", remote_ip="2001:db8::9")
    assert made == {
        "id": made["id"],
        "name": "",
        "description": "",
        "project_id": api.project,
        "tenant_id": api.project,
        "port_id": port["id"],
        "directions": {"IN": 101, "OUT": 102},
        "remote_ip": "2001:db8::9",
        "mirror_type": "erspanv1",
    }
    changed = api.change("tap_mirror", made["id"], description="to the lab")
    assert api.all(MIRRORS, {"remote_ip": "2001:db8::9"}) == [changed] == [{**made, "description": "to the lab"}]
    api.put(f"{MIRRORS}/{made['id']}", {"tap_mirror": {"remote_ip": "192.0.2.1"}}).refused(400, "HTTPBadRequest")
    body = {"port_id": port["id"], "directions": {"BOTH": 102}, "remote_ip": "192.0.2.9", "mirror_type": "gre"}
    api.post(MIRRORS, {"tap_mirror": body}).refused(409, "TapMirrorTunnelConflict")
    two = [{**body, "directions": {"BOTH": 103}}, {**body, "directions": {"IN": 103}}]
    api.post(MIRRORS, {"tap_mirrors": two}).refused(409, "TapMirrorTunnelConflict")
    api.delete(f"{MIRRORS}/{made['id']}").expect(204)
    assert changes_of(server, port) == 3
    again = api.post(MIRRORS, {"tap_mirror": body}).expect(201).body["tap_mirror"]
    assert again["directions"] == {"BOTH": 102}
    api.delete(f"{MIRRORS}/{again['id']}").expect(204)
    api.get(f"{MIRRORS}/{again['id']}").refused(404, "TapMirrorNotFound")


INVALID: list[tuple[str, Object, str]] = [
    (SERVICES, {"port_id": "x"}, "port_id"),
    (SERVICES, {}, "port_id"),
    (FLOWS, {"direction": "in"}, "direction"),
    (FLOWS, {"direction": None}, "direction"),
    (FLOWS, {"vlan_filter": "1,,2"}, "vlan_filter"),
    (FLOWS, {"vlan_filter": "20-10"}, "vlan_filter"),
    (FLOWS, {"vlan_filter": "4096"}, "vlan_filter"),
    (FLOWS, {"vlan_filter": "0000099999"}, "vlan_filter"),  # hosts would refuse the whole port
    (FLOWS, {"vlan_filter": 7}, "vlan_filter"),
    (FLOWS, {"vlan_filter": "\u0661"}, "vlan_filter"),
    (MIRRORS, {"directions": {}}, "directions"),
    (MIRRORS, {"directions": {"UP": 1}}, "directions"),
    (MIRRORS, {"directions": {"IN": "one"}}, "directions"),
    (MIRRORS, {"directions": {"IN": -1}}, "directions"),
    (MIRRORS, {"directions": {"IN": 2**32}}, "directions"),
    (MIRRORS, {"directions": {"IN": 2**20}, "mirror_type": "erspanv1"}, "directions"),
    (MIRRORS, {"directions": {"IN": 1, "BOTH": 2}}, "directions"),
    (MIRRORS, {"directions": ["IN"]}, "directions"),
    (MIRRORS, {"remote_ip": "192.0.2.0/24"}, "remote_ip"),
    (MIRRORS, {"remote_ip": "127.0.0.1"}, "remote_ip"),
    (MIRRORS, {"remote_ip": "::ffff:127.0.0.1"}, "remote_ip"),
    (MIRRORS, {"remote_ip": "ff02::1"}, "remote_ip"),
    (MIRRORS, {"mirror_type": "erspanv2"}, "mirror_type"),
]


def test_invalid_values_are_refused_by_name(api: Api) -> None:
    complete: dict[str, Object] = {
        SERVICES: {},
        FLOWS: {"source_port": DEAD, "tap_service_id": DEAD, "direction": "IN"},
        MIRRORS: {"port_id": DEAD, "directions": {"IN": 7}, "remote_ip": "192.0.2.9", "mirror_type": "gre"},
    }
    for path, values, named in INVALID:
        resource = path.rpartition("/")[2].removesuffix("s")
        answer = api.post(path, {resource: {**complete[path], **values}}).expect(400)
        assert named in answer.body["NeutronError"]["message"], values
        if named == "directions":
            assert answer.error in ("HTTPBadRequest", "InvalidInput" if "mirror_type" in values else ""), values


def test_ports_and_services_of_others(api: Api, network: Object) -> None:
    stranger, port = api.as_stranger(), api.port(network)
    admin = stranger.as_admin()
    service = api.make("tap_service", port_id=port["id"])
    mirror = {"directions": {"IN": 7}, "remote_ip": "192.0.2.9", "mirror_type": "gre"}
    flow = {"tap_service_id": service["id"], "source_port": port["id"], "direction": "IN"}

    def refuse(who: Api, path: str, status: int, error: str, **values: Any) -> None:
        who.post(path, {path.rpartition("/")[2].removesuffix("s"): values}).refused(status, error)

    for missing, who in ((DEAD, api), (port["id"], stranger)):
        refuse(who, SERVICES, 404, "PortNotFound", port_id=missing)
        refuse(who, MIRRORS, 404, "PortNotFound", port_id=missing, **mirror)
    refuse(api, FLOWS, 404, "PortNotFound", **{**flow, "source_port": DEAD})
    refuse(api, FLOWS, 404, "TapServiceNotFound", **{**flow, "tap_service_id": DEAD})
    refuse(stranger, FLOWS, 404, "TapServiceNotFound", **flow)
    # An administrator sees them, and still may not mix projects.
    refuse(admin, SERVICES, 403, "PortDoesNotBelongToTenant", port_id=port["id"])
    refuse(admin, MIRRORS, 403, "PortDoesNotBelongToTenant", port_id=port["id"], **mirror)
    refuse(admin, FLOWS, 403, "TapServiceNotBelongToTenant", **flow)


def test_an_administrator_taps_the_ports_of_others(api: Api, network: Object) -> None:
    admin = api.as_stranger().as_admin()
    own = admin.network()
    service = admin.make("tap_service", port_id=admin.port(own)["id"])
    made = make_flow(admin, service, api.port(network))
    assert made["project_id"] == admin.project
    assert made["id"] not in {each["id"] for each in api.all(FLOWS)}
    # The owner of a network sees the ports of others on it, and may not tap them.
    theirs = admin.port(network, project_id=admin.project)
    mine = api.make("tap_service", port_id=api.port(network)["id"])
    body = {"tap_service_id": mine["id"], "source_port": theirs["id"], "direction": "IN"}
    assert api.post(FLOWS, {"tap_flow": body}).status in (403, 404)


def test_who_sees_and_changes_them(api: Api, network: Object) -> None:
    port = api.port(network)
    service = api.make("tap_service", port_id=port["id"])
    taps = {SERVICES: service, FLOWS: make_flow(api, service, port), MIRRORS: make_mirror(api, port, {"OUT": 777})}
    stranger, reader = api.as_stranger(), api.as_reader()
    for path, made in taps.items():
        name = path.rpartition("/")[2].removesuffix("s")
        one = f"{path}/{made['id']}"
        assert stranger.all(path) == []
        stranger.get(one).expect(404)
        stranger.delete(one).expect(404)
        # As in tap-as-a-service, readers see mirrors only.
        assert (made in reader.all(path)) is (path == MIRRORS)
        reader.put(one, {name: {"name": "x"}}).expect(403 if path == MIRRORS else 404)
        reader.delete(one).expect(403 if path == MIRRORS else 404)
        assert made in api.all(path)


def test_they_are_deleted_with_their_ports(server: Server, api: Api, network: Object) -> None:
    source, sink, other = (api.port(network) for _ in range(3))
    service, second = (api.make("tap_service", port_id=port["id"]) for port in (sink, other))
    flows = [make_flow(api, service, source), make_flow(api, second, source), make_flow(api, service, other)]
    mirror = make_mirror(api, source, {"BOTH": 4000})
    known = changes_of(server, sink)
    api.delete(f"/ports/{source['id']}").expect(204)
    assert [each["id"] for each in api.all(FLOWS, {"tap_service_id": [service["id"], second["id"]]})] == [
        flows[2]["id"]
    ]
    api.get(f"{MIRRORS}/{mirror['id']}").refused(404, "TapMirrorNotFound")
    assert changes_of(server, sink) == known + 1
    known = changes_of(server, other)
    api.delete(f"/ports/{sink['id']}").expect(204)
    api.get(f"{SERVICES}/{service['id']}").refused(404, "TapServiceNotFound")
    api.get(f"{FLOWS}/{flows[2]['id']}").refused(404, "TapFlowNotFound")
    assert changes_of(server, other) == known + 1  # the source of the flow
    assert api.show("tap_service", second["id"])["port_id"] == other["id"]


@pytest.mark.parametrize("address", ["10.20.0.5", "fd00:20::5"])
def test_a_mirror_to_a_host_is_refused(server: Server, api: Api, network: Object, address: str) -> None:
    """Packets with the id of a network would get into it."""
    switch(server, "compute-1", tunneling_ip="10.20.0.5")
    switch(server, "compute-2", tunneling_ip="fd00:20:0::5")
    values = {"port_id": api.port(network)["id"], "directions": {"BOTH": 5}, "mirror_type": "gre"}
    body = {"tap_mirror": {**values, "remote_ip": address}}
    api.post(MIRRORS, body).refused(400, "TapMirrorToHost")
    assert api.all(MIRRORS, {"port_id": values["port_id"]}) == []


def test_quotas_count_them(api: Api, admin: Api) -> None:
    one = api.as_stranger()
    network = one.network()
    limits = {"tap_service": 1, "tap_flow": 1, "tap_mirror": 1}
    admin.put(f"/quotas/{one.project}", {"quota": limits}).expect(200)
    port = one.port(network)
    service = one.make("tap_service", port_id=port["id"])
    make_flow(one, service, port)
    make_mirror(one, port, {"IN": 1})
    flow = {"tap_service_id": service["id"], "source_port": port["id"], "direction": "IN"}
    mirror = {"port_id": port["id"], "directions": {"IN": 2}, "remote_ip": "192.0.2.9", "mirror_type": "gre"}
    bodies = {SERVICES: {"tap_service": {"port_id": port["id"]}}, FLOWS: {"tap_flow": flow}}
    for path, body in {**bodies, MIRRORS: {"tap_mirror": mirror}}.items():
        one.post(path, body).refused(409, "OverQuota")
    one.delete(f"/ports/{port['id']}").expect(204)
    port = one.port(network)
    service = one.make("tap_service", port_id=port["id"])
    make_flow(one, service, port)
    make_mirror(one, port, {"IN": 1})


def report(server: Server, host: str, kind: str, key: str, status: str) -> bool:
    message = Status(kind=kind, id=key, status=status, role="l2")
    return TapStatus(server.db).take(host, message)


def test_the_status_is_what_the_hosts_of_the_ports_reported(server: Server, api: Api, admin: Api) -> None:
    network = api.network()
    source, sink = (
        admin.port(network, project_id=api.project, binding__host_id=host) for host in ("compute-1", "compute-2")
    )
    with server.db.transaction() as tx:
        both = t.ports.c.id.in_([source["id"], sink["id"]])
        tx.write(sa.update(t.ports).where(both).values(status="ACTIVE"))
    service = api.make("tap_service", port_id=sink["id"])
    flow = make_flow(api, service, source)

    def statuses() -> tuple[str, str]:
        return api.show("tap_service", service["id"])["status"], api.show("tap_flow", flow["id"])["status"]

    assert not report(server, "compute-1", "tap_service", service["id"], "ACTIVE")  # its port is elsewhere
    assert report(server, "compute-1", "tap_flow", flow["id"], "ACTIVE")
    assert statuses() == ("DOWN", "DOWN")
    assert report(server, "compute-2", "tap_service", service["id"], "ACTIVE")
    assert not report(server, "compute-2", "tap_service", service["id"], "ACTIVE")
    assert statuses() == ("ACTIVE", "ACTIVE")
    assert api.all(FLOWS, {"status": "ACTIVE", "id": flow["id"]})
    assert report(server, "compute-1", "tap_flow", flow["id"], "ERROR")
    assert statuses() == ("ACTIVE", "ERROR")
    assert report(server, "compute-1", "tap_flow", flow["id"], "INACTIVE")
    assert statuses() == ("ACTIVE", "DOWN")
    admin.put(f"/ports/{sink['id']}", {"port": {"binding:host_id": "compute-3"}}).expect(200)
    assert statuses() == ("DOWN", "DOWN")
    assert not report(server, "compute-1", "tap_flow", DEAD, "ACTIVE")


def test_hosts_do_not_get_a_collector_of_before_the_check(server: Server, api: Api, network: Object) -> None:
    port = api.port(network)
    bad, good = make_mirror(api, port), make_mirror(api, port, {"OUT": 102})
    with server.db.transaction() as tx:
        tx.execute(sa.update(tap_mirrors).where(tap_mirrors.c.id == bad["id"]).values(remote_ip="::ffff:127.0.0.1"))
    with server.db.read() as connection:
        assert [mirror.id for mirror in read_taps(connection, [port["id"]])[port["id"]]["taps"].mirrors] == [good["id"]]
