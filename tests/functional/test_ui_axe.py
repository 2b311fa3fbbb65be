"""The topology page examined by axe-core (from npm, for tests alone): every view, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, Page
from tests.support.neutrino import Caller, Neutrino
from tests.support.ui_cloud import UNLIMITED, small_cloud

AXE = Path(__file__).parents[2] / "build/page/node_modules/axe-core/axe.min.js"
RUN = """axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map(
  ({id, help, nodes}) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`))"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with Neutrino({**UNLIMITED, "feed": {"run": True}}) as server:
        api = Caller(server.url)
        cloud: dict[str, dict[str, Any]] = small_cloud(api)
        failing = {"binding:host_id": "nowhere", "device_owner": "compute:x"}
        api.create("port", name="failed", network_id=cloud["alone"]["id"], **failing)
        with browser.page() as opened:
            opened.goto(f"{server.url}/ui/")
            opened.wait_for_text("Live", ".connection")
            opened.wait_for("document.querySelectorAll('.n-port').length >= 3")
            opened.evaluate(f"window.ids = {json.dumps({name: each['id'] for name, each in cloud.items()})}")
            opened.evaluate(AXE.read_text() + "; undefined")
            yield opened


VIEWS = {
    "topology": "#/topology",
    "port": "#/topology?select=port:${ids['web-0']}",
    "network": "#/topology?select=network:${ids.web}",
    "router": "#/topology?select=router:${ids.edge}",
    "ports": "#/ports?select=port:${ids['db-7']}",
    "networks": "#/networks?q=web",
    "routers": "#/routers",
    "hosts": "#/hosts?select=host:nowhere",
    "health": "#/health",
    "subnets": "#/subnets?select=subnet:${ids['web-v4']}",
    "timeline": "#/timeline",
    "trace": "#/trace?from=external&to=203.0.113.1",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(page: Page, view: str, theme: str) -> None:
    page.prefer(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
    page.evaluate(f"location.hash = `{VIEWS[view]}`")
    name = VIEWS[view].partition("?")[0].removeprefix("#/")
    page.wait_for(f"document.querySelector('.view-{name} h1, .view-{name} .panel h2, .view-{name} .node') !== null")
    if name == "trace":
        page.wait_for("document.querySelector('.trace-result').children.length > 0 && !document.querySelector('.busy')")
    assert page.evaluate(RUN) == []
