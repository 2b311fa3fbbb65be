"""The policy recipes of docs/operator-guide.md: loaded as they are printed there, and tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from neutrino.server import features
from neutrino.server.main import Server
from neutrino.server.policy.rules import DEFAULTS
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach
from tests.support.databases import prepared_sqlite

GUIDE = Path(__file__).parents[2] / "docs" / "operator-guide.md"
AUDITOR = "Auditor: read everything, change nothing"
NETWORK_ADMIN = "Networks are made by the project's network administrator"
SHARING = "Only administrators share"
VISIBLE = "Members see segments and hosts of what is theirs"
SPOOFING = "Anti-spoofing cannot be switched off by members"
# Rules that a recipe defines for its own use.
OWN = {"network_admin"}


def recipes() -> dict[str, str]:
    section = GUIDE.read_text().partition("\n## Policy recipes\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^### (.+?)\n.*?^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))


Made = Callable[[str], Server]


@pytest.fixture
def with_recipe(tmp_path: Path) -> Iterator[Made]:
    made: list[Server] = []

    def make(title: str) -> Server:
        path = tmp_path / "policy.yaml"
        path.write_text(recipes()[title])
        made.append(
            start(tmp_path, prepared_sqlite(tmp_path / "recipes.sqlite"), {"oslo_policy": {"policy_file": str(path)}})
        )
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_all_recipes_are_tried_here() -> None:
    assert set(recipes()) == {AUDITOR, NETWORK_ADMIN, SHARING, VISIBLE, SPOOFING}


@pytest.mark.parametrize("title", sorted(recipes()))
def test_rules_of_a_recipe_exist(title: str) -> None:
    rules: dict[str, Any] = yaml.safe_load(recipes()[title])
    assert (
        sorted(
            name for name in rules if name not in {**DEFAULTS, **features.policy_defaults().rules} and name not in OWN
        )
        == []
    )


def test_auditor(with_recipe: Made) -> None:
    server = with_recipe(AUDITOR)
    switch(server, "h1")
    member = Api(server.app)
    network = member.network()
    subnet = member.subnet(network)
    port = member.as_admin().port(network, project_id=member.project, binding__host_id="h1")
    router = member.make("router")
    attach(member, router, subnet_id=subnet["id"]).expect(200)
    auditor = Api(server.app, roles="auditor")
    for kind, made in (("network", network), ("subnet", subnet), ("port", port), ("router", router)):
        assert auditor.show(kind, made["id"])["id"] == made["id"]
        assert made["id"] in {each["id"] for each in auditor.all(f"/{kind}s")}
        auditor.put(f"/{kind}s/{made['id']}", {kind: {"name": "changed"}}).expect(403)
        auditor.delete(f"/{kind}s/{made['id']}").expect(403)
    assert auditor.show("port", port["id"])["binding:host_id"] == "h1"
    assert auditor.all("/security-groups")
    assert auditor.all("/security-group-rules")
    assert auditor.all("/agents")
    for kind in ("network", "router"):
        auditor.post(f"/{kind}s", {kind: {}}).expect(403)
    assert auditor.post("/ports", {"port": {"network_id": network["id"]}}).status in (403, 404)
    assert Api(server.app).all("/networks") == [], "members of other projects see nothing more"


def test_network_administrator(with_recipe: Made) -> None:
    server = with_recipe(NETWORK_ADMIN)
    member = Api(server.app)
    chief = Api(server.app, project=member.project, roles="network_admin,member,reader")
    member.post("/networks", {"network": {}}).expect(403)
    member.post("/routers", {"router": {}}).expect(403)
    network = chief.network()
    subnet = chief.subnet(network)
    router = chief.make("router")
    attach(chief, router, subnet_id=subnet["id"]).expect(200)
    values = {"network_id": network["id"], "cidr": "10.9.0.0/24", "ip_version": 4}
    member.post("/subnets", {"subnet": values}).expect(403)
    member.put(f"/routers/{router['id']}/remove_router_interface", {"subnet_id": subnet["id"]}).expect(403)
    for kind, made in (("network", network), ("subnet", subnet), ("router", router)):
        member.put(f"/{kind}s/{made['id']}", {kind: {"name": "changed"}}).expect(403)
        assert chief.change(kind, made["id"], name="changed")["name"] == "changed"
    member.port(network)
    Api(server.app, roles="network_admin,member,reader").delete(f"/networks/{network['id']}").expect(404)


def test_sharing(with_recipe: Made) -> None:
    server = with_recipe(SHARING)
    member = Api(server.app)
    network = member.network()
    values = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared", "target_tenant": "p2"}
    member.post("/rbac-policies", {"rbac_policy": values}).expect(403)
    member.put(f"/networks/{network['id']}", {"network": {"shared": True}}).expect(403)
    member.as_admin().post("/rbac-policies", {"rbac_policy": values}).expect(201)


def test_visible_attributes(with_recipe: Made) -> None:
    server = with_recipe(VISIBLE)
    switch(server, "h1")
    member = Api(server.app)
    network = member.network()
    assert member.show("network", network["id"])["provider:network_type"] == "vxlan"
    port = member.as_admin().port(network, project_id=member.project, binding__host_id="h1")
    assert member.show("port", port["id"])["binding:host_id"] == "h1"
    shared = member.as_admin().network(shared=True)
    stranger = Api(server.app)
    assert "provider:segmentation_id" not in stranger.show("network", shared["id"])


def test_anti_spoofing(with_recipe: Made) -> None:
    server = with_recipe(SPOOFING)
    member = Api(server.app)
    network = member.network()
    port = member.port(network)
    for values in ({"port_security_enabled": False}, {"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]}):
        member.put(f"/ports/{port['id']}", {"port": values}).expect(403)
        member.post("/ports", {"port": {"network_id": network["id"], **values}}).expect(403)
    member.put(f"/networks/{network['id']}", {"network": {"port_security_enabled": False}}).expect(403)
    member.as_admin().change("port", port["id"], port_security_enabled=False, security_groups=[])
