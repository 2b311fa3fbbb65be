"""Notifications of API requests have the objects as the API shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from neutrino.model.agents import DHCP
from neutrino.server.events.delivery import DeliveryQueue
from tests.api.agents import report
from tests.api.client import Api
from tests.api.l3 import attach, detach, inside, l3_agent
from tests.api.vpn import site


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The messages that the server queues, in order; none is sent."""
    messages: list[dict[str, Any]] = []

    def put(queue: DeliveryQueue[tuple[str, str]], item: tuple[str, str]) -> None:
        messages.append(json.loads(json.loads(item[1])["oslo.message"]))

    monkeypatch.setattr(DeliveryQueue, "put", put)
    return messages


def test_the_end_of_each_request_has_the_object_as_shown(another_server: Any, sent: list[dict[str, Any]]) -> None:
    api = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app).as_admin()
    network = api.network()
    api.subnet(network)
    sent.clear()
    created = api.port(network)
    updated = api.change("port", created["id"], name="renamed")
    api.delete(f"/ports/{created['id']}").expect(204)
    assert [message["event_type"] for message in sent] == [
        f"port.{verb}.{moment}" for verb in ("create", "update", "delete") for moment in ("start", "end")
    ]
    shown = [message["payload"]["port"] for message in sent if message["event_type"].endswith(".end")]
    assert shown == [created, updated, updated]
    assert sent[-1]["payload"]["port_id"] == created["id"]


def test_a_request_that_is_refused_sends_its_start_alone(another_server: Any, sent: list[dict[str, Any]]) -> None:
    """As in Neutron: after the body and the quota were checked, before policy and plugin."""
    settings = {"oslo_messaging_notifications": {"driver": "messagingv2"}, "quotas": {"quota_network": "1"}}
    app = another_server(settings).app
    admin, member = Api(app).as_admin(), Api(app)
    network = admin.network()
    admin.subnet(network)
    sent.clear()

    refused = {"network": {"name": "mine", "provider:network_type": "local"}}
    member.post("/networks", refused).expect(403)  # the policy
    assert [(message["event_type"], message["payload"]) for message in sent] == [("network.create.start", refused)]
    port = admin.port(network)
    sent.clear()
    admin.delete(f"/networks/{network['id']}").expect(409)  # the plugin
    assert [(message["event_type"], message["payload"]) for message in sent] == [
        ("network.delete.start", {"network_id": network["id"]})
    ]
    sent.clear()
    missing = "00000000-0000-0000-0000-000000000001"
    admin.put(f"/networks/{missing}", {"network": {"name": "x"}}).expect(404)
    admin.delete(f"/networks/{missing}").expect(404)
    assert [(message["event_type"], message["payload"]) for message in sent] == [
        ("network.update.start", {"network": {"name": "x"}, "id": missing}),
        ("network.delete.start", {"network_id": missing}),
    ]
    sent.clear()
    admin.post("/networks", {"network": {"name": 7}}).expect(400)
    admin.post("/networks", {"network": {"name": "beyond the quota"}}).expect(409)
    admin.put(f"/ports/{port['id']}", {"port": {"no_such": 1}}).expect(400)
    assert sent == []


def test_qos_policies_and_rules_send_notifications(another_server: Any, sent: list[dict[str, Any]]) -> None:
    admin = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app).as_admin()
    made = admin.make("policy", name="gold")
    body = {"dscp_marking_rule": {"dscp_mark": 26}}
    rule = admin.post(f"/qos/policies/{made['id']}/dscp_marking_rules", body).expect(201).body
    admin.delete(f"/qos/policies/{made['id']}").expect(204)
    ended = {m["event_type"]: m["payload"] for m in sent if m["event_type"].endswith(".end")}
    assert ended.keys() == {"policy.create.end", "dscp_marking_rule.create.end", "policy.delete.end"}
    assert ended["policy.create.end"] == {"policy": made}
    assert ended["dscp_marking_rule.create.end"] == rule


def test_a_secret_is_masked(another_server: Any, sent: list[dict[str, Any]]) -> None:
    admin = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app).as_admin()
    peer = {"peer_ip": "192.0.2.1", "remote_as": 65000, "auth_type": "md5", "password": "s3cret"}
    made = admin.make("bgp_peer", **peer)
    admin.change("bgp_peer", made["id"], password="s3cret2")
    admin.post("/bgp-peers", {"bgp_peers": [peer]}).expect(201)
    assert len(sent) == 6
    assert sent[0]["payload"] == {"bgp_peer": {**peer, "password": "***"}}
    assert "s3cret" not in json.dumps(sent)


def test_a_cascade_notifies_of_each_object(another_server: Any, sent: list[dict[str, Any]]) -> None:
    api = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app)
    network, subnet = inside(api)
    router, port = api.make("router"), api.port(network)
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    trunk = api.make("trunk", port_id=port["id"])
    sent.clear()
    api.delete(f"/networks/{network['id']}?cascade=true").expect(204)
    assert [message["event_type"] for message in sent] == [
        "network.delete.start",
        "trunk.delete.end",
        "router.interface.delete",
        "port.delete.end",
        "subnet.delete.end",
        "network.delete.end",
    ]
    payloads = [message["payload"] for message in sent]
    assert payloads[1]["trunk"]["id"] == trunk["id"]
    removed = payloads[2]["router_interface"]
    assert (removed["id"], removed["subnet_ids"]) == (router["id"], [subnet["id"]])
    assert payloads[3] == {"port_id": port["id"], "port": port}
    assert payloads[4] == {"subnet_id": subnet["id"], "subnet": subnet}
    assert payloads[5]["network_id"] == network["id"]


def test_a_key_that_its_owner_sees_is_masked(another_server: Any, sent: list[dict[str, Any]]) -> None:
    admin = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app).as_admin()
    here = site(admin, admin)
    made = admin.make("ipsec_site_connection", **here.connection(here.service()))
    assert made["psk"] == "s3cret"
    admin.change("ipsec_site_connection", made["id"], psk="s3cret2")
    admin.delete(f"/vpn/ipsec-site-connections/{made['id']}").expect(204)
    ended = {m["event_type"]: m["payload"] for m in sent if m["event_type"].startswith("ipsec_site_connection.")}
    assert len(ended) == 6
    assert ended["ipsec_site_connection.create.end"]["ipsec_site_connection"] == {**made, "psk": "***"}
    assert "s3cret" not in json.dumps(sent)


def _events(sent: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(message["event_type"], message["payload"]) for message in sent]


def test_router_interfaces_have_neutrons_events(another_server: Any, sent: list[dict[str, Any]]) -> None:
    """Ceilometer and billing know `router.interface.create`, one message after the request has succeeded."""
    api = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app)
    _, subnet = inside(api)
    router = api.make("router")
    sent.clear()
    added = attach(api, router, subnet_id=subnet["id"]).expect(200).body
    attach(api, router, subnet_id=subnet["id"]).expect(400)
    removed = detach(api, router, subnet_id=subnet["id"]).expect(200).body
    assert _events(sent) == [
        ("router.interface.create", {"router_interface": added}),
        ("router.interface.delete", {"router_interface": removed}),
    ]


def test_tags_have_neutrons_events(another_server: Any, sent: list[dict[str, Any]]) -> None:
    api = Api(another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}}).app)
    network = api.network()
    tags = f"/networks/{network['id']}/tags"
    sent.clear()
    api.put(tags, {"tags": ["a", "b"]}).expect(200)
    api.post(tags, {"tags": ["c"]}).expect(201)
    api.put(f"{tags}/d").expect(201)
    api.delete(f"{tags}/a").expect(204)
    api.delete(tags).expect(204)
    api.get(tags).expect(200)
    about = {"obj_resource": "networks", "obj_resource_id": network["id"]}
    expected = [("update", ["a", "b"]), ("create", ["c"]), ("create", ["d"]), ("delete", ["a"]), ("delete_all", None)]
    assert _events(sent) == [
        (f"tag.{action}.{moment}", about if tags is None else {**about, "tags": tags})
        for action, tags in expected
        for moment in ("start", "end")
    ]
    sent.clear()
    api.delete(f"{tags}/missing").expect(404)
    api.as_stranger().put(tags, {"tags": ["x"]}).expect(403)
    assert [event for event, _ in _events(sent)] == ["tag.delete.start"]


def test_placements_on_agents_have_neutrons_events(another_server: Any, sent: list[dict[str, Any]]) -> None:
    server = another_server({"oslo_messaging_notifications": {"driver": "messagingv2"}})
    admin = Api(server.app).as_admin()
    network, router = admin.network(), admin.make("router")
    dhcp, l3 = report(server, DHCP, "h1").agent_id, l3_agent(server, "h1").agent_id
    for path, kind, placed, agent in [
        ("dhcp-networks", "network", network, dhcp),
        ("l3-routers", "router", router, l3),
    ]:
        sent.clear()
        url, service = f"/agents/{agent}/{path}", path.partition("-")[0]
        admin.post(url, {f"{kind}_id": placed["id"]}).expect(201)
        admin.delete(f"{url}/{placed['id']}").expect(204)
        payload = {"agent": {"id": agent, f"{kind}_id": placed["id"]}}
        assert _events(sent) == [(f"{service}_agent.{kind}.{action}", payload) for action in ("add", "remove")]
