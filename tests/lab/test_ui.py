"""The topology page in a browser, with real hosts: live changes, agents, tunnels, health, and a trace on the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from neutrino.model.objects import Object
from tests.support.browser import Browser, Page
from tests.support.lab import address, group, open_group
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.routing_lab import external_network, floating_ip, make_router, tenant_network

LAB = LabKind(
    hosts=2,
    roles=("l2", "l3"),
    server="[DEFAULT]\nagent_down_time = 6\n",
    agent="[DEFAULT]\nagent_mode = legacy\n[agent]\nreport_interval = 1\nenable_distributed_routing = false\n",
)
LATE = 40.0  # seconds until an agent counts as late, on a machine that is busy


@dataclass(frozen=True)
class Site:
    lab: Lab
    objects: dict[str, Object]


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    """public ── edge ── web (web on h1), db (db and cache on h2)."""
    out = external_network(lab, "public")
    networks = {"web": tenant_network(lab, "web", 1, six=False), "db": tenant_network(lab, "db", 2, six=False)}
    router = make_router(lab, out, *networks.values(), name="edge")
    allow = open_group(lab)
    closed = group(lab, "closed")
    lab.vm("web", network=networks["web"]["id"], host="h1", security_groups=[allow])
    lab.vm("db", network=networks["db"]["id"], host="h2", security_groups=[allow])
    lab.vm("cache", network=networks["web"]["id"], host="h2", security_groups=[closed])
    floating = floating_ip(lab, out, lab.vms.get("web").port_id)
    return Site(lab, {"public": out, "edge": router, "floating": floating, **networks})


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with browser.page() as opened:
        opened.goto(f"{site.lab.settings.url}/ui/")
        opened.wait_for_text("Live", ".connection")
        opened.wait_for("document.querySelectorAll('.n-port').length === 3")
        yield opened


def port_id(site: Site, vm: str) -> str:
    return site.lab.vms.get(vm).port_id


def test_the_topology_follows_the_api(page: Page, site: Site) -> None:
    """From the change log: created, plugged on a host, deleted; without a reload."""
    lab = site.lab
    assert page.wait_for("document.querySelector('.connection').title.includes('change log')")
    page.wait_for_text(site.objects["floating"]["floating_ip_address"], ".n-port")
    page.screenshot("lab-topology")
    page.evaluate("window.same = true")
    lab.vm("late", network=site.objects["db"]["id"], host="h1")
    late = port_id(site, "late")
    page.wait_for(
        f"document.querySelector(\"[data-key='port:{late}']\")?.getAttribute('aria-label').includes('active')"
    )
    page.click(f"[data-key='port:{late}']")
    page.wait_for_text("late", ".panel h2")
    page.wait_for_text("h1", ".facts a")
    page.wait_for_text(address(lab, "late"), ".facts")
    page.click(".panel summary", containing="Changes")
    page.wait_for_text("created", ".changes")
    page.screenshot("lab-details")
    lab.delete_vm("late")
    page.wait_for(f"document.querySelector(\"[data-key='port:{late}']\") === null")
    page.wait_for_text("does not exist", ".panel")
    lab.api.update("router", site.objects["edge"]["id"], admin_state_up=False)
    page.wait_for("document.querySelector('.n-router').getAttribute('aria-label').includes('administratively down')")
    lab.api.update("router", site.objects["edge"]["id"], admin_state_up=True)
    page.wait_for("document.querySelector('.n-router').getAttribute('aria-label').includes(', active')")
    assert page.evaluate("window.same") is True


def test_hosts_agents_and_tunnels(page: Page, site: Site) -> None:
    page.click("nav a[href='#/hosts']")
    page.wait_for("document.querySelectorAll('.host-card').length === 2")
    page.wait_for_text("all healthy", ".page-head")
    assert page.texts(".host-card .strong") == ["h1", "h2"]
    page.wait_for("document.querySelectorAll('.tunnel').length === 1")
    assert "vxlan" in page.evaluate("document.querySelector('.tunnel').getAttribute('aria-label')")
    page.click(".host-node")
    page.wait_for_text("h1", ".panel h2")
    page.wait_for_text("web", ".panel .links")
    page.screenshot("lab-hosts")
    page.click(".chip", containing="L3")
    page.wait_for_text("L3 agent on h1", ".panel h2")
    page.wait_for_text("Alive", ".facts")
    page.click(".panel summary", containing="Configuration")
    page.wait_for_text("agent_mode", ".attributes")


def test_a_trace_is_drawn_on_the_graph(page: Page, site: Site) -> None:
    page.click(f"[data-key='port:{port_id(site, 'web')}']")
    page.click(".actions a", containing="Trace from here")
    page.wait_for("document.querySelector('input[name=from]').value.startsWith('web (')")
    page.fill("input[name=to]", address(site.lab, "db"))
    page.click(".trace-form [type=submit]")
    page.wait_for_text("Delivered", ".verdict", 30)
    page.wait_for("document.querySelectorAll('.steps > li').length > 3")
    for key in (f"port:{port_id(site, 'web')}", f"router:{site.objects['edge']['id']}", f"port:{port_id(site, 'db')}"):
        page.wait_for(f"[...document.querySelectorAll('.node.on-path')].some((n) => n.dataset.key === '{key}')")
    page.wait_for("document.querySelectorAll('.edge.on-path').length >= 4")
    page.wait_for("document.querySelectorAll('.path-marks .end.delivered').length === 1")
    page.screenshot("lab-trace-delivered")
    address_of_link = page.evaluate("location.hash")
    assert f"from={port_id(site, 'web')}" in address_of_link

    page.choose("select[name=protocol]", "tcp")
    page.fill("input[name=to]", address(site.lab, "cache"))
    page.fill("input[name=port]", "5432")
    page.click(".trace-form [type=submit]")
    page.wait_for_text("Dropped", ".verdict", 30)
    page.wait_for_text("security-group-ingress", ".verdict")
    page.wait_for("document.querySelectorAll('.steps .is-bad').length === 1")
    page.wait_for("document.querySelectorAll('.path-marks .end.dropped').length === 1")
    page.screenshot("lab-trace-dropped")
    page.click(".steps a.object-link")
    page.wait_for("document.querySelector('.view-topology .panel h2') !== null")
    page.wait_for("document.querySelectorAll('.on-path').length === 0")


def test_health_is_truthful(page: Page, site: Site) -> None:
    lab = site.lab
    page.click("nav a[href='#/health']")
    page.wait_for_text("all report in time", ".tile")
    page.wait_for_text("Alive", ".grid")
    page.wait_for_text("feed", ".grid")  # of the servers
    page.screenshot("lab-health")
    try:
        lab.stop_ovs("h2", database=False)
        page.wait_for_text("1 down", ".tile", LATE)
        page.wait_for_text("Dataplane down", ".grid")
        page.wait_for_text("Open vSwitch agent on h2", ".findings")
        page.screenshot("lab-health-dataplane")
    finally:
        lab.start_ovs("h2")
    page.wait_until_gone("Dataplane down", ".grid", LATE)
    try:
        lab.stop_agent("h2", kill=True)
        page.wait_for_text("2 agents late", ".tile", LATE)
        page.wait_for_text("Late", ".grid .state-bad")
        page.wait_for("document.querySelector('.badge').hidden === false")
        page.click("nav a[href='#/hosts']")
        page.wait_for("document.querySelectorAll('.host-card.is-bad').length === 1")
        page.wait_for("document.querySelectorAll('.tunnel.is-unknown').length === 1")
        page.wait_for_text("Late", ".host-card .state")
        page.screenshot("lab-hosts-late")
    finally:
        lab.start_agent("h2")
    page.wait_for_text("all healthy", ".page-head", LATE)


def test_a_server_that_is_stopped_and_comes_back(page: Page, site: Site) -> None:
    site.lab.stop_server()
    page.wait_for_text("Disconnected", ".connection")
    site.lab.start_server()
    page.wait_for_text("Live", ".connection", LATE)
