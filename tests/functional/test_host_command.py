"""`neutrino host`: an operator creates, lists and changes credentials with their roles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.cli.main import main
from neutrino.server.feed.connections.credentials import Credentials, digest
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import configuration_text, start
from tests.api.l3 import attach, inside, l3_agent


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite", {})
    yield made
    made.close()


@pytest.fixture
def config(server: Server, tmp_path: Path) -> str:
    path = tmp_path / "neutrino.conf"
    path.write_text(configuration_text(f"sqlite:///{tmp_path}/neutrino.sqlite"))
    return str(path)


def roles(server: Server) -> dict[str, tuple[str, ...]]:
    return {host: known.roles for host, known in Credentials(server.db).known().items()}


def call(config: str, *words: str) -> int:
    return main(["host", *words, "--config-file", config])


def test_a_host_has_least_roles_unless_others_are_named(
    server: Server, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(config, "add", "compute1") == 0
    credential = capsys.readouterr().out.strip()
    assert call(config, "add", "network1", "--roles", "l3,dhcp, l2") == 0
    assert roles(server) == {"compute1": ("l2", "metadata"), "network1": ("l2", "dhcp", "l3")}
    assert Credentials(server.db).known()["compute1"].digest == digest(credential)
    capsys.readouterr()
    assert call(config, "list") == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(name, its) for name, _, its in lines] == [("compute1", "l2,metadata"), ("network1", "l2,dhcp,l3")]


def test_roles_are_changed_and_stay_with_a_new_credential(server: Server, config: str) -> None:
    assert call(config, "add", "h1") == 0
    assert call(config, "roles", "h1", "--roles", "l2,dhcp,l3,metadata") == 0
    assert call(config, "rotate", "h1") == 0
    assert roles(server) == {"h1": ("l2", "dhcp", "l3", "metadata")}


def test_what_is_no_role_is_refused_in_one_line(
    server: Server, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(config, "add", "h1", "--roles", "l2,admin") == 2
    assert capsys.readouterr().err == (
        "neutrino: --roles: there is no role admin: the roles are l2, dhcp, l3, metadata, bgp, sriov\n"
    )
    assert call(config, "add", "h1", "--roles", "") == 2
    assert call(config, "roles", "h1") == 2
    assert call(config, "rotate", "h1", "--roles", "l2") == 2
    assert call(config, "roles", "h1", "--roles", "l2") == 1
    assert roles(server) == {}


def test_show_prints_what_the_roles_let_the_host_know(
    server: Server, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    switch(server, "h1")
    l3_agent(server, "h1")
    api = Api(server.app).as_admin()
    _, subnet = inside(api)
    attach(api, api.make("router"), subnet_id=subnet["id"]).expect(200)
    assert call(config, "add", "h1") == 0
    capsys.readouterr()
    assert call(config, "show", "h1") == 0
    shown = capsys.readouterr()
    assert "router" not in json.loads(shown.out)
    assert "roles l2,metadata" in shown.err
    assert call(config, "roles", "h1", "--roles", "l2,l3") == 0
    capsys.readouterr()
    assert call(config, "show", "h1") == 0
    assert len(json.loads(capsys.readouterr().out)["router"]) == 1


def test_show_of_an_unknown_host_fails(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list would look as if the host had nothing to do."""
    assert call(config, "show", "h7") == 1
    shown = capsys.readouterr()
    assert (shown.out, "there is no host h7" in shown.err) == ("", True)
