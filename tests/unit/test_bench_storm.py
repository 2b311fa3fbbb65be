"""The boot storm: Nova's end of events, plugging on a connection to OVSDB, and the tables."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from qa.bench import boot_storm
from qa.bench.client import LoadError
from qa.bench.storm import nova
from qa.bench.storm.plug import Plugger


def test_a_port_is_plugged_when_its_event_says_so() -> None:
    events = [
        {"name": "network-vif-plugged", "status": "failed", "tag": "one", "server_uuid": "s"},
        {"name": "network-changed", "tag": "one", "server_uuid": "s"},
        {"name": "network-vif-plugged", "status": "completed", "tag": "two", "server_uuid": "s"},
    ]
    with nova.serving() as served:
        body = json.dumps({"events": events}).encode()
        with urllib.request.urlopen(f"{served.url}/os-server-external-events", body) as answer:
            assert [event["code"] for event in json.load(answer)["events"]] == [200, 200, 200]
        served.wait("two", 0)
        with pytest.raises(LoadError, match="one is not ACTIVE"):
            served.wait("one", 0)


def test_a_device_is_plugged_and_unplugged_by_one_transaction_each(tmp_path: Path) -> None:
    asked: list[Any] = []
    replies = [
        [{"uuid": ["uuid", "i"]}, {"uuid": ["uuid", "p"]}, {"count": 1}],
        [{"count": 1}],
        [{"error": "constraint violation"}],
    ]

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            for reply in replies:
                asked.append(json.loads(connection.recv(65536)))
                # A probe and the reply in one piece, cut off in the middle.
                connection.sendall(b'{"method":"echo","params":[7],"id":"echo"}{"result":')
                assert json.loads(connection.recv(65536)) == {"id": "echo", "result": [7], "error": None}
                connection.sendall(json.dumps(reply).encode() + b',"error":null,"id":1}')

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "db.sock"))
        server.listen()
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        plugger = Plugger(tmp_path / "db.sock", "br-int")
        plugger.plug("tap1", "port", "fa:16:3e:00:00:01", "instance")
        plugger.unplug("tap1")
        with pytest.raises(LoadError, match="constraint violation"):
            plugger.plug("tap2", "port", "fa:16:3e:00:00:02", "instance")
        thread.join()
        plugger.close()
    assert [operation["op"] for operation in asked[0]["params"][1:]] == ["insert", "insert", "mutate"]
    assert asked[1]["params"][1]["mutations"] == [["ports", "delete", ["uuid", "p"]]]


def test_the_tables_with_and_without_neutron() -> None:
    times = {"p50_ms": 100.0, "p95_ms": 200.0}
    spent = {"total_ms": 1000.0, "flows_gone_ms": 500.0, "processor_ms": {"feed": 10.0, "agent": 5.0}}
    one = dict.fromkeys(("from_post", "from_plug", "created", "deleted"), times)
    one |= {"flows": 4000, "boot": spent, "delete": spent}
    slow = {**one, "boot": {**spent, "total_ms": 40_000.0}}
    raw = {"ports": 200, "hosts": 4, "clients": 8, "busy_before": 0.1, "busy_after": 1.0, "ours": one}
    assert "| all ports ACTIVE | 16.4 s | 1.00 s | 16.4 × | 30 × | **no** |" in boot_storm.document(raw)
    text = boot_storm.document({**raw, "neutron": slow})
    assert "| all ports ACTIVE | 40.0 s | 1.00 s | 40.0 × | 30 × | yes |" in text
    assert "| processor time of a port, created | 15 ms: feed 10.0, agent 5.0 | 15 ms: feed 10.0, agent 5.0 |" in text
