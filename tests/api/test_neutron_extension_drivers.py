"""Extension drivers written for Neutron (tests/drivers/labels), without tables of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.errors import RefusedToStart
from neutrino.server.main import Server
from tests.api.client import Api
from tests.drivers.installed import installed


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("drivers"), "labels"):
        yield


@pytest.fixture
def server(another_server: Callable[..., Server], drivers: None) -> Server:
    made: Server = another_server({"ml2": {"extension_drivers": "port_security,labels", "driver_timeout": "1"}})
    return made


@pytest.mark.every_database
def test_attributes_are_stored_shown_changed_and_found(admin: Api, server: Server) -> None:
    network = admin.network(colour="red")
    assert network["colour"] == admin.show("network", network["id"])["colour"] == "red"
    port = admin.port(network, label="Front")
    text = f"front of {network['id']}"
    assert (port["label"], port["label_text"]) == ("front", text), "converted as the definition says"
    assert admin.show("port", port["id"]) == port
    changed = admin.change("port", port["id"], label="back")
    assert (changed["label"], changed["label_text"]) == ("back", f"back of {network['id']}")
    admin.change("port", port["id"], name="named")
    assert admin.show("port", port["id"])["label"] == "back"
    other = admin.port(network)
    assert other["label"] == "red", "the driver reads the network"
    listed = {each["id"]: each["label"] for each in admin.all("/ports", {"network_id": network["id"]})}
    assert listed == {port["id"]: "back", other["id"]: "red"}
    assert {each["alias"] for each in admin.get("/extensions").body["extensions"]} >= {"labels"}
    assert admin.network()["colour"] == "grey"


def test_definitions_are_enforced(admin: Api, server: Server) -> None:
    network = admin.network()
    too_long = admin.post("/ports", {"port": {"network_id": network["id"], "label": "x" * 17}}).refused(400)
    assert "label" in too_long.message
    admin.post("/networks", {"network": {"colour": "green"}}).refused(400)
    admin.put(f"/networks/{network['id']}", {"network": {"colour": "red"}}).refused(400)
    assert admin.network(size="7")["size"] == 7
    for size in ("seven", None, [], {}):
        assert "size" in admin.post("/networks", {"network": {"size": size}}).refused(400).message
    admin.post("/ports", {"port": {"network_id": network["id"], "label_text": "mine"}}).refused(400)


def test_an_operator_restricts_an_attribute_with_a_policy(
    another_server: Callable[..., Server], drivers: None, tmp_path: Path
) -> None:
    (tmp_path / "colours.yaml").write_text(
        "create_network:colour: rule:admin_only\nget_network:colour: rule:admin_only\n"
    )
    policy = {"oslo_policy": {"policy_file": str(tmp_path / "colours.yaml")}}
    made = another_server({"ml2": {"extension_drivers": "port_security,labels"}, **policy})
    member = Api(made.app)
    assert "colour" not in member.network()
    member.post("/networks", {"network": {"colour": "red"}}).refused(403)
    assert member.as_admin().network(colour="red")["colour"] == "red"
    free = Api(another_server({"ml2": {"extension_drivers": "port_security,labels"}}).app)
    assert free.network(colour="red")["colour"] == "red", "without a policy, whoever may create networks"


@pytest.mark.parametrize(
    ("label", "status", "kind", "text"),
    [
        ("taken", 409, "LabelInUse", "Label taken is that of port"),
        ("unlawful", 400, "InvalidInput", "there is no such label"),
        ("raise", 409, "ExtensionDriverError", "process_create_port"),
        ("hang", 409, "ExtensionDriverError", "process_create_port"),
        ("session", 409, "ExtensionDriverError", "process_create_port"),
        ("model", 409, "ExtensionDriverError", "extend_port_dict"),
        ("object", 409, "ExtensionDriverError", "label_text of ports, which has no form in JSON"),
    ],
)
def test_a_driver_refuses_or_fails(
    admin: Api, server: Server, label: str, status: int, kind: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    network = admin.network()
    taken = admin.port(network, label="taken")
    refused = admin.post("/ports", {"port": {"network_id": network["id"], "label": label}}).refused(status, kind)
    assert text in refused.message
    assert [port["id"] for port in admin.all("/ports", {"network_id": network["id"]})] == [taken["id"]]
    if kind == "ExtensionDriverError":
        assert "labels" in refused.message
    reason = {
        "raise": "labels are out",
        "hang": "driver labels, process_create_port of",
        "session": "a session of neutron_lib.db.api, which is not provided",
        "model": "base_model.security_group_rules, which is not provided",
    }.get(label, "")
    assert reason in caplog.text


def test_a_driver_with_an_alias_that_is_here_already(another_server: Callable[..., Server], drivers: None) -> None:
    made = another_server({"ml2": {"extension_drivers": "port_security,labels_known"}})
    admin = Api(made.app).as_admin()
    admin.post("/networks", {"network": {"name": "nobody"}}).refused(403, "NotAuthorized")
    assert admin.port(admin.network())["port_security_enabled"] is True


def test_drivers_that_cannot_be_used_refuse_the_start(
    another_server: Callable[..., Server], drivers: None, tmp_path: Path
) -> None:
    def refused(**ml2: Any) -> str:
        with pytest.raises((RefusedToStart, ValueError)) as found:
            another_server({"ml2": ml2})
        return str(found.value)

    assert "'labels_broken' cannot be initialised: RuntimeError: no labels today" in refused(
        extension_drivers="labels_broken"
    )
    assert "two extension drivers add 'label' to ports" in refused(extension_drivers="labels,labels_twice")
