"""A third party's plugin, found by its entry point, serves a resource of its own like any other."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from stevedore.extension import ExtensionManager

from tests.api.client import Api
from tests.api.conftest import start

PLUGIN = '''
"""Leases of rack units: a resource that this project knows nothing of."""

import uuid

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Extension, Resource
from neutrino.server.api.types import Integer, Text, Uuid


class LeaseNotFound(errors.NotFound):
    template = "There is no lease {id}."


LEASE = Resource(
    name="lease",
    collection="leases",
    not_found=LeaseNotFound,
    attributes=(
        Attribute("id", Uuid(), filter=True, sort=True),
        Attribute("project_id", Text(255), post=True, filter=True),
        Attribute("rack", Text(16), post=True, put=True, default=REQUIRED, filter=True),
        Attribute("units", Integer(min=1, max=42), post=True, default=1),
    ),
)


class Leases:
    extensions = (Extension("rack-leases", "Rack leases", "Rack units that a project has."),)

    def __init__(self, services):
        self._rows = {}
        self.collections = ((LEASE, self),)

    def index(self, context, query):
        rows = [r for r in self._rows.values() if query.everyone or r["project_id"] == context.project_id]
        return [r for r in rows if all(r[k] in v for k, v in query.filters.items())]

    def show(self, context, key, fields, everyone):
        row = self._rows.get(key)
        return row if row and (everyone or row["project_id"] == context.project_id) else None

    def create(self, context, values):
        row = {"id": str(uuid.uuid4()), **values, "tenant_id": values["project_id"]}
        self._rows[row["id"]] = row
        return row

    def update(self, context, key, values, revision):
        self._rows[key] |= values
        return self._rows[key]

    def delete(self, context, key, revision):
        del self._rows[key]
'''


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    site = tmp_path / "site"
    info = site / "rack_leases-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "rack_leases.py").write_text(textwrap.dedent(PLUGIN))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-leases\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[neutrino.service_plugins]\nrack_leases = rack_leases:Leases\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})  # what earlier servers in this process found
    settings = {"DEFAULT": {"service_plugins": "rack_leases"}}
    return Api(start(tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite", settings).app)


def test_a_plugin_brings_a_resource(api: Api) -> None:
    assert "rack-leases" in {e["alias"] for e in api.get("/extensions").body["extensions"]}
    lease = api.post("/leases", {"lease": {"rack": "r1", "units": "3"}}).expect(201).body["lease"]
    assert (lease["rack"], lease["units"], lease["project_id"]) == ("r1", 3, api.project)
    api.post("/leases", {"lease": {"rack": "r1", "units": 43}}).refused(400, "HTTPBadRequest")
    api.post("/leases", {"lease": {"units": 3}}).refused(400, "HTTPBadRequest")
    assert api.get("/leases", {"rack": "r1"}).body == {"leases": [lease]}
    assert api.put(f"/leases/{lease['id']}", {"lease": {"rack": "r2"}}).expect(200).body["lease"]["rack"] == "r2"
    stranger = api.as_stranger()
    assert stranger.get("/leases").body == {"leases": []}
    stranger.get(f"/leases/{lease['id']}").refused(404, "LeaseNotFound")
    stranger.delete(f"/leases/{lease['id']}").refused(404, "LeaseNotFound")
    api.delete(f"/leases/{lease['id']}").expect(204)
    api.get(f"/leases/{lease['id']}").refused(404, "LeaseNotFound")


def test_a_plugin_that_no_package_offers_is_named(tmp_path: Path) -> None:
    settings = {"DEFAULT": {"service_plugins": "nonesuch"}}
    with pytest.raises(ValueError, match=r"'nonesuch' as neutrino\.service_plugins"):
        start(tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite", settings)
