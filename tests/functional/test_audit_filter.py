"""keystonemiddleware's CADF audit as a filter of the API, with a real Keystone: who did what, with which outcome."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.keystone import Keystone
from tests.support.neutrino import Caller, Neutrino, with_keystone
from tests.support.waiting import eventually

pytestmark = pytest.mark.keystone
MAP = """[DEFAULT]
target_endpoint_type = network
[path_keywords]
networks = network
[service_endpoints]
network = service/network
"""


def test_each_request_is_audited_with_its_user(keystone: Keystone, tmp_path: Path) -> None:
    (tmp_path / "audit_map.conf").write_text(MAP)
    log = tmp_path / "server.log"
    settings = with_keystone(keystone)
    settings = {
        **settings,
        "DEFAULT": {**settings["DEFAULT"], "api_filters": "audit", "log_file": str(log)},
        "filter:audit": {"audit_map_file": f"{tmp_path}/audit_map.conf", "log_name": "cadf", "ignore_req_list": "HEAD"},
    }
    project = keystone.create_project("audited")
    user_id = keystone.create_user("audra", "secret", project, ["member", "reader"])
    token = keystone.token("audra", "secret", "audited")
    with Neutrino(settings) as server:
        caller = Caller(server.url, {"X-Auth-Token": token})
        assert caller("POST", "/v2.0/networks", {"network": {"name": "n"}}).status_code == 201
        assert caller("GET", "/v2.0/networks/none").status_code == 404
        assert Caller(server.url, {})("GET", "/v2.0/networks").status_code == 401

        def responses() -> list[str]:
            return [line for line in log.read_text().split("\n") if "audit.http.response" in line]

        eventually(lambda: len(responses()) == 2)  # a request without a token does not come to the filter
    made, missed = responses()
    assert f"'id': '{user_id}'" in made
    assert project in made
    assert re.search(r"'action': 'create'", made)
    assert "'reasonCode': '201'" in made
    assert "'outcome': 'success'" in made
    assert "'reasonCode': '404'" in missed
    assert "'outcome': 'failure'" in missed
    assert token not in log.read_text()
