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


def test_what_changed_of_late_and_the_history_of_an_object(page: Page, cloud: Cloud, server: Neutrino) -> None:
    api = Caller(server.url)
    made = api.create("port", name="before", network_id=cloud["db"]["id"])
    assert api("PUT", f"/v2.0/ports/{made['id']}", {"port": {"name": "after <b>"}}).status_code == 200
    page.click("nav a[href='#/timeline']")
    page.wait_for_text("before → after <b>", ".timeline")
    page.choose("select[name=kind]", "port")
    page.wait_for("location.hash === '#/timeline?kind=port'")
    page.wait_for_text("before → after <b>", ".timeline")
    page.click(".timeline a.object-link", containing="after <b>")
    page.wait_for_text("after <b>", ".panel h2")
    page.click(".panel a", containing="History")
    page.wait_for("document.querySelectorAll('.timeline > li').length === 2")
    page.wait_for_text("created", ".timeline")
    page.screenshot("timeline")
    assert api("DELETE", f"/v2.0/ports/{made['id']}").status_code == 204
    page.wait_for_text("deleted", ".timeline")


def test_rates_in_words_and_as_a_line(page: Page) -> None:
    columns = ["at", "bits_in", "bits_out", "packets_in", "packets_out", "drops_in", "drops_out"]
    found = page.module("js/data/rates.js", "samplesOf", [[1, 812_000, 40, 9, 9, 2, 1]], columns)
    assert found == [{"at": 1, "bitsIn": 812_000, "bitsOut": 40, "drops": 3}]
    texts = [page.module("js/data/rates.js", "rateText", bits) for bits in (0, 40, 812_345, 2_500_000, 10_000_000_000)]
    assert texts == ["0 bit/s", "40 bit/s", "812 kbit/s", "2.5 Mbit/s", "10 Gbit/s"]
    size = {"width": 100, "height": 20, "most": 4}
    assert page.module("js/data/rates.js", "pointsOf", [0, 4, 2], size) == "0.0,20.0 50.0,0.0 100.0,10.0"
    page.evaluate(
        "import(new URL('js/views/sparkline.js', location.href.split('#')[0])).then((m) => {"
        " window.line = m.sparkline([{at: 1, bitsIn: 812000, bitsOut: 40, drops: 3}]).textContent; })"
    )
    assert page.evaluate("window.line") == "↓ 812 kbit/s ↑ 40 bit/s3 dropped"


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
        page.wait_for("/ports$/.test(document.querySelector('.graph-summary').textContent)")  # all are read
        where = "[...document.querySelectorAll('.node')].map((e) => [e.dataset.key, e.getBoundingClientRect().x])"
        before = page.evaluate(where)
        page.click(f"[data-key='network:{cloud['web']['id']}']")
        page.wait_for_text("web", ".panel h2")
        assert page.evaluate(where) == before
