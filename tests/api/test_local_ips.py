"""Local IPs and their associations with ports: addresses, errors, who may do what, and what deletes what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.client import Api

DEAD = "00000000-0000-0000-0000-00000000dead"


def made_network(api: Api) -> Object:
    network = api.network()
    api.subnet(network)
    return network


def associations(local_ip: Object) -> str:
    return f"/local_ips/{local_ip['id']}/port_associations"


def associate(api: Api, local_ip: Object, port: Object, **values: Any) -> Object:
    body = {"port_association": {"fixed_port_id": port["id"], **values}}
    made: Object = api.post(associations(local_ip), body).expect(201).body["port_association"]
    return made


def test_a_local_ip_on_a_network_has_a_port_of_its_own(api: Api, admin: Api) -> None:
    network = made_network(api)
    made = api.make("local_ip", network_id=network["id"], name="li", local_ip_address="10.0.0.77")
    port = admin.show("port", made["local_port_id"])
    assert {**made, "id": "", "created_at": "", "updated_at": ""} == {
        "id": "",
        "name": "li",
        "description": "",
        "project_id": api.project,
        "tenant_id": api.project,
        "local_port_id": port["id"],
        "network_id": network["id"],
        "local_ip_address": "10.0.0.77",
        "ip_mode": "translate",
        "revision_number": 0,
        "created_at": "",
        "updated_at": "",
    }
    assert (port["device_owner"], port["device_id"], port["status"]) == ("network:local_ip", made["id"], "N/A")
    assert port["fixed_ips"][0]["ip_address"] == "10.0.0.77"
    assert port["security_groups"] == []
    api.delete(f"/ports/{port['id']}").refused(409, "ServicePortInUse")
    changed = api.change("local_ip", made["id"], name="new", description="d")
    assert (changed["name"], changed["description"], changed["revision_number"]) == ("new", "d", 1)
    api.put(f"/local-ips/{made['id']}", {"local_ip": {"ip_mode": "passthrough"}}).refused(400, "HTTPBadRequest")
    assert api.all("/local-ips", {"local_ip_address": "10.0.0.77"}) == [changed]
    assert api.show("local_ip", made["id"]) == changed
    api.delete(f"/local-ips/{made['id']}").expect(204)
    api.get(f"/local-ips/{made['id']}").refused(404, "LocalIPNotFound")
    admin.get(f"/ports/{port['id']}").refused(404, "PortNotFound")


def test_a_local_ip_of_a_given_port(api: Api) -> None:
    port = api.port(made_network(api))
    address = port["fixed_ips"][0]["ip_address"]
    made = api.make("local_ip", local_port_id=port["id"], ip_mode="passthrough")
    assert (made["network_id"], made["local_ip_address"]) == (port["network_id"], address)
    assert made["ip_mode"] == "passthrough"
    api.delete(f"/ports/{port['id']}").refused(409, "ServicePortInUse")
    api.delete(f"/local-ips/{made['id']}").expect(204)
    assert api.show("port", port["id"])["id"] == port["id"]
    api.delete(f"/ports/{port['id']}").expect(204)


@pytest.mark.every_database
def test_several_local_ips_at_once_or_none(api: Api, admin: Api) -> None:
    network = made_network(api)
    one = {"network_id": network["id"]}
    made = api.post("/local-ips", {"local_ips": [one, one]}).expect(201).body["local_ips"]
    assert len({each["local_ip_address"] for each in made}) == 2
    ports = len(admin.all("/ports", {"network_id": network["id"]}))
    api.post("/local-ips", {"local_ips": [one, {}]}).refused(400, "LocalIPPortOrNetworkRequired")
    assert len(admin.all("/ports", {"network_id": network["id"]})) == ports


def test_what_is_refused(api: Api) -> None:
    def refuse(status: int, error: str, **values: Any) -> None:
        api.post("/local-ips", {"local_ip": values}).refused(status, error)

    empty, network = api.network(), made_network(api)
    second = api.subnet(network, "10.0.1.0/24")
    bare = api.port(network, fixed_ips=[])
    first = next(key for key in api.show("network", network["id"])["subnets"] if key != second["id"])
    several = api.port(network, fixed_ips=[{"subnet_id": first}, {"subnet_id": second["id"]}])
    single = api.port(network)
    refuse(400, "LocalIPPortOrNetworkRequired")
    refuse(400, "BadRequest", network_id=empty["id"])
    refuse(404, "NetworkNotFound", network_id=DEAD)
    refuse(400, "InvalidIpForNetwork", network_id=network["id"], local_ip_address="192.0.2.1")
    refuse(400, "BadRequest", local_port_id=DEAD)
    refuse(400, "LocalIPNoIP", local_port_id=bare["id"])
    refuse(400, "LocalIPNoRequestedIP", local_port_id=several["id"])
    of_no_port = "10.0.0.1"  # the gateway's; any other may be the one that the port has got
    refuse(400, "LocalIPRequestedIPNotFound", local_port_id=several["id"], local_ip_address=of_no_port)
    refuse(400, "LocalIPRequestedIPNotFound", local_port_id=single["id"], local_ip_address=of_no_port)
    refuse(400, "HTTPBadRequest", network_id=network["id"], ip_mode="nat")
    refuse(400, "HTTPBadRequest", network_id=network["id"], local_ip_address="no address")
    wanted = several["fixed_ips"][1]["ip_address"]
    made = api.make("local_ip", local_port_id=several["id"], local_ip_address=wanted)
    assert made["local_ip_address"] == wanted


def test_a_network_or_port_of_others_does_not_exist(api: Api) -> None:
    stranger, network = api.as_stranger(), made_network(api)
    body = {"local_ip": {"network_id": network["id"]}}
    stranger.post("/local-ips", body).refused(404, "NetworkNotFound")
    body = {"local_ip": {"local_port_id": api.port(network)["id"]}}
    stranger.post("/local-ips", body).refused(400, "BadRequest")


def test_who_sees_and_changes_local_ips(api: Api, admin: Api) -> None:
    made = api.make("local_ip", network_id=made_network(api)["id"])
    path, stranger = f"/local-ips/{made['id']}", api.as_stranger()
    assert stranger.all("/local-ips") == []
    stranger.get(path).refused(404, "LocalIPNotFound")
    stranger.get(associations(made)).refused(404, "LocalIPNotFound")
    api.as_reader().put(path, {"local_ip": {"name": "x"}}).refused(403, "PolicyNotAuthorized")
    assert api.as_reader().all("/local-ips") == [made]
    assert admin.get(path).expect(200).body["local_ip"] == made


def test_an_association_from_creation_to_deletion(server: Server, api: Api) -> None:
    network = made_network(api)
    local_ip, port = api.make("local_ip", network_id=network["id"]), api.port(network)
    made = associate(api, local_ip, port)
    assert made == {
        "local_ip_id": local_ip["id"],
        "fixed_port_id": port["id"],
        "fixed_ip": port["fixed_ips"][0]["ip_address"],
        "local_ip_address": local_ip["local_ip_address"],
    }
    path = f"{associations(local_ip)}/{port['id']}"
    assert api.get(path).expect(200).body["port_association"] == made
    assert api.all(associations(local_ip)) == [made]
    assert api.all(associations(local_ip), {"fixed_ip": "10.0.0.250"}) == []
    again = {"port_association": {"fixed_port_id": port["id"]}}
    api.post(associations(local_ip), again).refused(409, "Conflict")
    api.put(path, again).expect(405)
    api.delete(f"/local-ips/{local_ip['id']}").refused(409, "LocalIPInUse")
    api.delete(path).expect(204)
    api.get(path).refused(404, "LocalIPAssociationNotFound")
    api.delete(path).refused(404, "LocalIPAssociationNotFound")
    changes = sa.select(sa.func.count()).where(t.changes.c.kind == "port", t.changes.c.object_id == port["id"])
    with server.db.read() as connection:  # by which hosts learn it: created, associated, disassociated
        assert connection.execute(changes).scalar() == 3
    api.delete(f"/local-ips/{local_ip['id']}").expect(204)


@pytest.mark.every_database
def test_an_association_ends_with_its_port(api: Api) -> None:
    network = made_network(api)
    local_ip, port = api.make("local_ip", network_id=network["id"]), api.port(network)
    associate(api, local_ip, port)
    api.delete(f"/ports/{port['id']}").expect(204)
    assert api.all(associations(local_ip)) == []
    api.delete(f"/local-ips/{local_ip['id']}").expect(204)


def test_an_association_names_the_address_of_its_port(api: Api) -> None:
    network = made_network(api)
    second = api.subnet(network, "10.0.1.0/24")
    local_ip = api.make("local_ip", network_id=network["id"])
    first = next(key for key in api.show("network", network["id"])["subnets"] if key != second["id"])
    several = api.port(network, fixed_ips=[{"subnet_id": first}, {"subnet_id": second["id"]}])
    bare = api.port(network, fixed_ips=[])

    def refuse(error: str, **values: Any) -> None:
        api.post(associations(local_ip), {"port_association": values}).refused(400, error)

    refuse("HTTPBadRequest")
    refuse("BadRequest", fixed_port_id=DEAD)
    refuse("LocalIPNoIP", fixed_port_id=bare["id"])
    refuse("LocalIPNoRequestedIP", fixed_port_id=several["id"])
    refuse("LocalIPRequestedIPNotFound", fixed_port_id=several["id"], fixed_ip="10.0.0.250")
    wanted = several["fixed_ips"][1]["ip_address"]
    assert associate(api, local_ip, several, fixed_ip=wanted)["fixed_ip"] == wanted


@pytest.mark.parametrize("rule", ["", "rule:admin_or_owner or rule:service_api", "rule:admin_or_network_owner"])
def test_the_host_follows_the_rule_of_ports(another_server: Callable[..., Server], tmp_path: Path, rule: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f'"get_port:binding:host_id": "{rule}"\n' if rule else "")
    api = Api(another_server({"oslo_policy": {"policy_file": str(path)}}).app)
    network = made_network(api)
    port = api.as_admin().port(network, project_id=api.project, binding__host_id="compute-1")
    local_ip = api.make("local_ip", network_id=network["id"])
    made = associate(api, local_ip, port)
    one = f"{associations(local_ip)}/{port['id']}"
    for shown in (made, api.get(one).expect(200).body["port_association"], *api.all(associations(local_ip))):
        assert shown.get("host") == ("compute-1" if rule else None)
        assert "project_id" not in shown
    assert len(api.all(associations(local_ip), {"host": "compute-1"})) == (1 if rule else 0)
    assert api.as_admin().get(one).expect(200).body["port_association"]["host"] == "compute-1"
    theirs = api.as_admin().port(network, project_id="p2", binding__host_id="compute-1")
    shown = associate(api.as_admin(), local_ip, theirs) and api.get(f"{associations(local_ip)}/{theirs['id']}").body
    assert ("host" in shown["port_association"]) is (rule == "rule:admin_or_network_owner")


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_associations_of_a_local_ip_that_does_not_exist(api: Api, method: str) -> None:
    path = f"/local_ips/{DEAD}/port_associations" + (f"/{DEAD}" if method == "DELETE" else "")
    body = {"port_association": {"fixed_port_id": DEAD}} if method == "POST" else None
    api.call(method, path, body).refused(404, "LocalIPNotFound")


def test_an_association_is_with_a_port_of_the_local_ips_network(api: Api, admin: Api) -> None:
    """Else a member could lead any address of a shared network to a port, by a local IP of an own network with it."""
    shared, api = shared_network(admin, shared=True), api.as_stranger()
    own = made_network(api)
    for values in ({"local_port_id": api.port(own)["id"]}, {"network_id": own["id"], "local_ip_address": "10.0.0.77"}):
        local_ip = api.make("local_ip", **values)
        for caller in (api, admin):
            body = {"port_association": {"fixed_port_id": caller.port(shared)["id"]}}
            refused = caller.post(associations(local_ip), body).refused(400, "BadRequest")
            assert own["id"] in refused.message
            assert shared["id"] in refused.message
        assert api.all(associations(local_ip)) == []


def test_a_port_keeps_the_address_of_its_local_ip(api: Api) -> None:
    """Released, the address could become another port's, whose traffic the local IP would take."""
    network = made_network(api)
    subnet = api.show("network", network["id"])["subnets"][0]
    own = api.make("local_ip", network_id=network["id"])
    given = api.make("local_ip", local_port_id=api.port(network)["id"])
    for local_ip in (own, given):
        path, held = f"/ports/{local_ip['local_port_id']}", {"ip_address": local_ip["local_ip_address"]}
        for addresses in ([], [{"ip_address": "10.0.0.99"}]):
            api.put(path, {"port": {"fixed_ips": addresses}}).refused(409, "ServicePortInUse")
        more = {"port": {"fixed_ips": [held, {"subnet_id": subnet}], "name": "more"}}
        assert api.put(path, more).expect(200).body["port"]["name"] == "more"
        api.put(path, {"port": {"fixed_ips": [held]}}).expect(200)
        api.delete(f"/local-ips/{local_ip['id']}").expect(204)
    api.put(f"/ports/{given['local_port_id']}", {"port": {"fixed_ips": []}}).expect(200)


def test_the_port_of_a_local_ip_is_no_unfiltered_port_of_an_instance(api: Api, admin: Api) -> None:
    """The project owns it, so Nova would plug it into an instance: without port security it could send from any address."""
    for is_filtered in (True, False):
        network = api.network(port_security_enabled=is_filtered)
        api.subnet(network)
        local_ip = api.make("local_ip", network_id=network["id"])
        port = admin.show("port", local_ip["local_port_id"])
        assert port["port_security_enabled"] is is_filtered
        for change in ({"device_owner": "compute:nova"}, {"device_owner": ""}):
            api.put(f"/ports/{port['id']}", {"port": change}).refused(409, "ServicePortInUse")
        api.put(f"/ports/{port['id']}", {"port": {"name": "x", "device_id": port["device_id"]}}).expect(200)


# --- rules of ports ---------------------------------------------------------------------------------------------------


def shared_network(admin: Api, **values: Any) -> Object:
    network = admin.network(**values)
    admin.subnet(network)
    return network


def test_ports_of_local_ips_count_against_the_quota_of_ports(api: Api, admin: Api) -> None:
    network, api = shared_network(admin, shared=True), api.as_stranger()
    admin.put(f"/quotas/{api.project}", {"quota": {"port": 3}}).expect(200)
    api.port(network)
    made = [api.make("local_ip", network_id=network["id"]) for _ in range(2)]
    body = {"network_id": network["id"]}
    api.post("/local-ips", {"local_ip": body}).refused(409, "OverQuota")
    api.post("/local-ips", {"local_ips": [body, body]}).refused(409, "OverQuota")
    api.make("local_ip", local_port_id=made[0]["local_port_id"])  # needs no port of its own
    api.delete(f"/local-ips/{made[1]['id']}").expect(204)
    api.post("/local-ips", {"local_ips": [body, body]}).refused(409, "OverQuota")
    api.make("local_ip", network_id=network["id"])


def test_rules_of_ports_apply_to_the_port_of_a_local_ip(api: Api, admin: Api) -> None:
    shared, external = shared_network(admin, shared=True), shared_network(admin, router__external=True)
    api = api.as_stranger()

    def refuse(caller: Api, **values: Any) -> str:
        answer: str = caller.post("/local-ips", {"local_ip": values}).refused(403, "PolicyNotAuthorized").message
        return answer

    assert refuse(api, network_id=external["id"]).endswith(" create_port.")
    chosen = {"network_id": shared["id"], "local_ip_address": "10.0.0.77"}
    assert "create_port:fixed_ips:ip_address" in refuse(api, **chosen)
    api.post("/local-ips", {"local_ips": [{"network_id": shared["id"]}, chosen]}).refused(403, "PolicyNotAuthorized")
    assert api.all("/local-ips") == []
    api.make("local_ip", network_id=shared["id"])
    assert admin.make("local_ip", **chosen)["local_ip_address"] == "10.0.0.77"
    assert admin.make("local_ip", network_id=external["id"])["network_id"] == external["id"]


def test_the_address_of_a_gateway_is_refused(api: Api, admin: Api) -> None:
    network = made_network(api)
    chosen = {"network_id": network["id"], "local_ip_address": "10.0.0.1"}
    for caller in (api, admin):
        assert "gateway" in caller.post("/local-ips", {"local_ip": chosen}).refused(400, "BadRequest").message
    port = api.port(network, fixed_ips=[{"ip_address": "10.0.0.1"}])
    assert "gateway" in api.post("/local-ips", {"local_ip": {"local_port_id": port["id"]}}).refused(400).message
