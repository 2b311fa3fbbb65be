"""The API as commands use it: without authentication, by clouds.yaml, and by OS_* variables with a real Keystone."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from neutrino.cli import cloud
from neutrino.cli.errors import CommandError
from neutrino.cli.parser import Parser
from tests.support.keystone import Keystone
from tests.support.launcher import PROGRAM
from tests.support.neutrino import Caller, Neutrino, with_keystone

PASSWORD = "secret"


def arguments(*words: str) -> argparse.Namespace:
    parser = Parser()
    cloud.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def set_variables(monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


# --- without authentication ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino() as made:
        yield made


def test_an_endpoint_without_authentication(server: Neutrino, monkeypatch: pytest.MonkeyPatch) -> None:
    api = cloud.connect(arguments("--endpoint", server.url))
    made = api.post("/v2.0/networks", {"network": {"name": "red"}})["network"]
    assert [one["id"] for one in api.list("networks", name="red")] == [made["id"]]
    assert api.get(f"/v2.0/networks/{made['id']}")["network"]["name"] == "red"
    assert cloud.connect(arguments("--endpoint", f"{server.url}/v2.0/")).get("/v2.0/networks")
    set_variables(monkeypatch, {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": server.url})
    assert cloud.connect(arguments()).get("/v2.0/networks")["networks"]


def test_a_list_is_read_page_by_page(server: Neutrino, monkeypatch: pytest.MonkeyPatch) -> None:
    api = cloud.connect(arguments("--endpoint", server.url))
    for number in range(7):
        api.post("/v2.0/address-groups", {"address_group": {"name": f"page{number}"}})
    monkeypatch.setattr(cloud, "PAGE", 3)
    assert len({one["id"] for one in api.list("address-groups")}) == 7


def test_errors_of_the_api_are_one_sentence_with_the_status(server: Neutrino) -> None:
    api = cloud.connect(arguments("--endpoint", server.url))
    with pytest.raises(cloud.ApiError, match=r"There is no network nothing\. \(HTTP 404\)") as caught:
        api.get("/v2.0/networks/nothing")
    assert caught.value.status == 404
    with pytest.raises(cloud.ApiError, match="HTTP 400"):
        api.post("/v2.0/networks", {"network": {"mtu": "x"}})
    with pytest.raises(CommandError, match="the API cannot be used"):
        cloud.connect(arguments("--endpoint", "http://127.0.0.1:1")).get("/v2.0/networks")


# --- clouds.yaml --------------------------------------------------------------------------------------------------------


def write_clouds(path: Path, **clouds: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"clouds": clouds}))
    return path


def none_at(url: str) -> dict[str, object]:
    return {"auth_type": "none", "auth": {"endpoint": url}}


@pytest.mark.parametrize("where", ["clouds.yaml", ".config/openstack/clouds.yaml"])
def test_clouds_yaml_is_found(where: str, server: Neutrino, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_clouds(tmp_path / where, here=none_at(server.url))
    assert "networks" in cloud.connect(arguments("--os-cloud", "here")).get("/v2.0/networks")
    monkeypatch.setenv("OS_CLOUD", "here")
    assert "networks" in cloud.connect(arguments()).get("/v2.0/networks")


def test_a_named_file_comes_first(server: Neutrino, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_clouds(tmp_path / "clouds.yaml", here=none_at("http://127.0.0.1:1"))
    named = write_clouds(tmp_path / "elsewhere.yaml", here=none_at(server.url))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(named))
    assert "networks" in cloud.connect(arguments("--os-cloud", "here")).get("/v2.0/networks")


def test_wrong_files_and_credentials_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match=r"there is no cloud here in clouds\.yaml") as caught:
        cloud.connect(arguments("--os-cloud", "here"))
    assert caught.value.exit_status == 2
    (tmp_path / "clouds.yaml").write_text("clouds: [")
    with pytest.raises(CommandError, match=r"clouds\.yaml cannot be read"):
        cloud.connect(arguments("--os-cloud", "here"))
    write_clouds(tmp_path / "clouds.yaml", here={"auth": {"username": "alice"}})
    with pytest.raises(CommandError, match="auth_url"):
        cloud.connect(arguments("--os-cloud", "here"))
    monkeypatch.setenv("OS_AUTH_TYPE", "magic")
    with pytest.raises(CommandError, match="magic"):
        cloud.connect(arguments())


# --- Keystone -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(keystone: Keystone) -> Iterator[Neutrino]:
    project = keystone.create_project("cloud-red")
    keystone.create_user("cloud-alice", PASSWORD, project, ["member", "reader"])
    with Neutrino(with_keystone(keystone)) as server:
        yield server


def variables(keystone: Keystone, server: Neutrino, password: str = PASSWORD) -> dict[str, str]:
    return {
        "OS_AUTH_URL": keystone.url,
        "OS_USERNAME": "cloud-alice",
        "OS_PASSWORD": password,
        "OS_PROJECT_NAME": "cloud-red",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_NETWORK_ENDPOINT_OVERRIDE": server.url,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_COMPUTE_API_VERSION": "2.79",
    }


@pytest.mark.keystone
def test_variables_with_keystone(keystone: Keystone, guarded: Neutrino, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, variables(keystone, guarded))
    api = cloud.connect(arguments())
    made = api.post("/v2.0/networks", {"network": {"name": "mine"}})["network"]
    assert [one["id"] for one in api.list("networks")] == [made["id"]]
    token = keystone.token("cloud-alice", PASSWORD, "cloud-red")
    assert Caller(guarded.url, {"X-Auth-Token": token})("GET", f"/v2.0/networks/{made['id']}").status_code == 200
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    with pytest.raises(CommandError, match=r"the API cannot be used: .*authentication"):
        cloud.connect(arguments()).get("/v2.0/networks")


@pytest.mark.keystone
def test_a_token_and_a_file_with_keystone(
    keystone: Keystone, guarded: Neutrino, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = {
        "auth_url": keystone.url,
        "username": "cloud-alice",
        "password": PASSWORD,
        "project_name": "cloud-red",
        "user_domain_id": "default",
        "project_domain_id": "default",
    }
    write_clouds(tmp_path / "clouds.yaml", guarded={"auth": auth, "network_endpoint_override": guarded.url})
    assert "networks" in cloud.connect(arguments("--os-cloud", "guarded")).get("/v2.0/networks")
    token = keystone.token("cloud-alice", PASSWORD, "cloud-red")
    settings = {"OS_AUTH_TYPE": "admin_token", "OS_TOKEN": token, "OS_ENDPOINT": guarded.url}
    set_variables(monkeypatch, settings)
    assert "networks" in cloud.connect(arguments()).get("/v2.0/networks")


@pytest.mark.keystone
def test_a_command_with_keystone(keystone: Keystone, guarded: Neutrino) -> None:
    argv = [PROGRAM, "trace", "nobody", "--to", "10.0.0.1"]
    found = subprocess.run(
        argv, env={**os.environ, **variables(keystone, guarded)}, capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "neutrino: SOURCE: there is no port nobody, by id, name or fixed IP\n"
