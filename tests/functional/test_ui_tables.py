"""Tables of ports, networks and routers, the overview of problems, and what an operator copies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import Browser, Page
from tests.support.neutrino import Caller, Neutrino
from tests.support.ui_cloud import UNLIMITED, small_cloud

Cloud = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({**UNLIMITED, "feed": {"run": True}}) as running:
        yield running


@pytest.fixture(scope="module")
def cloud(server: Neutrino) -> Cloud:
    api = Caller(server.url)
    found = small_cloud(api)
    failing = {"binding:host_id": "nowhere", "device_owner": "compute:x"}
    found["failed"] = api.create("port", name="failed", network_id=found["alone"]["id"], **failing)
    return found


@pytest.fixture
def page(browser: Browser, server: Neutrino, cloud: Cloud) -> Iterator[Page]:
    with browser.page() as opened:
        opened.goto(f"{server.url}/ui/")
        opened.wait_for_text("Live", ".connection")
        yield opened


def names(page: Page) -> list[str]:
    return page.texts(".grid.fixed tbody tr:not(.spacer) td:first-child")


def test_filter_order_and_search_are_in_the_address(page: Page, cloud: Cloud, server: Neutrino) -> None:
    page.click("nav a[href='#/ports']")
    page.wait_for_text("16 ports", ".page-head")
    page.fill("input[name=filter]", "db-")
    page.wait_for_text("8 ports of 16", ".page-head")
    assert names(page) == [f"db-{at}" for at in range(8)]
    page.click(".sort", containing="Name")
    page.wait_for("location.hash === '#/ports?q=db-&sort=-name'")
    page.wait_for("document.querySelector('.grid.fixed tbody a').textContent === 'db-7'")
    page.wait_for("document.querySelector('th[aria-sort=descending]').textContent === 'Name'")
    page.call("Page.reload")
    page.wait_for_text("8 ports of 16", ".page-head")
    assert names(page) == [f"db-{at}" for at in reversed(range(8))]
    assert page.evaluate("document.querySelector('input[name=filter]').value") == "db-"
    page.evaluate("location.hash = '#/ports'")
    page.choose("select[name=state]", "problems")
    page.wait_for("location.hash === '#/ports?state=problems'")
    page.wait_for_text("1 port of 16", ".page-head")
    page.click(".grid.fixed tbody a", containing="failed")
    page.wait_for_text("failed", ".panel h2")
    assert page.evaluate("location.hash").startswith("#/ports?state=problems&select=port")
    page.screenshot("table-ports")
    page.evaluate("history.back()")
    page.wait_for("document.querySelector('.panel').hidden")


def test_tables_of_networks_and_routers(page: Page, cloud: Cloud) -> None:
    page.click("nav a[href='#/networks']")
    page.wait_for_text("4 networks", ".page-head")
    assert names(page) == ["alone", "db", "public", "web"]
    page.click(".sort", containing="Ports")
    page.wait_for("location.hash === '#/networks?sort=ports'")
    page.click("nav a[href='#/routers']")
    page.wait_for_text("1 router", ".page-head")
    page.wait_for_text("no L3 agent hosts it", ".grid")
    page.click(".grid.fixed tbody a", containing="edge")
    page.wait_for_text("Runs on (0)", ".panel")


def test_only_problems_of_the_topology(page: Page, cloud: Cloud) -> None:
    page.wait_for_text("4 networks", ".graph-summary")
    page.click(".graph-filter")
    page.wait_for("location.hash === '#/topology?problems=1'")
    page.wait_for_text("1 network", ".graph-summary")
    assert page.texts(".n-network .t-name") == ["alone"]
    assert page.texts(".n-router .t-name") == ["edge"]
    label = page.evaluate("document.querySelector('.n-network').getAttribute('aria-label')")
    assert "1 failure" in label
    page.screenshot("only-problems")
    page.click(".graph-filter")
    page.wait_for_text("4 networks", ".graph-summary")


def test_commands_can_be_copied(page: Page, cloud: Cloud) -> None:
    page.evaluate(f"location.hash = '#/topology?select=port:{cloud['failed']['id']}'")
    page.click(".panel summary", containing="Commands")
    page.wait_for_text(f"openstack port show {cloud['failed']['id']}", ".commands")
    page.evaluate("location.hash = '#/hosts?select=host:nowhere'")
    page.wait_for_text("nowhere", ".panel h2")
    page.wait_for_text("openstack port list --host nowhere", ".commands")
    page.wait_for_text("failed", ".panel .links")
    hostile = page.module("js/data/commands.js", "commandsFor", "host", {"name": "h; rm -rf 'x'"})
    assert hostile[1] == "openstack port list --host 'h; rm -rf '\\''x'\\'''"


def test_screen_readers_meet_relations_in_order(page: Page, cloud: Cloud) -> None:
    """The external network, the router on it, its networks, each followed by its ports."""
    page.wait_for("document.querySelectorAll('.n-port').length > 2")
    order = page.evaluate("[...document.querySelectorAll('.nodes [data-key]')].map((e) => e.dataset.key)")
    place = {key: at for at, key in enumerate(order)}
    kinds = {"public": "network", "edge": "router", "web": "network", "web-0": "port", "web-1": "port"}
    at = {name: place[f"{kind}:{cloud[name]['id']}"] for name, kind in kinds.items()}
    assert at["public"] < at["edge"] < at["web"] < at["web-0"] < at["web-1"]
    assert at["web-0"] == at["web"] + 1


@pytest.mark.parametrize("width", [320, 390, 600, 768, 860, 1024, 1180, 1280, 1400])
def test_nothing_overflows_sideways(page: Page, cloud: Cloud, width: int) -> None:
    page.resize(width, 800)
    for place in (
        f"topology?select=port:{cloud['failed']['id']}",
        "ports",
        "networks",
        "routers",
        f"ports?select=port:{cloud['failed']['id']}",
        "hosts?select=host:nowhere",
        "health",
        "subnets",
        "trace",
    ):
        page.evaluate(f"location.hash = '#/{place}'")
        page.wait_for(f"document.querySelector('.view-{place.partition('?')[0]}') !== null")
        found = page.evaluate("[document.documentElement.scrollWidth, document.querySelector('main').scrollWidth]")
        assert max(found) <= width, place
    page.screenshot(f"width-{width}")


def test_a_phone_starts_stacked(browser: Browser, server: Neutrino, cloud: Cloud) -> None:
    """Networks below each other; the same cards stay where they are when a panel opens."""
    with browser.page(390, 780) as page:
        page.goto(f"{server.url}/ui/")
        page.wait_for_text("Live", ".connection")
        page.wait_for("document.querySelectorAll('.n-network').length === 3")
        boxes = "[...document.querySelectorAll('.n-network')].map((e) => e.getBoundingClientRect())"
        found = sorted(page.evaluate(f"{boxes}.map((r) => [r.top, r.bottom])"))
        assert all(above[1] < below[0] for above, below in itertools.pairwise(found)), "no two stand side by side"
    with browser.page() as page:
        page.goto(f"{server.url}/ui/")
        page.wait_for_text("Live", ".connection")
        page.wait_for("document.querySelectorAll('.n-network').length === 3")
        where = "[...document.querySelectorAll('.node')].map((e) => [e.dataset.key, e.getBoundingClientRect().x])"
        before = page.evaluate(where)
        page.click(f"[data-key='network:{cloud['web']['id']}']")
        page.wait_for_text("web", ".panel h2")
        assert page.evaluate(where) == before
