"""Logs of security groups through the session of openstacksdk, as the plugin of `openstack network log` uses the API."""

from __future__ import annotations

from openstack.connection import Connection


def test_logs_with_a_clients_session(conn: Connection) -> None:
    net = conn.network
    assert net.get("/log/loggable-resources").json() == {
        "loggable_resources": [{"type": "security_group"}, {"type": "firewall_group"}]
    }
    group = net.create_security_group(name="logged")
    network = net.create_network(name="logged")
    port = net.create_port(network_id=network.id, security_group_ids=[group.id])
    about = {"resource_type": "security_group", "resource_id": group.id, "target_id": port.id}
    answer = net.post("/log/logs", json={"log": {"name": "drops", "event": "DROP", "enabled": True, **about}})
    assert answer.status_code == 201, answer.text
    made = answer.json()["log"]
    path = f"/log/logs/{made['id']}"
    assert [one["id"] for one in net.get("/log/logs?name=drops").json()["logs"]] == [made["id"]]
    changed = net.put(path, json={"log": {"enabled": False, "description": "d"}}).json()["log"]
    assert (changed["enabled"], changed["description"], changed["revision_number"]) == (False, "d", 1)
    refused = net.post("/log/logs", json={"log": {"resource_type": "router"}})
    assert (refused.status_code, refused.json()["NeutronError"]["type"]) == (400, "InvalidLogResourceType")
    net.delete_port(port)
    assert net.get(path).status_code == 404
    net.delete_network(network)
    net.delete_security_group(group)
