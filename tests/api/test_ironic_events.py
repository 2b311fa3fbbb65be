"""Events to Ironic about bare-metal ports, as a stand-in on HTTP gets them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from neutrino.features.baremetal.ironic import Unavailable
from neutrino.features.baremetal.notifications import IronicEvent, IronicNotifier, event_of
from neutrino.server.events.delivery import DeliveryOptions
from neutrino.server.main import Server
from tests.api.client import Api

PORT = {"id": "p", "mac_address": "fa:16:3e:00:00:01", "device_id": "node", "binding:host_id": "h"}
PATIENCE = 10.0


class Ironic:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.versions: set[str | None] = set()
        self.answers: list[int] = []  # statuses of the next requests; then 204
        self.arrived = threading.Condition()
        ironic = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with ironic.arrived:
                    status = ironic.answers.pop(0) if ironic.answers else 204
                    if status == 204 and self.path == "/v1/events":
                        ironic.versions.add(self.headers.get("X-OpenStack-Ironic-API-Version"))
                        ironic.events += body["events"]
                    ironic.arrived.notify_all()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def wait_for(self, number: int) -> list[dict[str, Any]]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.events) >= number, PATIENCE), self.events
            return list(self.events)


@pytest.fixture
def ironic() -> Iterator[Ironic]:
    made = Ironic()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    with made.server:
        try:
            yield made
        finally:
            made.server.shutdown()
            thread.join()


@pytest.fixture
def server(another_server: Callable[..., Server], ironic: Ironic) -> Server:
    made: Server = another_server(
        {"ironic": {"enable_notifications": "true", "auth_type": "none", "endpoint": ironic.url}}
    )
    return made


def port(status: str, vnic_type: str = "baremetal") -> dict[str, Any]:
    return {**PORT, "status": status, "binding:vnic_type": vnic_type}


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        ("DOWN", "ACTIVE", "network.bind_port"),
        ("DOWN", "ERROR", "network.bind_port"),
        ("ACTIVE", "DOWN", "network.unbind_port"),
        ("ACTIVE", "ERROR", "network.unbind_port"),
        ("ACTIVE", None, "network.delete_port"),
        ("DOWN", "DOWN", None),
        ("ERROR", "ACTIVE", None),
        (None, "ACTIVE", None),
    ],
)
def test_which_changes_are_events(before: str | None, after: str | None, event: str | None) -> None:
    old, new = (port(status) if status is not None else None for status in (before, after))
    found = event_of(old, new)
    assert (found.event if found is not None else None) == event
    normal = (port(status, "normal") if status is not None else None for status in (before, after))
    assert event_of(*normal) is None


def test_a_deleted_port_is_sent_to_ironic_with_its_version(
    api: Api, admin: Api, server: Server, ironic: Ironic
) -> None:
    network = api.network()
    made = admin.port(network, **{"binding:vnic_type": "baremetal"})
    for each in (admin.port(network), made):
        admin.delete(f"/ports/{each['id']}").expect(204)
    assert ironic.wait_for(1) == [
        {
            "event": "network.delete_port",
            "port_id": made["id"],
            "mac_address": made["mac_address"],
            "status": "DELETED",
            "binding:vnic_type": "baremetal",
        }
    ]
    assert ironic.versions == {"1.54"}


def test_events_are_retried_in_order_until_ironic_answers() -> None:
    sent: list[list[str]] = []
    answers: list[int | None] = [None, 503, 204]

    def post(body: bytes) -> int:
        answer = answers.pop(0) if answers else 204
        if answer is None:
            raise Unavailable("no connection")
        if answer == 204:
            sent.append([event["event"] for event in json.loads(body)["events"]])
        return answer

    notifier = IronicNotifier(post, DeliveryOptions(first_retry=0.001, slowest_retry=0.01))
    notifier.port_changed(port("DOWN"), port("ACTIVE"))
    notifier.port_changed(port("ACTIVE"), port("DOWN"))
    assert notifier.queue.drain(PATIENCE)
    notifier.close()
    assert [name for batch in sent for name in batch] == ["network.bind_port", "network.unbind_port"]


def test_a_refused_batch_is_dropped_with_the_ports(caplog: pytest.LogCaptureFixture) -> None:
    notifier = IronicNotifier(lambda body: 400)
    notifier.port_changed(port("DOWN"), port("ACTIVE"))
    assert notifier.queue.drain(PATIENCE)
    notifier.close()
    assert "Ironic refused 1 events with HTTP 400, of the ports p" in caplog.text


def test_empty_values_are_left_out() -> None:
    """Ironic refuses them."""
    found = event_of({**port("DOWN"), "device_id": "", "binding:host_id": ""}, {**port("ACTIVE"), "device_id": ""})
    assert found == IronicEvent("network.bind_port", "p", PORT["mac_address"], "ACTIVE", "", "h", "baremetal")
