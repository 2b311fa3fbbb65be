"""Old and new values of attributes in the history of objects: what the caller may read, bounded, without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.features.bgp.resources import BGP_PEER
from neutrino.server.db import tables as t
from neutrino.server.db.changed_values import MASKED, MAX_VALUE
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.test_history import changes
from tests.api.vpn import site


@pytest.fixture(autouse=True)
def feed(server: Server) -> ChangeLog:
    log = ChangeLog(server.db)
    log.head()
    return log


def values(rows: list[dict[str, Any]]) -> list[dict[str, tuple[Any, Any]]]:
    return [{one["name"]: (one["old"], one["new"]) for one in row["changed"]} for row in rows]


@pytest.mark.every_database
def test_old_and_new_values(api: Api, admin: Api, feed: ChangeLog) -> None:
    network = api.network()
    subnet = api.subnet(network)
    group, port = api.make("security_group", name="web"), api.port(network, name="web", security_groups=[])
    api.change("port", port["id"], name="db", admin_state_up=False, security_groups=[group["id"]], description="")
    api.change("port", port["id"], name="db")
    admin.change("port", port["id"], binding__host_id="h9")
    rows = values(changes(api, feed, object_id=port["id"]))
    assert rows[0] == {}, "a new port has all of its values itself"
    assert rows[1] == {"name": ("web", "db"), "admin_state_up": (True, False), "security_groups": ([], [group["id"]])}
    assert rows[-1] == {}, "what the policy hides of a port, it hides of its history"
    shown = values(changes(admin, feed, object_id=port["id"]))
    assert shown[-1]["binding:host_id"] == ("", "h9")
    api.change("subnet", subnet["id"], dns_nameservers=["10.0.0.53"], enable_dhcp=False)
    assert values(changes(api, feed, object_id=subnet["id"]))[-1] == {
        "dns_nameservers": ([], ["10.0.0.53"]),
        "enable_dhcp": (True, False),
    }
    admin.change("network", network["id"], router__external=True)
    assert values(changes(admin, feed, object_id=network["id"]))[-1] == {"router:external": (False, True)}
    assert values(changes(api, feed, object_id=network["id"], kind="network"))[1:2] == [
        {"subnets": ([], [subnet["id"]])}
    ]


@pytest.mark.every_database
def test_rules_of_a_group_in_its_history(api: Api, feed: ChangeLog) -> None:
    group = api.make("security_group", name="web")
    rule = api.make(
        "security_group_rule", security_group_id=group["id"], direction="ingress", protocol="tcp", port_range_min=22,
        port_range_max=22,
    )  # fmt: skip
    api.delete(f"/security-group-rules/{rule['id']}").expect(204)
    added, removed = (row["security_group_rules"] for row in values(changes(api, feed, object_id=group["id"]))[1:])
    assert (added[0], removed[1]) == ([], [])
    for (shown,) in (added[1], removed[0]):
        assert (shown["id"], shown["protocol"], shown["port_range_min"]) == (rule["id"], "tcp", 22)


@pytest.mark.every_database
def test_long_values_are_cut(api: Api, feed: ChangeLog) -> None:
    subnet = api.subnet(api.network())
    routes = [{"destination": f"10.1.{number}.0/24", "nexthop": "10.0.0.9"} for number in range(20)]
    api.change("subnet", subnet["id"], host_routes=routes)
    old, new = values(changes(api, feed, object_id=subnet["id"]))[-1]["host_routes"]
    assert old == []
    assert new.startswith('[{"destination":"10.1.0.0/24"')
    assert (len(new), new[-1]) == (MAX_VALUE + 1, "…")


@pytest.mark.every_database
def test_secrets_are_not_stored(api: Api, admin: Api, feed: ChangeLog, server: Server) -> None:
    member = admin.as_stranger()
    here = site(admin, member)
    connection = member.make("ipsec_site_connection", **here.connection(here.service(), psk="first-key"))
    member.change("ipsec_site_connection", connection["id"], psk="second-key", name="x")
    (changed,) = values(changes(member, feed, object_id=connection["id"]))[1:]
    assert (changed["psk"], changed["name"]) == ((MASKED, MASKED), (connection["name"], "x"))
    peer = admin.make("bgp_peer", peer_ip="192.0.2.1", remote_as=65001, auth_type="md5", password="first-key")
    admin.change("bgp_peer", peer["id"], password="second-key")
    assert values(changes(admin, feed, object_id=peer["id"]))[1:] == [{"password": (MASKED, MASKED)}]
    with server.db.read() as connected:
        stored = connected.execute(t.changes.select()).all()
    assert not [row for row in stored if "-key" in (row.changed or "")]


def test_every_secret_of_the_api_is_one_of_the_log(server: Server) -> None:
    declared = {history.kind: history.secrets for history in t.histories().values()}
    assert declared["bgp_peer"] == BGP_PEER.secrets
    for plugin in server.service_plugins.values():
        for resource, _ in plugin.collections:
            assert resource.secrets <= declared.get(resource.name, frozenset()), resource.name


@pytest.mark.every_database
def test_statuses_that_hosts_report(server: Server, api: Api, admin: Api, feed: ChangeLog) -> None:
    switch(server, "h1")
    port = admin.port(api.network(), project_id=api.project, binding__host_id="h1", device_owner="compute:nova")
    server.core.provisioning.complete(port["id"], "L2", "h1")
    assert values(changes(api, feed, object_id=port["id"]))[-1] == {"status": ("DOWN", "ACTIVE")}


@pytest.mark.every_database
def test_agents_and_shares(server: Server, api: Api, admin: Api, feed: ChangeLog) -> None:
    agent = switch(server, "h1").agent_id
    admin.change("agent", agent, admin_state_up=False, description="down for repair")
    changed = values(changes(admin, feed, object_id=agent))[-1]
    assert changed == {"admin_state_up": (True, False), "description": (None, "down for repair")}
    network = api.network()
    policy = api.make(
        "rbac_policy", "rbac-policies", object_type="network", object_id=network["id"], action="access_as_shared",
        target_tenant="red",
    )  # fmt: skip
    api.put(f"/rbac-policies/{policy['id']}", {"rbac_policy": {"target_tenant": "blue"}}).expect(200)
    assert values(changes(api, feed, object_id=policy["id"]))[-1] == {"target_tenant": ("red", "blue")}


@pytest.mark.every_database
def test_subports_of_a_trunk(api: Api, feed: ChangeLog) -> None:
    network = api.network()
    trunk = api.make("trunk", port_id=api.port(network)["id"])
    subport = {"port_id": api.port(network)["id"], "segmentation_type": "vlan", "segmentation_id": 100}
    api.put(f"/trunks/{trunk['id']}/add_subports", {"sub_ports": [subport]}).expect(200)
    api.put(f"/trunks/{trunk['id']}/remove_subports", {"sub_ports": [{"port_id": subport["port_id"]}]}).expect(200)
    added, removed = values(changes(api, feed, object_id=trunk["id"]))[-2:]
    assert added == {"sub_ports": ([], [subport])}
    assert removed == {"sub_ports": ([subport], [])}


def test_a_change_that_is_refused_leaves_no_values(api: Api, feed: ChangeLog) -> None:
    port = api.port(api.network())
    api.put(f"/ports/{port['id']}", {"port": {"name": "x", "mac_address": "no"}}).expect(400)
    assert values(changes(api, feed, object_id=port["id"])) == [{}]
