"""A server behind a real Keystone: who gets in, and who sees and may do what."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.keystone import Keystone
from tests.support.neutrino import Caller, Neutrino, with_keystone
from tests.support.process import wait_until

pytestmark = pytest.mark.keystone
PASSWORD = "secret"
USERS = {
    # name: (project, roles)
    "alice": ("red", ["member", "reader"]),
    "rita": ("red", ["reader"]),
    "bob": ("green", ["member", "reader"]),
    "nova": ("services", ["service"]),
    "dora": ("green", ["manager", "member", "reader"]),  # and the same on the domain and the system
}
SCOPES = {"domain": {"domain": {"id": "default"}}, "system": {"system": {"all": True}}}


@dataclass(frozen=True)
class Cloud:
    server: Neutrino
    projects: dict[str, str]  # ids by name
    tokens: dict[str, str]

    def __getitem__(self, user: str) -> Caller:
        return Caller(self.server.url, {"X-Auth-Token": self.tokens[user]})


@pytest.fixture(scope="module")
def cloud(keystone: Keystone) -> Iterator[Cloud]:
    projects = {name: keystone.create_project(name) for name in ("red", "green", "services")}
    for user, (project, roles) in USERS.items():
        user_id = keystone.create_user(user, PASSWORD, projects[project], roles)
        if user == "dora":
            for role in roles:
                keystone.grant_beyond_projects(user_id, role)
    tokens = {user: keystone.token(user, PASSWORD, project) for user, (project, _) in USERS.items()}
    tokens["admin"] = keystone.token("admin", keystone.admin_password, "admin")
    tokens["unscoped"] = unscoped_token(keystone, "alice")
    for name, scope in SCOPES.items():
        tokens[name] = keystone.token("dora", PASSWORD, None, scope)
    with Neutrino(with_keystone(keystone)) as server:
        yield Cloud(server, projects, tokens)


def unscoped_token(keystone: Keystone, user: str) -> str:
    """A user with a default project has to ask for a token without one."""
    password = {"user": {"name": user, "domain": {"id": "default"}, "password": PASSWORD}}
    auth = {"identity": {"methods": ["password"], "password": password}, "scope": {"unscoped": {}}}
    answer = Caller(keystone.url)("POST", "/auth/tokens", {"auth": auth})
    assert answer.status_code == 201, answer.text
    assert "project" not in answer.json()["token"]
    return answer.headers["X-Subject-Token"]


@pytest.fixture(scope="module")
def alice(cloud: Cloud) -> Caller:
    return cloud["alice"]


@pytest.fixture(scope="module")
def bob(cloud: Cloud) -> Caller:
    return cloud["bob"]


@pytest.fixture(scope="module")
def admin(cloud: Cloud) -> Caller:
    return cloud["admin"]


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "nonsense"}, {"X-Auth-Token": ""}])
def test_who_has_no_token_does_not_get_in(cloud: Cloud, keystone: Keystone, headers: dict[str, str]) -> None:
    anyone = Caller(cloud.server.url, headers)
    for method, path in (("GET", "/v2.0"), ("GET", "/v2.0/networks"), ("POST", "/v2.0/networks"), ("GET", "/none")):
        answer = anyone(method, path)
        assert answer.status_code == 401, path
        assert keystone.url in answer.headers["WWW-Authenticate"]
        assert answer.headers["X-Openstack-Request-Id"].startswith("req-")


def test_headers_of_the_client_do_not_make_an_identity(cloud: Cloud) -> None:
    forged = {
        "X-Identity-Status": "Confirmed",
        "X-Roles": "admin",
        "X-Project-Id": cloud.projects["red"],
        "X-Service-Roles": "service",
    }
    assert Caller(cloud.server.url, forged)("GET", "/v2.0/networks").status_code == 401
    reader = Caller(cloud.server.url, {**forged, "X-Auth-Token": cloud.tokens["rita"]})
    assert reader("POST", "/v2.0/networks", {"network": {}}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/openapi.json", "/healthcheck"])
def test_anyone_may_ask_what_this_is(cloud: Cloud, path: str) -> None:
    assert Caller(cloud.server.url)("GET", path).status_code == 200


def test_a_token_without_a_project_owns_nothing(cloud: Cloud) -> None:
    unscoped = cloud["unscoped"]
    assert unscoped("GET", "/v2.0/networks").json() == {"networks": []}
    assert unscoped("POST", "/v2.0/networks", {"network": {}}).status_code in (400, 403)


def test_a_token_decides_alone(cloud: Cloud) -> None:
    """Names, sites and types of bodies are for servers without authentication: a web page does not have the token."""
    headers = {"X-Auth-Token": cloud.tokens["alice"], "Host": "cloud.example", "Origin": "https://page.example"}
    connection = http.client.HTTPConnection("127.0.0.1", cloud.server.port, timeout=30)
    connection.request("POST", "/v2.0/networks", b'{"network": {}}', headers)
    assert connection.getresponse().status == 201
    connection.close()


@pytest.mark.parametrize("scope", ["domain", "system", "unscoped"])
def test_a_token_without_a_project_does_not_reach_the_servers_own_objects(
    cloud: Cloud, alice: Caller, admin: Caller, scope: str
) -> None:
    """Gateway and floating-IP ports have the empty project, and so had such a token."""
    caller = cloud[scope]
    external = admin.create("network", **{"router:external": True})
    admin.create("subnet", network_id=external["id"], ip_version=4, cidr="172.24.0.0/24", enable_dhcp=False)
    network = alice.create("network")
    alice.create("security_group", name=f"of alice {scope}")
    router = alice.create("router", external_gateway_info={"network_id": external["id"]})
    floating_ip = alice.create("floatingip", floating_network_id=external["id"])
    ports = admin("GET", f"/v2.0/ports?network_id={external['id']}").json()["ports"]
    assert sorted(p["device_owner"] for p in ports) == ["network:floatingip", "network:router_gateway"]
    assert {p["project_id"] for p in ports} == {""}
    for collection in ("ports", "security-groups", "security-group-rules", "floatingips", "routers", "subnetpools"):
        assert list(caller("GET", f"/v2.0/{collection}").json().values()) == [[]], collection
    assert network["id"] not in caller.ids("network")
    for kind, thing in (
        *(("port", port) for port in ports),
        ("network", network),
        ("router", router),
        ("floatingip", floating_ip),
    ):
        path = f"/v2.0/{kind}s/{thing['id']}"
        assert caller("GET", path).status_code == 404, path
        assert caller("PUT", path, {kind: {"description": "taken"}}).status_code == 404, path
        assert caller("DELETE", path).status_code == 404, path
    for kind, values in (("network", {}), ("security_group", {"name": "x"}), ("router", {})):
        answer = caller("POST", f"/v2.0/{kind.replace('_', '-')}s", {kind: values})
        assert (answer.status_code, "project" in answer.json()["NeutronError"]["message"]) == (400, True)
    assert alice("DELETE", f"/v2.0/floatingips/{floating_ip['id']}").status_code == 204
    assert alice("DELETE", f"/v2.0/routers/{router['id']}").status_code == 204
    assert admin("DELETE", f"/v2.0/networks/{external['id']}").status_code == 204


def test_projects_do_not_see_each_others_things(alice: Caller, bob: Caller, admin: Caller, cloud: Cloud) -> None:
    network = alice.create("network", name="red")
    subnet = alice.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    port = alice.create("port", network_id=network["id"])
    group = alice.create("security_group", name="red")
    pool = alice.create("subnetpool", name="red", prefixes=["10.7.0.0/16"])
    scope = alice.create("address_scope", name="red", ip_version=4)
    addresses = alice.create("address_group", name="red", addresses=["10.0.0.0/8"])
    assert network["project_id"] == cloud.projects["red"]
    for kind, thing in (
        ("network", network),
        ("subnet", subnet),
        ("port", port),
        ("security_group", group),
        ("subnetpool", pool),
        ("address_scope", scope),
        ("address_group", addresses),
    ):
        path = f"/v2.0/{kind.replace('_', '-')}s/{thing['id']}"
        assert thing["id"] in alice.ids(kind)
        assert thing["id"] in cloud["rita"].ids(kind)
        assert thing["id"] in admin.ids(kind)
        assert thing["id"] not in bob.ids(kind)
        assert bob("GET", path).status_code == 404
        assert bob("PUT", path, {kind: {"name": "mine"}}).status_code == 404
        assert bob("DELETE", path).status_code == 404
        assert bob("GET", f"{path.rpartition('/')[0]}?id={thing['id']}").json() == {f"{kind}s": []}
        assert cloud["rita"]("GET", path).status_code == 200
    for body in (
        {"port": {"network_id": network["id"]}},
        {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/24"}},
        {"security_group_rule": {"security_group_id": group["id"], "direction": "ingress"}},
    ):
        [kind] = body
        assert bob("POST", f"/v2.0/{kind.replace('_', '-')}s", body).status_code in (403, 404), kind
    assert bob("GET", f"/v2.0/quotas/{cloud.projects['red']}").status_code == 403
    assert alice("GET", f"/v2.0/quotas/{cloud.projects['red']}").status_code == 200


def test_a_project_cannot_make_things_for_another(bob: Caller, admin: Caller, cloud: Cloud) -> None:
    body = {"network": {"project_id": cloud.projects["red"]}}
    assert bob("POST", "/v2.0/networks", body).status_code == 400
    answer = admin("POST", "/v2.0/networks", body)
    assert answer.json()["network"]["project_id"] == cloud.projects["red"]


def test_a_reader_does_not_write(alice: Caller, cloud: Cloud) -> None:
    rita = cloud["rita"]
    network = alice.create("network", name="read")
    path = f"/v2.0/networks/{network['id']}"
    assert rita("GET", path).status_code == 200
    assert rita("POST", "/v2.0/networks", {"network": {}}).status_code == 403
    assert rita("PUT", path, {"network": {"name": "x"}}).status_code == 403
    assert rita("PUT", f"{path}/tags/x").status_code == 403
    assert rita("DELETE", path).status_code == 403
    assert alice("DELETE", path).status_code == 204


def test_a_member_does_not_do_what_is_an_operators(alice: Caller, admin: Caller) -> None:
    for attribute, value in (
        ("shared", True),
        ("router:external", True),
        ("provider:network_type", "vlan"),
        ("provider:physical_network", "physnet1"),
    ):
        answer = alice("POST", "/v2.0/networks", {"network": {attribute: value}})
        assert answer.status_code == 403, attribute
        assert answer.json()["NeutronError"]["type"] == "PolicyNotAuthorized"
    network = alice.create("network")
    assert not {"provider:network_type", "provider:segmentation_id"} & network.keys()
    assert admin("GET", f"/v2.0/networks/{network['id']}").json()["network"]["provider:network_type"] == "vxlan"
    port = alice.create("port", network_id=network["id"])
    assert not {"binding:host_id", "binding:vif_type", "binding:profile"} & port.keys()
    path = f"/v2.0/ports/{port['id']}"
    assert alice("PUT", path, {"port": {"binding:host_id": "compute1"}}).status_code == 403
    assert alice("GET", "/v2.0/agents").json() == {"agents": []}
    assert alice("PUT", "/v2.0/quotas/me", {"quota": {"network": 5}}).status_code == 403


def test_the_service_role_binds_ports(alice: Caller, cloud: Cloud) -> None:
    nova = cloud["nova"]
    network = alice.create("network")
    port = alice.create("port", network_id=network["id"])
    path = f"/v2.0/ports/{port['id']}"
    binding = {"binding:host_id": "nowhere", "binding:profile": {"a": 1}, "device_owner": "compute:nova"}
    answer = nova("PUT", path, {"port": binding})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["port"]["binding:host_id"], answer.json()["port"]["binding:profile"]) == ("nowhere", {"a": 1})
    assert nova("GET", f"{path}/bindings").status_code == 200
    assert alice("GET", f"{path}/bindings").status_code in (403, 404)
    # A port in a machine is Nova's to delete, also for its owner, who then asks through Nova.
    assert alice("DELETE", path).status_code == 403
    through = {"X-Service-Token": cloud.tokens["nova"]}
    assert alice("DELETE", path, headers=through).status_code == 204


def test_a_share_makes_it_visible(alice: Caller, bob: Caller, cloud: Cloud) -> None:
    network = alice.create("network", name="shared")
    alice.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    path = f"/v2.0/networks/{network['id']}"
    assert bob("GET", path).status_code == 404
    policy = alice.create(
        "rbac_policy",
        object_type="network",
        object_id=network["id"],
        action="access_as_shared",
        target_tenant=cloud.projects["green"],
    )
    seen = bob("GET", path).json()["network"]
    assert (seen["shared"], seen["project_id"]) == (True, cloud.projects["red"])
    assert network["id"] in bob.ids("network")
    assert len(bob("GET", f"/v2.0/subnets?network_id={network['id']}").json()["subnets"]) == 1
    port = bob.create("port", network_id=network["id"])
    assert port["project_id"] == cloud.projects["green"]
    assert port["id"] in alice.ids("port")  # the network's owner sees what is on it
    assert bob("PUT", path, {"network": {"name": "mine"}}).status_code == 403
    assert bob("DELETE", path).status_code == 403
    everyone = {"rbac_policy": {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}}
    everyone["rbac_policy"]["target_tenant"] = "*"
    assert alice("POST", "/v2.0/rbac-policies", everyone).status_code == 403
    unshare = f"/v2.0/rbac-policies/{policy['id']}"
    assert bob("DELETE", unshare).status_code == 404
    assert alice("DELETE", unshare).status_code == 409  # bob's port is there
    assert bob("DELETE", f"/v2.0/ports/{port['id']}").status_code == 204
    assert alice("DELETE", unshare).status_code == 204
    assert bob("GET", path).status_code == 404


def test_a_quota_is_the_projects_own(bob: Caller, admin: Caller, alice: Caller, cloud: Cloud) -> None:
    quota = f"/v2.0/quotas/{cloud.projects['green']}"
    used = len([1 for _ in bob.ids("network")])
    assert admin("PUT", quota, {"quota": {"network": used + 1}}).status_code == 200
    bob.create("network")
    answer = bob("POST", "/v2.0/networks", {"network": {}})
    assert (answer.status_code, answer.json()["NeutronError"]["type"]) == (409, "OverQuota")
    alice.create("network")
    assert admin("DELETE", quota).status_code == 204
    bob.create("network")


def test_a_changed_policy_file_serves_without_a_restart(keystone: Keystone, cloud: Cloud) -> None:
    settings = with_keystone(keystone)
    server = Neutrino({**settings, "oslo_policy": {"policy_file": "policy.yaml"}})
    server.write("policy.yaml", '"create_network": "role:reader"\n"delete_network": "!"\n')
    with server:
        rita = Caller(server.url, {"X-Auth-Token": cloud.tokens["rita"]})
        network = rita.create("network")
        path = f"/v2.0/networks/{network['id']}"
        alice = Caller(server.url, {"X-Auth-Token": cloud.tokens["alice"]})
        assert alice("DELETE", path).status_code == 403
        assert Caller(server.url, {"X-Auth-Token": cloud.tokens["admin"]})("DELETE", path).status_code == 403
        server.write("policy.yaml", '"create_network": "role:reader"\n')
        wait_until(
            lambda: alice("DELETE", path).status_code == 204,
            timeout=10,
            what="the new policy",
            failed=lambda: None,
        )


def test_while_keystone_is_away_nobody_gets_in_and_nothing_breaks(keystone: Keystone) -> None:
    settings = with_keystone(keystone)
    away = {**settings["keystone_authtoken"], "auth_url": "http://127.0.0.1:1/v3", "http_connect_timeout": 1}
    away["http_request_max_retries"] = 0
    with Neutrino({**settings, "keystone_authtoken": away}) as server:
        caller = Caller(server.url, {"X-Auth-Token": "gAAAA" + "a" * 200})
        for _ in range(2):
            started = time.monotonic()
            answer = caller("GET", "/v2.0/networks")
            assert answer.status_code == 503, answer.text
            assert answer.headers["X-Openstack-Request-Id"]
            assert time.monotonic() - started < 20
        assert caller("GET", "/").status_code == 200
        assert caller("GET", "/healthcheck").status_code == 200
