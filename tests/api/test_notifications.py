"""Notifications of API requests have the objects as the API shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from neutrino.server.events.delivery import DeliveryQueue
from tests.api.client import Api

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


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
