"""The topology page with 10,000 ports: no long tasks, lists without an end, and the failure that is found in two clicks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.browser import Browser, Page
from tests.support.neutrino import Caller, Neutrino
from tests.support.ui_cloud import UNLIMITED, huge_cloud

PORTS = 10_000
# Milliseconds of processor time of a task. It is 100 (docs/benchmarks.md), and more where two cores share their caches and
# units; what other processes take meanwhile does not count.
LONGEST = 300


@dataclass(frozen=True)
class Cloud:
    server: Neutrino
    failing: str


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Neutrino({**UNLIMITED, "feed": {"run": True}}) as server:
        yield Cloud(server, huge_cloud(server.url, projects=40, networks=20, ports=PORTS))


@pytest.fixture
def page(browser: Browser, cloud: Cloud) -> Iterator[Page]:
    with browser.page() as opened:
        load(opened, cloud)
        yield opened


def load(page: Page, cloud: Cloud) -> None:
    page.goto(f"{cloud.server.url}/ui/")
    page.wait_for_text("Live", ".connection")
    page.wait_for("/ \\d+ ports$|\u202f\\d+ ports$/.test(document.querySelector('.graph-summary').textContent)")


def test_the_failed_binding_in_two_clicks(page: Page, cloud: Cloud) -> None:
    page.wait_for("!document.querySelector('.badge').hidden")
    page.click("nav a[href='#/health']")
    page.wait_for_text("The binding failed", ".findings")
    page.click(".finding a", containing="vm-failing")
    page.wait_for_text("vm-failing", ".panel h2")
    page.wait_for_text("No driver could bind this port on nowhere", ".panel")


def test_the_project_that_fails_stands_first(page: Page) -> None:
    """What fails most; others after it."""
    page.wait_for("!document.querySelector('.badge').hidden")
    page.wait_for("document.querySelector('.n-project').getAttribute('aria-label').includes('failure')")
    page.wait_for("document.querySelectorAll('.n-project').length >= 40")
    labels = page.evaluate("[...document.querySelectorAll('.n-project')].map((e) => e.getAttribute('aria-label'))")
    failing = ["failure" in label for label in labels]
    assert failing == sorted(failing, reverse=True)
    page.screenshot("large-problems")


def test_a_table_of_all_ports(page: Page, cloud: Cloud) -> None:
    """Elements for what is in view only; the last row is reached, and the filter finds any."""
    page.click("nav a[href='#/ports']")
    page.wait_for_text("10\u202f", ".page-head")
    assert page.count(".grid.fixed tbody tr") < 80
    page.evaluate("document.querySelector('.virtual').scrollTop = 1e9")
    page.wait_for_text("vm-failing", ".grid")
    assert page.count(".grid.fixed tbody tr") < 80
    page.fill("input[name=filter]", "vm-17-123")
    page.wait_for_text("1 port of", ".page-head")
    page.evaluate("location.hash = '#/ports?state=bad'")
    page.wait_for_text("vm-failing", ".grid")
    page.wait_for("document.querySelectorAll('.grid.fixed tbody tr').length === 1")


def test_all_subnets_are_in_the_list(page: Page, cloud: Cloud) -> None:
    page.click("nav a[href='#/subnets']")
    page.wait_for_text("800 subnets", ".page-head")
    page.choose("select[aria-label=Order]", "network")
    page.wait_for_text("net-0-0", ".usage-list")
    assert page.count(".usage-list li") < 60
    page.evaluate("document.querySelector('.virtual').scrollTop = 1e9")
    page.wait_for_text("net-39-19", ".usage-list")
    assert page.count(".usage-list li") < 60


def test_no_task_is_long(browser: Browser, cloud: Cloud) -> None:
    """While the page is loaded, in any view, and while a port changes."""
    api = Caller(cloud.server.url)
    longest: dict[str, float] = {}
    with browser.page() as page:
        with page.tasks() as tasks:
            load(page, cloud)
        longest["load"] = max(tasks)
        for at, view in enumerate(("topology", "ports", "networks", "routers", "hosts", "subnets", "health", "trace")):
            with page.tasks() as tasks:
                page.evaluate(f"location.hash = '#/{view}'")
                page.wait_for(f"document.querySelector('.view-{view}') !== null")
                name = f"changed-{at}"
                assert api("PUT", f"/v2.0/ports/{cloud.failing}", {"port": {"description": name}}).status_code == 200
                count = "performance.getEntriesByType('resource').filter((e) => e.name.includes('CLOUD')).length"
                page.wait_for(f"{count.replace('CLOUD', cloud.failing)} > {at}")
            longest[view] = max(tasks)
    assert {view: task for view, task in longest.items() if task > LONGEST} == {}


def test_a_network_with_many_ports_lists_them_all(page: Page, cloud: Cloud) -> None:
    api = Caller(cloud.server.url)
    networks = api("GET", "/v2.0/networks?name=net-0-0").json()["networks"]
    made = [{"network_id": networks[0]["id"], "name": f"many-{at}", "fixed_ips": []} for at in range(200)]
    assert api("POST", "/v2.0/ports", {"ports": made}).status_code == 201
    page.evaluate(f"location.hash = '#/topology?select=network:{networks[0]['id']}'")
    page.wait_for("document.querySelector('.long-list') !== null")
    page.wait_for("document.querySelector('.long-list li[aria-setsize]').getAttribute('aria-setsize') >= 200")
    assert page.count(".long-list li") < 60
    page.evaluate("(() => { const e = document.querySelector('.long-list'); e.scrollTop = e.scrollHeight; })()")
    page.wait_for_text("vm-0-240", ".long-list")
    assert "more" not in page.evaluate("document.querySelector('.long-list').textContent")
