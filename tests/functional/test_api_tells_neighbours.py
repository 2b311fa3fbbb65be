"""Requests through the whole server, and what its neighbours hear of them: a real broker, and a server that plays Nova."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import kombu
import pytest

from neutrino.model.agents import OVS, AgentState
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_sqlite
from tests.support.rabbitmq import RabbitMQ

WAIT = 30.0


def heard(url: str, topic: str, count: int) -> list[dict[str, Any]]:
    """The next messages of the queue that consumers of notifications read."""
    messages: list[dict[str, Any]] = []

    def take(body: Any, message: kombu.Message) -> None:
        messages.append(json.loads((body if isinstance(body, dict) else json.loads(body))["oslo.message"]))

    exchange = kombu.Exchange("neutron", type="topic", durable=False)
    queue = kombu.Queue(f"{topic}.info", exchange, routing_key=f"{topic}.info", durable=False)
    with kombu.Connection(url) as connection, connection.Consumer(queue, callbacks=[take], no_ack=True):
        while len(messages) < count:
            connection.drain_events(timeout=WAIT)
    return messages


@pytest.mark.rabbitmq
def test_every_change_is_announced_and_confirmed(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    topic = f"topic_{uuid.uuid4().hex}"  # the broker is shared: this test's messages have a queue of their own
    transport_url = rabbitmq.url.replace("$", "$$")
    settings = {
        "oslo_messaging_notifications": {"driver": "messagingv2", "topics": topic, "transport_url": transport_url}
    }
    server = start(tmp_path, prepared_sqlite(tmp_path / "neutrino.sqlite"), settings)
    api = Api(server.app)
    network = api.post("/networks", {"network": {"name": "blue"}}).expect(201).body["network"]
    api.put(f"/networks/{network['id']}", {"network": {"name": "red"}}).expect(200)
    api.post("/networks", {"network": {"name": 5}}).expect(400)
    api.delete(f"/networks/{network['id']}").expect(204)
    messages = heard(rabbitmq.url, topic, 6)
    assert [m["event_type"] for m in messages] == [
        f"network.{action}.{moment}" for action in ("create", "update", "delete") for moment in ("start", "end")
    ]
    created, updating = messages[1], messages[2]
    assert created["payload"]["network"]["id"] == network["id"]
    assert created["_context_project_id"] == api.project
    assert updating["payload"] == {"network": {"name": "red"}, "id": network["id"]}
    server.close()


@pytest.fixture
def nova() -> Iterator[tuple[str, Queue[list[dict[str, Any]]]]]:
    """A server that takes external events as Nova does; gives its address and what it was told."""
    told: Queue[list[dict[str, Any]]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.put(body["events"])
            answer = json.dumps({"events": [{**e, "code": 200} for e in body["events"]]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", told
    server.shutdown()
    server.server_close()


def test_nova_hears_of_its_instances_ports(nova: tuple[str, Queue[list[dict[str, Any]]]], tmp_path: Path) -> None:
    address, told = nova
    settings = {
        "DEFAULT": {"notify_nova_on_port_status_changes": "true", "notify_nova_on_port_data_changes": "true"},
        "nova": {"auth_type": "none", "endpoint_override": address, "endpoint": address},
    }
    server = start(tmp_path, prepared_sqlite(tmp_path / "neutrino.sqlite"), settings)
    server.registry.report(
        AgentState(
            agent_type=OVS,
            binary="neutron-openvswitch-agent",
            host="compute-1",
            topic="N/A",
            configurations={"tunnel_types": ["vxlan"], "bridge_mappings": {}},
            start_flag=True,
        )
    )
    api = Api(server.app)
    network = api.post("/networks", {"network": {}}).expect(201).body["network"]["id"]
    api.post("/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}}).expect(201)
    instance = str(uuid.uuid4())
    port = api.as_admin().post(
        "/ports",
        {
            "port": {
                "network_id": network,
                "device_id": instance,
                "device_owner": "compute:nova",
                "binding:host_id": "compute-1",
            }
        },
    )
    port_id = port.expect(201).body["port"]["id"]
    assert port.body["port"]["binding:vif_type"] == "ovs"

    assert server.core.provisioning.complete(port_id, "L2", "compute-1")
    plugged = told.get(timeout=WAIT)[0]
    assert (plugged["name"], plugged["server_uuid"], plugged["tag"]) == ("network-vif-plugged", instance, port_id)
    assert plugged["status"] == "completed"

    assert server.core.provisioning.lost(port_id, "compute-1")
    assert told.get(timeout=WAIT)[0]["name"] == "network-vif-unplugged"

    api.as_admin().delete(f"/ports/{port_id}").expect(204)
    assert told.get(timeout=WAIT)[0]["name"] == "network-vif-deleted"
    server.close()
