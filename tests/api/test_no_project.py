"""Callers without a project (domain- or system-scoped tokens) do not own the server's objects, whose project is empty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.api.authentication import Authentication
from neutrino.server.main import Server
from tests.api.client import MEMBER, Api
from tests.api.l3 import attach, gateway, inside, l3_agent, outside, ports_of

OURS = {"router_gateway", "router_centralized_snat", "router_ha_interface", "floatingip"}
NOBODYS = {"X-Project-Id": "", "X-Tenant-Id": ""}


@dataclass(frozen=True)
class Nobody(Api):
    """A caller whose token has no project."""

    def call(self, method: str, path: str, body: Any = None, **rest: Any) -> Any:
        return super().call(method, path, body, **{**rest, "headers": {**NOBODYS, **(rest.get("headers") or {})}})


@pytest.fixture
def nobody(server: Server) -> Nobody:
    return Nobody(server.app, roles="manager,member,reader")


@dataclass(frozen=True)
class Cloud:
    """Objects of a tenant, and those that the server has made for them, which have no project."""

    network: Object
    router: Object
    ports: list[Object]
    ha_network: Object
    group: Object
    floating_ip: Object


@pytest.fixture(scope="module")
def cloud(server: Server) -> Cloud:
    admin = Api(server.app).as_admin()
    for host in ("h1", "h2"):
        l3_agent(server, host, agent_mode="dvr_snat")
    external = outside(admin)
    network, subnet = inside(admin)
    router = admin.make("router", ha=True, distributed=True, external_gateway_info=gateway(external))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    floating_ip = admin.make("floatingip", floating_network_id=external["id"])
    ports = [port for port in admin.all("/ports") if port["project_id"] == ""]
    assert {port["device_owner"].removeprefix("network:") for port in ports} == OURS
    (ha_network,) = [one for one in admin.all("/networks") if one["project_id"] == ""]
    group = admin.make("security_group", name="g")
    return Cloud(network, router, ports, ha_network, group, floating_ip)


@pytest.mark.every_database
def test_nobodys_objects_are_not_listed(cloud: Cloud, nobody: Nobody) -> None:
    external = {cloud.router["external_gateway_info"]["network_id"]}
    assert {one["id"] for one in nobody.all("/networks")} == external  # these are for everyone to see
    for path in ("/ports", "/security-groups", "/security-group-rules", "/floatingips", "/routers", "/subnetpools"):
        assert nobody.all(path) == [], path
        assert nobody.all(path, {"project_id": ""}) == [], path
    assert nobody.all("/ports", {"device_id": cloud.router["id"]}) == []
    assert {one["network_id"] for one in nobody.all("/subnets")} == external
    assert nobody.all("/rbac-policies") == nobody.all("/address-scopes") == nobody.all("/address-groups") == []


def _things(cloud: Cloud) -> list[tuple[str, str, str]]:
    return [
        *(("port", f"/ports/{port['id']}", "PortNotFound") for port in cloud.ports),
        ("network", f"/networks/{cloud.ha_network['id']}", "NetworkNotFound"),
        ("network", f"/networks/{cloud.network['id']}", "NetworkNotFound"),
        ("security_group", f"/security-groups/{cloud.group['id']}", "SecurityGroupNotFound"),
        ("floatingip", f"/floatingips/{cloud.floating_ip['id']}", "FloatingIPNotFound"),
        ("router", f"/routers/{cloud.router['id']}", "RouterNotFound"),
    ]


def test_nobodys_objects_are_not_shown_changed_or_deleted(cloud: Cloud, nobody: Nobody) -> None:
    for kind, path, refusal in _things(cloud):
        nobody.get(path).refused(404, refusal)
        nobody.put(path, {kind: {"description": "taken"}}).refused(404, refusal)
        nobody.delete(path).refused(404, refusal)
        if kind != "floatingip":
            nobody.get(f"{path}/tags").expect(403)
            nobody.put(f"{path}/tags/x").expect(403)


def test_who_sees_all_by_role_still_does_not_own_nobodys_objects(cloud: Cloud, nobody: Nobody) -> None:
    """A service sees every port, so only the policy stands between it and a change as the port's owner."""
    service = replace(nobody, roles="service")
    (port,) = [one for one in cloud.ports if one["device_owner"] == "network:router_gateway"]
    service.get(f"/ports/{port['id']}").expect(200)
    service.put(f"/networks/{cloud.ha_network['id']}", {"network": {"name": "x"}}).expect(403)
    service.delete(f"/networks/{cloud.ha_network['id']}").expect(403)


def test_something_new_needs_a_project(cloud: Cloud, nobody: Nobody) -> None:
    admin = replace(nobody, roles="admin,member,reader")
    for caller in (nobody, replace(nobody, roles="service"), admin):
        for kind, path, values in (
            ("network", "/networks", {}),
            ("port", "/ports", {"network_id": cloud.ha_network["id"]}),
            ("security_group", "/security-groups", {"name": "x"}),
            ("router", "/routers", {"name": "x"}),
            ("floatingip", "/floatingips", {"floating_network_id": cloud.network["id"]}),
        ):
            for given in ({}, {"project_id": ""}):
                answer = caller.post(path, {kind: {**values, **given}}).refused(400, "HTTPBadRequest")
                assert "project_id" in answer.message, kind
    nobody.post("/networks", {"network": {"project_id": "p"}}).refused(400, "HTTPBadRequest")
    assert admin.make("network", project_id="p")["project_id"] == "p"
    assert admin.make("security_group", name="x", project_id="p")["project_id"] == "p"
    nobody.get("/auto-allocated-topology/None").refused(400, "HTTPBadRequest")


@pytest.mark.every_database
def test_a_share_with_the_empty_project_is_no_share_with_nobody(cloud: Cloud, nobody: Nobody) -> None:
    owner = replace(nobody, roles="admin,member,reader")
    group = owner.make("security_group", name="x", project_id="p")
    policy = {"object_type": "security_group", "object_id": group["id"], "action": "access_as_shared"}
    owner.post("/rbac-policies", {"rbac_policy": {**policy, "target_tenant": "", "project_id": "p"}})
    nobody.get(f"/security-groups/{group['id']}").expect(404)


def test_an_administrator_without_a_project_sees_all(cloud: Cloud, nobody: Nobody) -> None:
    admin = replace(nobody, roles="admin")
    assert {port["id"] for port in cloud.ports} <= {port["id"] for port in admin.all("/ports")}
    admin.change("network", cloud.network["id"], description="seen")


def test_what_keystone_says_of_a_caller_without_a_project(server: Server) -> None:
    from neutrino.server.policy.authorizer import Authorizer

    authorizer = Authorizer(server.conf)
    who = Authentication(authorizer, keystone=True)
    environ = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_ROLES": MEMBER}
    for scope in ({}, {"HTTP_X_DOMAIN_ID": "d"}, {"HTTP_OPENSTACK_SYSTEM_SCOPE": "all"}, {"HTTP_X_PROJECT_ID": ""}):
        context = who.context({**environ, **scope}, "req-1")
        assert context.project_id is None
        for owner in ("", "None", None):
            target = {"project_id": owner, "tenant_id": owner, "network:project_id": owner}
            for rule in ("owner", "network_owner", "update_port", "delete_network", "get_port"):
                assert not authorizer.allows(context, rule, target), (scope, owner, rule)
    assert who.context({**environ, "HTTP_OPENSTACK_SYSTEM_SCOPE": "all"}, "r").credentials["system_scope"] == "all"


@pytest.mark.parametrize("owner", [*sorted(OURS), "router_interface_distributed"])
def test_a_routers_port_stays_whatever_it_says_of_its_device(server: Server, cloud: Cloud, owner: str) -> None:
    """The change is Neutron's to allow; deleting the port next would take the router's traffic."""
    admin = Api(server.app).as_admin()
    (interface,) = ports_of(admin, cloud.router, "network:router_interface_distributed")
    port = next(one for one in [*cloud.ports, interface] if one["device_owner"] == f"network:{owner}")
    path = f"/ports/{port['id']}"
    was = {name: port[name] for name in ("device_owner", "device_id")}
    for cleared in ({"device_owner": ""}, {"device_id": ""}, {"device_owner": "", "device_id": ""}):
        admin.put(path, {"port": cleared}).expect(200)
        admin.delete(path).refused(409, "ServicePortInUse")
        admin.put(path, {"port": was}).expect(200)
