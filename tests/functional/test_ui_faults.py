"""Faults that the topology page has had: each test fails on the page as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import Browser, Page
from tests.support.neutrino import Caller, Neutrino
from tests.support.ui_cloud import UNLIMITED, small_cloud

Cloud = dict[str, dict[str, Any]]
OTHER = f"{7:032x}"  # a project


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({**UNLIMITED, "feed": {"run": True}}) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Neutrino) -> Caller:
    return Caller(server.url)


@pytest.fixture(scope="module")
def cloud(api: Caller, server: Neutrino) -> Cloud:
    """A small cloud, and in another project a network with a port that has the name and the address of one of it."""
    found = small_cloud(api)
    other = Caller(server.url, {"X-Project-Id": OTHER})
    network = found["twin"] = other.create("network", name="twin")
    subnet = other.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", enable_dhcp=False)
    address = {"subnet_id": subnet["id"], "ip_address": found["web-0"]["fixed_ips"][0]["ip_address"]}
    found["web-0 twin"] = other.create("port", name="web-0", network_id=network["id"], fixed_ips=[address])
    found["failed"] = api.create(
        "port",
        name="failed",
        network_id=found["alone"]["id"],
        **{"binding:host_id": "nowhere"},
        device_owner="compute:x",
    )
    return found


def opened(page: Page, server: Neutrino, place: str = "") -> Page:
    page.goto(f"{server.url}/ui/{place}")
    page.wait_for_text("Live", ".connection")
    return page


@pytest.fixture
def page(browser: Browser, server: Neutrino, cloud: Cloud) -> Iterator[Page]:
    with browser.page() as made:
        yield opened(made, server)


def before_load(page: Page, script: str) -> None:
    page.call("Page.addScriptToEvaluateOnNewDocument", source=script)


def go(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = {place!r}")


RECORD = """window.traces = []; const plain = window.fetch; window.fetch = (url, options) => {
  if (String(url).includes('/traces')) window.traces.push(JSON.parse(options.body).trace);
  return plain(url, options); };"""


# --- projects ---------------------------------------------------------------------------------------------------------


def test_all_projects_can_be_chosen_again(page: Page, cloud: Cloud) -> None:
    page.choose("select.project", OTHER)
    page.wait_until_gone("edge", ".n-router")
    page.click("nav a[href='#/health']")
    page.wait_for(f"location.hash.includes('{OTHER}') && location.hash.startsWith('#/health')")
    page.choose("select.project", "")
    page.wait_for("!location.hash.includes('project')")
    page.click("nav a[href='#/topology']")
    page.wait_for_text("edge", ".n-router")
    assert page.evaluate("document.querySelector('select.project').value") == ""


def test_back_leads_to_what_was_shown(page: Page, cloud: Cloud) -> None:
    page.choose("select.project", OTHER)
    page.wait_until_gone("edge", ".n-router")
    page.evaluate("history.back()")
    page.wait_for_text("edge", ".n-router")
    page.wait_for("document.querySelector('select.project').value === ''")


# --- details ----------------------------------------------------------------------------------------------------------


def test_a_deep_link_has_changes_and_all_attributes(page: Page, server: Neutrino, cloud: Cloud) -> None:
    go(page, f"#/topology?select=port:{cloud['web-1']['id']}")
    page.call("Page.reload")
    page.wait_for_text("web-1", ".panel h2")
    page.click(".panel summary", containing="All attributes")
    page.wait_for_text("propagate_uplink_status", ".attributes")
    page.click(".panel summary", containing="Changes")
    page.wait_for("document.querySelector('.changes') !== null")


def test_focus_and_folds_stay_when_something_changes(page: Page, api: Caller, cloud: Cloud) -> None:
    """Two updates of the shown object itself."""
    port = api.create("port", name="steady", network_id=cloud["web"]["id"])
    go(page, f"#/topology?select=port:{port['id']}")
    page.wait_for_text("steady", ".panel h2")
    page.click(".panel summary", containing="All attributes")
    page.wait_for_text("mac_address", ".attributes")
    page.evaluate("document.querySelector('.panel .copy').focus()")
    page.evaluate("window.focused = document.activeElement; document.querySelector('.panel-body').scrollTop = 40")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.panel .copyable code'))")
    for name in ("steadier", "steadiest"):
        api("PUT", f"/v2.0/ports/{port['id']}", {"port": {"name": name}})
        page.wait_for_text(name, ".panel h2")
        page.wait_for_text(name, ".attributes")
    assert page.evaluate("document.activeElement === window.focused && window.focused.isConnected")
    assert page.evaluate("document.querySelector('.panel-body').scrollTop") == 40
    assert page.evaluate("String(getSelection())") == port["id"]
    assert page.evaluate("[...document.querySelectorAll('.panel details')].some((each) => each.open)")
    api("DELETE", f"/v2.0/ports/{port['id']}")


@pytest.mark.parametrize("view", ["topology", "hosts", "health", "subnets"])
def test_focus_stays_in_every_view(page: Page, api: Caller, view: str) -> None:
    """Of the first link of the view's main part, while another object changes."""
    go(page, f"#/{view}")
    found = {
        "topology": ".n-network",
        "hosts": ".host-card a",
        "health": ".finding summary, .finding a",
        "subnets": ".usage-list a",
    }
    page.wait_for(f"document.querySelector('main {found[view]}') !== null")
    page.evaluate(f"window.focused = document.querySelector('main {found[view]}'); window.focused.focus()")
    network = api.create("network", name="passing")
    page.wait_for(f"performance.getEntriesByType('resource').some((e) => e.name.includes('{network['id']}'))")
    api("DELETE", f"/v2.0/networks/{network['id']}")
    assert page.evaluate("window.focused.isConnected")
    assert page.evaluate("document.activeElement === window.focused")


@pytest.mark.parametrize("select", ["constructor:x", "__proto__:x", "toString:valueOf"])
def test_a_kind_that_does_not_exist(page: Page, select: str) -> None:
    for view in ("topology", "hosts", "subnets"):
        go(page, f"#/{view}?select={select}")
        page.wait_for_text("does not exist, or you may not see it", ".panel")


def test_copying_without_tls_works_or_says_why_not(page: Page, cloud: Cloud) -> None:
    page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error('no TLS'))")
    go(page, f"#/topology?select=port:{cloud['web-1']['id']}")
    page.wait_for_text("web-1", ".panel h2")
    page.click(".copy")
    page.wait_for_text("Copied.", "#announcer")
    page.evaluate("document.execCommand = () => false")
    page.click(".copy")
    page.wait_for_text("press Ctrl+C", "#announcer")
    assert page.evaluate("String(getSelection())") == page.texts(".copyable code")[0]


# --- traces -----------------------------------------------------------------------------------------------------------


def test_a_link_traces_from_its_own_port(browser: Browser, server: Neutrino, cloud: Cloud) -> None:
    """Another port has the same name and address; a link runs its trace, with all that it asks."""
    ids = [cloud["web-0 twin"]["id"], cloud["web-0"]["id"]]
    with browser.page() as page:
        before_load(page, RECORD)
        for at, port in enumerate(ids):
            more = "protocol=tcp&port=80&size=100&version=4&flows=1"
            opened(page, server, f"#/trace?from={port}&to=10.0.1.1&{more}") if at == 0 else go(
                page, f"#/trace?from={port}&to=10.0.1.1&{more}"
            )
            page.wait_for(f"window.traces.length === {at + 1}")
            assert page.evaluate(f"window.traces[{at}]") == {
                "source_port_id": port,
                "destination_address": "10.0.1.1",
                "protocol": "tcp",
                "destination_port": 80,
                "packet_size": 100,
                "ip_version": 4,
                "flows": True,
            }
        texts = page.evaluate("document.querySelector('input[name=from]').value")
        assert texts.startswith("web-0 (")
        assert " on web, " in texts


def test_the_path_to_a_floating_ip(page: Page, cloud: Cloud) -> None:
    """By the external network; the numbers on the graph are those of the list."""
    floating = cloud["floating"]["floating_ip_address"]
    go(page, f"#/trace?from=external&to={floating}")
    page.wait_for_text("Dropped", ".verdict")
    edges = page.evaluate("[...document.querySelectorAll('.edge.on-path')].map((e) => [e.dataset.from, e.dataset.to])")
    assert edges == [[f"router:{cloud['edge']['id']}", f"network:{cloud['public']['id']}"]]
    numbers = page.texts(".step-number")
    assert numbers == [str(at + 1) for at in range(len(numbers))]
    assert page.texts(".path-marks .step:not(.end) text") == ["1"]
    assert page.count(".path-marks .end.dropped") == 1


def test_verdict_and_path_belong_together(page: Page, cloud: Cloud) -> None:
    """After Back, and after a form that is invalid."""
    floating = cloud["floating"]["floating_ip_address"]
    go(page, f"#/trace?from=external&to={floating}")
    page.wait_for_text("router-not-scheduled", ".verdict")
    page.fill("input[name=from]", "db-7")
    page.fill("input[name=to]", cloud["web-0"]["mac_address"])
    page.click(".trace-form [type=submit]")
    page.wait_for_text("port-unbound", ".verdict")
    key = f"port:{cloud['db-7']['id']}"
    page.wait_for(f"document.querySelector('.node.on-path[data-key=\"{key}\"]') !== null")
    page.evaluate("history.back()")
    page.wait_for_text("router-not-scheduled", ".verdict")
    page.wait_for(f"document.querySelector('.node.on-path[data-key=\"{key}\"]') === null")
    page.wait_for("document.querySelectorAll('.edge.on-path').length === 1")
    page.fill("input[name=from]", "web-0")  # two ports have this name
    page.click(".trace-form [type=submit]")
    page.wait_for_text("2 ports have this name", ".field-from")
    assert page.count(".verdict") == 0
    assert page.count(".on-path") == 0


# --- health -----------------------------------------------------------------------------------------------------------


def test_topology_and_health_agree(page: Page, cloud: Cloud) -> None:
    """A failed binding is a failure in both, also of a router whose own status is ACTIVE; a port without a host is none."""
    label = "document.querySelector(\"[data-key='KEY']\").getAttribute('aria-label')"
    page.wait_for(f"{label.replace('KEY', 'router:' + cloud['edge']['id'])}.includes('no L3 agent hosts it')")
    page.wait_for(f"{label.replace('KEY', 'port:' + cloud['web-0']['id'])}.includes('not bound')")
    page.wait_for(f"{label.replace('KEY', 'port:' + cloud['failed']['id'])}.includes('binding failed')")
    page.click("nav a[href='#/health']")
    page.wait_for_text("2 failures", ".page-head")
    page.wait_for_text("2 problems", ".badge")
    page.wait_for_text("1 with a failed binding", ".tile")
    page.wait_for_text("not bound", ".tile")
    assert "down" not in page.evaluate("document.querySelector('.tile:nth-child(2) .tile-text').textContent")
    page.click(".finding a", containing="failed")
    page.wait_for_text("binding failed", ".facts")


def test_a_router_counts_all_its_networks(page: Page, api: Caller, cloud: Cloud) -> None:
    """Also one that is drawn below another router."""
    second = api.create("router", name="second")
    port = api.create("port", network_id=cloud["web"]["id"], name="second-leg")
    answer = api("PUT", f"/v2.0/routers/{second['id']}/add_router_interface", {"port_id": port["id"]})
    assert answer.status_code == 200, answer.text
    page.wait_for_text("second", ".n-router")
    labels = f"document.querySelector(\"[data-key='router:{second['id']}']\").getAttribute('aria-label')"
    page.wait_for(f"{labels}.includes(', 1 network')")
    api("PUT", f"/v2.0/routers/{second['id']}/remove_router_interface", {"port_id": port["id"]})
    api("DELETE", f"/v2.0/routers/{second['id']}")


# --- what is shown before all is known --------------------------------------------------------------------------------

HOLD = """const plain = window.fetch; window.held = []; window.fetch = (url, options) => {
  const hold = window.holds?.test(String(url)) ? new Promise((resolve) => window.held.push(resolve)) : null;
  return hold ? hold.then(() => plain(url, options)) : plain(url, options); };"""


def test_nothing_false_is_shown_while_loading(browser: Browser, server: Neutrino, cloud: Cloud) -> None:
    with browser.page() as page:
        before_load(page, HOLD + "window.holds = /v2.0.(ports|networks)\\?/;")
        page.goto(f"{server.url}/ui/")
        page.wait_for_text("networks loading", ".graph-summary")
        assert "0 networks" not in page.evaluate("document.body.textContent")
        assert "No networks yet" not in page.evaluate("document.body.textContent")
        page.evaluate("window.holds = /v2.0.ports/; window.held.forEach((release) => release())")
        page.wait_for_text("ports loading", ".graph-summary")
        page.wait_for_text("edge", ".n-router")
        assert "0 networks" not in page.evaluate("document.body.textContent")
        page.wait_for_text("5 networks", ".graph-summary")
        page.evaluate("window.holds = null; window.held.forEach((release) => release())")
        page.wait_for_text("Live", ".connection")
        page.wait_for("/ \\d+ ports$/.test(document.querySelector('.graph-summary').textContent)")


def test_a_server_that_hangs_is_not_live(browser: Browser, server: Neutrino, cloud: Cloud) -> None:
    with browser.page() as page:
        before_load(page, HOLD)
        opened(page, server)
        page.evaluate("window.holds = /changes/")
        page.wait_for_text("No answer", ".connection", 15)
        page.wait_for_text("has not answered for 5 seconds", ".banner")
        page.evaluate("window.holds = null; window.held.forEach((release) => release())")
        page.wait_for_text("Live", ".connection")
        page.wait_for("document.querySelector('.banner').hidden")


def test_hits_of_a_search_tell_where_they_are(page: Page, cloud: Cloud) -> None:
    """Of equal names by network and project; projects are found too."""
    page.fill(".search input", "web-0")
    page.wait_for("document.querySelectorAll('#search-results li').length === 2")
    texts = page.texts("#search-results li small:not(.kind)")
    assert len(set(texts)) == 2
    assert any("twin" in text for text in texts)
    page.fill(".search input", OTHER[-8:])
    page.wait_for_text("Project", "#search-results li .kind")
    page.press("Enter")
    page.wait_for(f"location.hash === '#/topology?project={OTHER}'")
