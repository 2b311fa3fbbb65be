"""The topology page in a browser, with a server without hosts: graph, details, search, keyboard, hostile names, sizes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import Browser, Page
from tests.support.neutrino import Caller, Neutrino
from tests.support.ui_cloud import UNLIMITED, large_cloud, small_cloud


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({**UNLIMITED, "feed": {"run": True}}) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Neutrino) -> Caller:
    return Caller(server.url)


@pytest.fixture(scope="module")
def cloud(api: Caller) -> dict[str, dict[str, Any]]:
    return small_cloud(api)


@pytest.fixture
def page(browser: Browser, server: Neutrino, cloud: dict[str, dict[str, Any]]) -> Iterator[Page]:
    with browser.page() as opened:
        opened.goto(f"{server.url}/ui/")
        opened.wait_for_text("Live", ".connection")
        opened.wait_for("document.querySelectorAll('.n-port').length >= 3")
        yield opened


# Clicks on the other 19 projects; the last one draws all 500 networks.
EXPAND_ALL = """(async () => {
  for (let n = 0; n < 19; n += 1) {
    document.querySelector("[aria-label='Fit to the window']").click();
    while (!document.querySelector('.n-project')) await new Promise(requestAnimationFrame);
    document.querySelector('.n-project').dispatchEvent(new MouseEvent('click', {bubbles: true}));
  }
})()"""


def go(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = {place!r}")


def titles(page: Page, kind: str) -> list[str]:
    return sorted(page.texts(f".n-{kind} .t-name"))


def test_the_folder_without_a_slash_leads_to_the_page(browser: Browser, server: Neutrino) -> None:
    with browser.page() as page:
        page.goto(f"{server.url}/ui")
        page.wait_for("location.pathname === '/ui/'")
        page.wait_for_text("Live", ".connection")


def test_the_graph_shows_networks_routers_ports_and_floating_ips(page: Page, cloud: dict[str, Any]) -> None:
    assert titles(page, "external") == ["public"]
    assert titles(page, "router") == ["edge"]
    assert titles(page, "network") == ["alone", "db", "web"]
    label = page.evaluate("document.querySelector('.n-port').getAttribute('aria-label')")
    assert label.startswith("Port ")
    floating = cloud["floating"]["floating_ip_address"]
    page.wait_for_text(floating, ".n-port")
    edges = page.evaluate("[...document.querySelectorAll('.edge')].map((e) => [e.dataset.from, e.dataset.to])")
    ids = {name: cloud[name]["id"] for name in ("edge", "web", "db", "public", "alone")}
    assert [f"router:{ids['edge']}", f"network:{ids['public']}"] in edges
    assert [f"router:{ids['edge']}", f"network:{ids['web']}"] in edges
    assert not any(f"router:{ids['edge']}" == start and ids["alone"] in end for start, end in edges)
    page.screenshot("topology")


def test_details_link_to_other_objects(page: Page, cloud: dict[str, Any]) -> None:
    page.click(f"[data-key='port:{cloud['web-0']['id']}']")
    page.wait_for_text("web-0", ".panel h2")
    page.wait_for_text(cloud["web-0"]["mac_address"], ".facts")
    page.screenshot("details-port")
    page.click(".facts a", containing="web")
    page.wait_for_text("Network", ".panel-kind")
    page.click(".panel a", containing="edge")
    page.wait_for_text("Router", ".panel-kind")
    page.click(".panel a", containing=cloud["floating"]["floating_ip_address"])
    page.wait_for_text("Floating IP", ".panel-kind")
    page.evaluate("history.back()")
    page.wait_for_text("Router", ".panel-kind")
    page.click(".panel summary", containing="All attributes")
    page.wait_for_text("enable_ndp_proxy", ".attributes")
    page.click(".panel summary", containing="Changes")
    page.wait_for("document.querySelectorAll('.fold')[0].querySelector('.changes, .muted, .notice') !== null")
    page.click("[aria-label='Close details']")
    page.wait_for("document.querySelector('.panel').hidden")
    page.wait_for(f"document.activeElement.getAttribute('data-key') === 'router:{cloud['edge']['id']}'")


def test_rules_of_a_security_group_in_words(page: Page, cloud: dict[str, Any]) -> None:
    go(page, f"#/topology?select=security_group:{cloud['web-0']['security_groups'][0]}")
    page.wait_for_text("Out to anywhere: IPv4, any protocol", ".rules")


def test_a_deep_link_expands_what_hides_the_object(browser: Browser, server: Neutrino, cloud: dict[str, Any]) -> None:
    port = cloud["db-7"]["id"]  # the network has more ports than are drawn at first
    with browser.page() as page:
        page.goto(f"{server.url}/ui/#/topology?select=port:{port}")
        page.wait_for_text("db-7", ".panel h2")
        page.wait_for(f"document.querySelector(\"[data-key='port:{port}'].selected\") !== null")


def test_an_object_that_does_not_exist(page: Page) -> None:
    go(page, "#/topology?select=network:nothing")
    page.wait_for_text("does not exist, or you may not see it", ".panel")
    go(page, "#/nonsense?select=what")
    page.wait_for("document.querySelector('nav [aria-current]').textContent === 'Topology'")


def test_search_finds_by_name_address_and_mac(page: Page, cloud: dict[str, Any]) -> None:
    port = cloud["db-3"]
    for text in ("db-3", port["fixed_ips"][0]["ip_address"], port["mac_address"], port["id"][:13]):
        page.fill(".search input", text)
        page.wait_for_text("db-3", "#search-results li")
    page.press("Enter")
    page.wait_for_text("db-3", ".panel h2")
    page.wait_for(f"document.querySelector(\"[data-key='port:{port['id']}'].selected\") !== null")
    page.fill(".search input", "no such thing")
    page.wait_for_text("Nothing matches", "#search-results")


def test_the_graph_by_keyboard(page: Page, cloud: dict[str, Any]) -> None:
    focused = "document.activeElement.getAttribute('data-key')"
    for _ in range(20):
        page.press("Tab")
        if page.evaluate(focused):
            break
    page.wait_for(f"{focused} === 'network:{cloud['public']['id']}'")
    page.press("ArrowDown")
    page.wait_for(f"{focused} === 'router:{cloud['edge']['id']}'")
    page.press("Enter")
    page.wait_for_text("edge", ".panel h2")
    page.press("Escape")
    page.wait_for("document.querySelector('.panel').hidden")
    for _ in range(6):
        page.press("ArrowDown")
    assert "port:" in page.evaluate(focused) or "network:" in page.evaluate(focused)
    go(page, f"#/topology?select=network:{cloud['db']['id']}")
    page.wait_for_text("db", ".panel h2")
    page.evaluate(f"document.querySelector(\"[data-key='network:{cloud['db']['id']}']\").focus()")
    expanded = f"document.querySelector(\"[data-key='network:{cloud['db']['id']}']\").getAttribute('aria-expanded')"
    page.wait_for(f"{expanded} === 'false'")
    page.press("Space")
    page.wait_for(f"{expanded} === 'true'")
    page.wait_for_text("db-7", ".n-port")
    page.wait_for(f"{focused} === 'network:{cloud['db']['id']}'")
    page.press("Space")
    page.wait_for(f"{expanded} === 'false'")


def test_pan_and_zoom(page: Page) -> None:
    transform = "document.querySelector('.content').style.transform"
    first = page.evaluate(transform)
    page.drag((700, 700), (760, 720))
    page.wait_for(f"{transform} !== {first!r}")
    moved = page.evaluate(transform)
    assert page.evaluate("document.querySelector('.panel').hidden"), "a drag is no click"
    page.wheel(700, 400, -300)
    page.wait_for(f"{transform} !== {moved!r}")
    page.click("[aria-label='Fit to the window']")
    page.wait_for(f"{transform} === {first!r}")


def test_changes_appear_without_a_reload(page: Page, api: Caller, cloud: dict[str, Any]) -> None:
    page.evaluate("window.same = true")
    network = api.create("network", name="newcomer")
    page.wait_for_text("newcomer", ".n-network")
    api("PUT", f"/v2.0/networks/{network['id']}", {"network": {"name": "renamed"}})
    page.wait_for_text("renamed", ".n-network")
    page.wait_until_gone("newcomer", ".n-network")
    assert api("DELETE", f"/v2.0/networks/{network['id']}").status_code == 204
    page.wait_until_gone("renamed", ".n-network")
    assert page.evaluate("window.same") is True


def test_disconnected_is_shown_and_ends(page: Page) -> None:
    page.set_offline(True)
    page.wait_for_text("Disconnected", ".connection")
    page.wait_for_text("What you see is from", ".banner")
    page.screenshot("disconnected")
    assert titles(page, "router") == ["edge"], "what is known stays"
    page.set_offline(False)
    page.click(".banner button")
    page.wait_for_text("Live", ".connection")
    page.wait_for("document.querySelector('.banner').hidden")


def test_subnets_have_bars(page: Page, cloud: dict[str, Any]) -> None:
    page.click("nav a[href='#/subnets']")
    page.wait_for_text("db-v4", ".usage-list")
    page.wait_for_text("9 of 253 used", ".usage-list")  # eight ports and the router
    assert page.texts(".usage-list .usage-name a")[0] == "db-v4"
    page.fill("input[name=filter]", "web")
    page.wait_for("document.querySelectorAll('.usage-list li').length === 1")
    page.click(".usage-list a", containing="web-v4")
    page.wait_for_text("Subnet", ".panel-kind")
    page.wait_for_text("10.0.0.0/24", ".facts")
    page.screenshot("subnets")


def test_views_without_hosts(page: Page) -> None:
    page.click("nav a[href='#/hosts']")
    page.wait_for_text("No host has reported yet")
    page.screenshot("hosts-none")
    page.click("nav a[href='#/health']")
    page.wait_for_text("no host has reported yet", ".tile")
    page.wait_for_text("round trip", ".tile")  # of the status document
    page.screenshot("health-no-hosts")


def test_themes(page: Page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.prefer(prefers_color_scheme="dark")
    page.wait_for(f"{background} !== {light!r}")
    page.screenshot("topology-dark")
    page.click("[aria-label^='Theme: system']")
    page.wait_for(f"{background} === {light!r}")
    page.call("Page.reload")
    page.wait_for("document.querySelector(\"[aria-label^='Theme: light']\") !== null")
    page.wait_for(f"{background} === {light!r}")


PAIRS = [
    *((name, ground) for name in ("text", "muted", "accent") for ground in ("bg", "surface", "raised")),
    *((name, ground) for name in ("ok", "warn", "bad") for ground in ("surface", f"{name}-soft")),
    *((name, "surface") for name in ("external", "network", "router")),
    ("text", "router-soft"),
    ("muted", "router-soft"),
    ("text", "accent-soft"),
    ("accent", "accent-soft"),
    ("on-accent", "accent"),
    ("warn", "warn-soft"),
]
CONTRAST = """(([a, b]) => {
  const light = (name) => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = `var(--${name})`;
    const parts = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    probe.remove();
    const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_have_contrast(page: Page, theme: str) -> None:
    """WCAG AA: 4.5 to 1."""
    page.prefer(prefers_color_scheme=theme)
    found = {pair: page.evaluate(f"{CONTRAST}({list(pair)})") for pair in PAIRS}
    assert {pair: round(ratio, 2) for pair, ratio in found.items() if ratio < 4.5} == {}


def test_everything_that_can_be_used_has_a_name(page: Page, cloud: dict[str, Any]) -> None:
    roles = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "tab", "option", "meter"}
    places = [f"#/topology?select=port:{cloud['web-0']['id']}", "#/hosts", "#/health", "#/subnets", "#/trace"]
    for place in places:
        go(page, place)
        page.wait_for(f"location.hash === {place!r} && document.querySelector('h1, h2') !== null")
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        used = [node for node in tree if node.get("role", {}).get("value") in roles and not node.get("ignored")]
        assert len(used) > 8
        assert [node for node in used if not node.get("name", {}).get("value")] == [], place


def test_reduced_motion(page: Page) -> None:
    page.prefer(prefers_reduced_motion="reduce")
    page.wait_for("document.getAnimations().length === 0")
    assert page.evaluate("getComputedStyle(document.querySelector('.node')).animationName") == "none"


def test_a_narrow_window(page: Page, cloud: dict[str, Any]) -> None:
    page.resize(390, 780)
    go(page, f"#/topology?select=network:{cloud['web']['id']}")
    page.wait_for_text("web", ".panel h2")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot("narrow")
    for view in ("hosts", "health", "subnets", "trace"):
        go(page, f"#/{view}")
        page.wait_for(f"document.querySelector('.view-{view}') !== null")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view


def test_the_trace_form_checks_its_fields(page: Page, cloud: dict[str, Any]) -> None:
    page.click("nav a[href='#/trace']")
    page.click(".trace-form [type=submit]")
    page.wait_for_text("Choose a port, or enter an address", ".field-from")
    page.fill("input[name=from]", "nobody")
    page.fill("input[name=to]", "10.0.0.300")
    page.choose("select[name=protocol]", "tcp")
    page.fill("input[name=port]", "70000")
    page.click(".trace-form [type=submit]")
    page.wait_for_text("No port has this name", ".field-from")
    page.wait_for_text("No port has this name", ".field-to")
    page.wait_for_text("from 1 to 65535", ".field-port")
    page.evaluate("document.querySelector('.trace-form').reset()")
    page.click(f"[data-key='port:{cloud['web-0']['id']}']")  # a click fills the ends
    page.click(f"[data-key='port:{cloud['web-1']['id']}']")
    page.wait_for("document.querySelector('input[name=from]').value.startsWith('web-0 (')")
    page.wait_for("document.querySelector('input[name=to]').value.startsWith('web-1 (')")


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(2)</script>",
    "javascript:alert(3)",
    "\u202egpj.exe\u202c שלום \u2066مرحبا",
    "W" * 255,
    "👩‍👩‍👧‍👦🏳️‍🌈" * 12,
    "line\nbreak\ttab\x1b[31m",
    "${alert(4)}{{7*7}}",
    "   ",
]


def name_of(text: str) -> str:
    """What the API takes of it as a name: printable characters, no space at the ends. Descriptions may be any text."""
    return "".join(char for char in text if unicodedata.category(char)[0] != "C").strip() or "blank"


def test_hostile_names_are_only_texts(browser: Browser, server: Neutrino, api: Caller) -> None:
    made = [
        api.create("network", name=name_of(text), project_id="hostile<b>", description=text, tenant_id="hostile<b>")
        for text in HOSTILE
    ]
    router = api.create("router", name=HOSTILE[0], description=HOSTILE[1])
    group = api.create("security_group", name=HOSTILE[1], description=HOSTILE[0])
    port = api.create("port", network_id=made[0]["id"], name=name_of(HOSTILE[3]), description=HOSTILE[0])
    try:
        with browser.page() as page:
            page.goto(f"{server.url}/ui/#/topology?project=hostile%3Cb%3E")
            page.wait_for_text("<img src=x", ".n-network")
            page.wait_for(f"document.querySelectorAll('.n-network').length === {len(HOSTILE)}")
            page.screenshot("hostile-names")
            for network in made:
                go(page, f"#/topology?project=hostile%3Cb%3E&select=network:{network['id']}")
                page.wait_for(f"document.querySelector('.copyable code')?.textContent === {network['id']!r}")
                assert page.evaluate("document.documentElement.scrollWidth") <= 1360
            for kind, thing in (("router", router), ("port", port), ("security_group", group)):
                go(page, f"#/topology?select={kind}:{thing['id']}")
                page.wait_for(f"document.querySelector('.copyable code')?.textContent === {thing['id']!r}")
            page.screenshot("hostile-details")
            page.fill(".search input", "<img")
            page.wait_for_text("<img src=x", "#search-results li")
            for view in ("hosts", "health", "subnets", "trace"):
                go(page, f"#/{view}?project=<img src=x onerror=alert(5)>")
                page.wait_for(f"document.querySelector('.view-{view}') !== null")
            go(page, "#/topology?select=<img src=x>:<script>alert(6)</script>")
            page.wait_for_text("does not exist", ".panel")
            assert page.count("img:not([src='icon.svg']), #app script, iframe") == 0
            # Nothing outside the name changes its direction, and no name is wider than its card.
            assert page.evaluate("[...document.querySelectorAll('.node text')].every((t) => t.getBBox().width < 220)")
            assert "\u202e" not in page.evaluate("document.body.textContent")
    finally:
        api("DELETE", f"/v2.0/ports/{port['id']}")
        api("DELETE", f"/v2.0/routers/{router['id']}")
        api("DELETE", f"/v2.0/security-groups/{group['id']}")
        for network in made:
            api("DELETE", f"/v2.0/networks/{network['id']}")


def test_five_hundred_networks(browser: Browser) -> None:
    """Drawn as cards of projects, or all of them; the server has no feed, so lists are compared."""
    with Neutrino(UNLIMITED) as server:
        large_cloud(server.url, projects=20, networks=25)
        with browser.page() as page:
            page.goto(f"{server.url}/ui/")
            page.wait_for("document.querySelectorAll('.n-project').length === 20")
            page.wait_for_text("500 networks", ".graph-summary")
            page.wait_for_text("Live", ".connection")
            page.screenshot("large")
            page.click(".n-project")
            page.wait_for("document.querySelectorAll('.n-network').length === 25")
            page.screenshot("large-expanded")
            page.evaluate(EXPAND_ALL)
            page.wait_for("document.querySelectorAll('.box').length > 1")
            assert page.count(".n-network") < 400, "what is out of view has no elements"
            page.click("[aria-label='Fit to the window']")
            page.wait_for("document.querySelectorAll('.n-network').length === 500")
            page.screenshot("large-all")
            page.fill(".search input", "net-13-7")
            page.press("Enter")
            page.wait_for_text("net-13-7", ".panel h2")
            page.choose("select.project", f"{5:032x}")
            page.wait_for("document.querySelectorAll('.n-network').length === 25")
            Caller(server.url, {"X-Project-Id": f"{5:032x}"}).create("network", name="late")
            page.wait_for_text("late", ".n-network")
