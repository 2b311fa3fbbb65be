"""A policy file that becomes invalid while the server runs: requests get 403, never 500 or an empty list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from neutrino.server.main import Server
from neutrino.server.policy import authorizer
from tests.api.client import Api

WHOLE_FILE = ['"get_network": "role:reader\n', "- get_network\n"]
RULE = [
    '"get_network": "role:admin or project_id:%(project_id)"\n',
    '"get_network":\n',
    '"get_network": "not reader"\n',
]


@pytest.fixture
def edited(another_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Api, Path]:
    monkeypatch.setattr(authorizer, "RELOAD_SECONDS", -1.0)
    path = tmp_path / "policy.yaml"
    path.write_text("")
    return Api(another_server({"oslo_policy": {"policy_file": str(path)}}).app), path


@pytest.mark.parametrize("text", [*WHOLE_FILE, *RULE])
def test_requests_are_refused(edited: tuple[Api, Path], text: str, caplog: pytest.LogCaptureFixture) -> None:
    api, path = edited
    network = api.network()
    one = f"/networks/{network['id']}"
    path.write_text(text)
    for who in (api, api.as_reader(), api.as_admin(), api.as_service()):
        who.get("/networks").refused(403, "PolicyNotAuthorized")
        who.get(one).refused(403, "PolicyNotAuthorized")
        who.put(one, {"network": {"name": "x"}}).refused(403, "PolicyNotAuthorized")
        who.delete(one).refused(403, "PolicyNotAuthorized")
    assert str(path) in caplog.text
    router = api.post("/routers", {"router": {}})
    router.expect(403 if text in WHOLE_FILE else 201)
    path.write_text('"get_network": "@"\n')
    assert api.get(one).expect(200).body["network"]["name"] == network["name"]
