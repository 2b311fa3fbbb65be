"""Attributes of small extensions: default networks, DNS domains, sorted agents, checked quotas."""

from __future__ import annotations

import pytest

from neutrino.model.agents import DHCP, L3, AgentState
from neutrino.server.main import Server
from tests.api.client import Api


@pytest.mark.every_database
def test_default_networks_of_a_project(api: Api) -> None:
    first = api.network(project_default=True)
    second = api.network()
    assert (first["project_default"], second["project_default"]) == (True, False)
    assert api.show("network", first["id"])["project_default"] is True
    changed = api.change("network", second["id"], project_default=True)
    assert changed["project_default"] is True
    assert changed["revision_number"] > second["revision_number"]
    assert {n["id"]: n["project_default"] for n in api.all("/networks")} == {first["id"]: True, second["id"]: True}
    api.put(f"/networks/{first['id']}", {"network": {"project_default": "perhaps"}}).refused(400)


def test_subnets_whose_addresses_are_published(api: Api) -> None:
    network = api.network()
    published = api.subnet(network, "10.0.1.0/24", dns_publish_fixed_ip=True)
    plain = api.subnet(network, "10.0.2.0/24")
    assert (published["dns_publish_fixed_ip"], plain["dns_publish_fixed_ip"]) == (True, False)
    assert api.change("subnet", plain["id"], dns_publish_fixed_ip=True)["dns_publish_fixed_ip"] is True
    assert api.change("subnet", published["id"], dns_publish_fixed_ip=False)["dns_publish_fixed_ip"] is False
    assert api.show("subnet", plain["id"])["dns_publish_fixed_ip"] is True
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.3.0/24"}}
    body["subnet"]["dns_publish_fixed_ip"] = "perhaps"
    api.post("/subnets", body).refused(400)


KEYWORDS = ("project_id", "project_name", "user_id", "user_name")


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_keywords_of_dns_domains(api: Api, keyword: str) -> None:
    domain = f"<{keyword}>.example.org."
    network = api.network(dns_domain=domain)
    assert api.show("network", network["id"])["dns_domain"] == domain
    assert api.port(network, dns_domain=f"a.{domain}")["dns_domain"] == f"a.{domain}"


@pytest.mark.parametrize(
    "domain", ["<project>.org.", "x<user_id>.org.", "<user_id.org.", "<>.org.", "<project_id>", "<user_id><user_id>."]
)
def test_domains_that_only_look_like_keywords(api: Api, domain: str) -> None:
    api.post("/networks", {"network": {"dns_domain": domain}}).refused(400, "HTTPBadRequest")


def test_keywords_are_not_names_of_hosts(api: Api) -> None:
    body = {"port": {"network_id": api.network()["id"], "dns_name": "<project_id>"}}
    api.post("/ports", body).refused(400, "HTTPBadRequest")


@pytest.mark.every_database
def test_agents_in_an_order(server: Server, admin: Api) -> None:
    for host in ("b", "a", "c"):
        for kind, binary, topic in ((DHCP, "neutron-dhcp-agent", "dhcp_agent"), (L3, "neutron-l3-agent", "l3_agent")):
            server.registry.report(AgentState(kind, binary, f"sort-{host}", topic, "nova", start_flag=True))
    mine = {agent["id"] for agent in admin.all("/agents") if agent["host"].startswith("sort-")}

    def order(direction: str) -> list[tuple[str, str]]:
        query = [
            (name, value) for key in ("binary", "host") for name, value in (("sort_key", key), ("sort_dir", direction))
        ]
        return [(agent["binary"], agent["host"]) for agent in admin.all("/agents", query) if agent["id"] in mine]

    both = [(binary, f"sort-{host}") for binary in ("neutron-dhcp-agent", "neutron-l3-agent") for host in "abc"]
    assert order("asc") == both
    assert order("desc") == both[::-1]
    columns = "id agent_type topic admin_state_up created_at started_at heartbeat_timestamp alive description"
    for name in columns.split():
        pages: list[str] = []
        marker: dict[str, str] = {}
        while page := admin.all("/agents", {"sort_key": name, "sort_dir": "asc", "limit": "4", **marker}):
            pages += [agent["id"] for agent in page]
            marker = {"marker": pages[-1]}
        assert len(pages) == len(set(pages))
        assert mine <= set(pages)
    admin.get("/agents", {"sort_key": "configurations", "sort_dir": "asc"}).refused(400)


def test_a_limit_below_the_use_needs_force(api: Api, admin: Api) -> None:
    """Checked without check_limit, which older clients send."""
    api.network()
    for more in ({}, {"check_limit": True}, {"check_limit": False}):
        admin.put(f"/quotas/{api.project}", {"quota": {"network": 0, **more}}).refused(400, "HTTPBadRequest")
    forced = admin.put(f"/quotas/{api.project}", {"quota": {"network": 0, "force": True}}).expect(200)
    assert forced.body["quota"]["network"] == 0
