"""The envelope, the transport URL and the options of notifications, without a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from oslo_config import cfg

from neutrino.server.config import configuration
from neutrino.server.context import Context
from neutrino.server.events import notifications
from neutrino.server.events.amqp import (
    AmqpNotifier,
    AmqpOptions,
    Broker,
    InvalidTransportURL,
    TransportURL,
    parse_transport_url,
)
from neutrino.server.events.envelope import render_message, seal

CALLER = Context(
    request_id="req-1",
    user_id="u1",
    project_id="p1",
    roles=frozenset({"reader", "member"}),
    credentials={"auth_token": "secret", "user_name": "jane", "project_name": "demo", "domain_id": ""},
)
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def opened(body: str) -> dict[str, Any]:
    envelope = json.loads(body)
    assert envelope.keys() == {"oslo.version", "oslo.message"}
    assert envelope["oslo.version"] == "2.0"
    message: dict[str, Any] = json.loads(envelope["oslo.message"])
    return message


def a_message(payload: dict[str, object]) -> dict[str, Any]:
    message = render_message(
        "network.create.end", payload, CALLER, publisher_id="network.h1", message_id="m1", now=NOON
    )
    return opened(seal(message, "unique"))


def test_the_message_has_the_format_of_oslo_messaging() -> None:
    message = a_message({"network": {"id": "n1"}})
    plain = {name: value for name, value in message.items() if not name.startswith("_")}
    assert plain == {
        "message_id": "m1",
        "publisher_id": "network.h1",
        "event_type": "network.create.end",
        "priority": "INFO",
        "payload": {"network": {"id": "n1"}},
        "timestamp": "2026-03-01 12:00:00.000000",
    }
    assert message["_unique_id"] == "unique"


def test_the_callers_context_is_spread_over_the_message() -> None:
    message = a_message({})
    expected = {
        "request_id": "req-1",
        "user": "u1",
        "user_id": "u1",
        "user_name": "jane",
        "domain": None,
        "project": "p1",
        "project_id": "p1",
        "project_name": "demo",
        "tenant": "p1",
        "tenant_id": "p1",
        "tenant_name": "demo",
        "roles": ["member", "reader"],
        "is_admin": False,
        "auth_token": None,
        "user_identity": "u1 p1 - - -",
    }
    assert {name: message[f"_context_{name}"] for name in expected} == expected


def test_values_that_json_does_not_know_do_not_fail_a_request() -> None:
    identifier = UUID(int=7)
    payload: dict[str, object] = {"id": identifier, "at": NOON, "tags": {"b", "a"}}
    assert a_message(payload)["payload"] == {"id": str(identifier), "at": str(NOON), "tags": ["a", "b"]}


def test_json_that_was_read_unparsed_is_part_of_the_message() -> None:
    payload: dict[str, object] = {"port": {"fixed_ips": msgspec.Raw(b'[{"ip_address": "10.0.0.2"}]')}}
    assert a_message(payload)["payload"] == {"port": {"fixed_ips": [{"ip_address": "10.0.0.2"}]}}


def test_a_message_never_contains_the_token() -> None:
    assert "secret" not in repr(a_message({}))


GUEST = Broker("localhost", 5672, "guest", "guest")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rabbit://", TransportURL((GUEST,), "/", False)),
        ("rabbit:///", TransportURL((GUEST,), "/", False)),
        ("rabbit://h/", TransportURL((Broker("h", 5672, "guest", "guest"),), "/", False)),
        ("rabbit://u:p@h:5673/v", TransportURL((Broker("h", 5673, "u", "p"),), "v", False)),
        ("amqp://u:p@h//", TransportURL((Broker("h", 5672, "u", "p"),), "/", False)),
        ("amqp://u:p@h/%2F", TransportURL((Broker("h", 5672, "u", "p"),), "/", False)),
        ("rabbit://u:p%40%3A%2F@[::1]:5673/", TransportURL((Broker("::1", 5673, "u", "p@:/"),), "/", False)),
        ("rabbit://u:p@h/?ssl=1", TransportURL((Broker("h", 5671, "u", "p"),), "/", True)),
        ("amqps://u:p@h/", TransportURL((Broker("h", 5671, "u", "p"),), "/", True)),
        (
            "rabbit://u:p@[::1]:1,u:p@[::2]:2/",
            TransportURL((Broker("::1", 1, "u", "p"), Broker("::2", 2, "u", "p")), "/", False),
        ),
        (
            "rabbit://u:p@a:1,x:y@b:2/v",
            TransportURL((Broker("a", 1, "u", "p"), Broker("b", 2, "x", "y")), "v", False),
        ),
    ],
)
def test_transport_urls(text: str, expected: TransportURL) -> None:
    assert parse_transport_url(text) == expected


@pytest.mark.parametrize("text", ["", "kafka://u:secret@h/", "rabbit://u:secret@h:port/", "rabbit://u:secret@[::1/"])
def test_a_bad_transport_url_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidTransportURL) as raised:
        parse_transport_url(text)
    assert "secret" not in str(raised.value)


def test_a_password_is_in_no_repr() -> None:
    url = parse_transport_url("rabbit://u:secret@h/")
    assert "secret" not in repr(url)
    assert str(url.brokers[0]) == "h:5672"


def configured(tmp_path: Path, text: str) -> cfg.ConfigOpts:
    path = tmp_path / "neutron.conf"
    path.write_text(text)
    return configuration([str(path)])


@pytest.mark.parametrize("driver", ["", "driver = noop\n", "driver =\n"])
def test_notifications_are_off_by_default(tmp_path: Path, driver: str) -> None:
    conf = configured(tmp_path, f"[oslo_messaging_notifications]\n{driver}")
    assert notifications.notifier_from_conf(conf, "h1") is None


@pytest.mark.parametrize(
    "text",
    [
        "[DEFAULT]\ntransport_url = rabbit://u:p@h/\n[oslo_messaging_notifications]\ndriver = messagingv2\n",
        "[oslo_messaging_notifications]\ndriver = messagingv2\ntopics = a,b\ntransport_url = rabbit://u:p@h/\n",
    ],
)
def test_notifications_to_a_broker(tmp_path: Path, text: str) -> None:
    notifier = notifications.notifier_from_conf(configured(tmp_path, text), "h1")
    assert isinstance(notifier, AmqpNotifier)
    notifier.close()


def test_several_drivers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One message in each format to the broker, and a line in the log."""
    text = "[oslo_messaging_notifications]\ndriver = messaging\ndriver = messagingv2\ndriver = log\n"
    notifier = notifications.notifier_from_conf(configured(tmp_path, text), "h1")
    assert isinstance(notifier, notifications.Several)
    (broker,) = [one for one in notifier.notifiers if isinstance(one, AmqpNotifier)]
    queued: list[tuple[str, str]] = []
    broker.queue.put = queued.append  # type: ignore[method-assign]
    with caplog.at_level("INFO", "oslo.messaging.notification"):
        notifier.notify("network.create.end", {"network": {"id": "n1"}}, CALLER)
    old, new = (json.loads(body) for _, body in queued)
    assert old["payload"] == json.loads(new["oslo.message"])["payload"] == {"network": {"id": "n1"}}
    assert old["_context_project_id"] == "p1"
    assert old["_unique_id"] != json.loads(new["oslo.message"])["_unique_id"]
    (record,) = caplog.records
    assert record.name == "oslo.messaging.notification.network.create.end"
    assert json.loads(record.getMessage())["publisher_id"] == "network.h1"
    assert notifier.drain(0.0)
    assert notifier.close(0.0) == 0


def test_the_log_has_no_caller_and_no_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = notifications.notifier_from_conf(
        configured(tmp_path, "[oslo_messaging_notifications]\ndriver = log\n"), "h1"
    )
    assert notifier is not None
    payload = {"ipsec": {"password": "hidden", "rows": msgspec.Raw(b'[{"id":1}]'), "text": "two\nlines"}}
    loop: dict[str, object] = {}
    loop["self"] = loop
    with caplog.at_level("INFO"):
        notifier.notify("x.create.end", payload, CALLER)
        notifier.notify("y.create.end", loop, CALLER)
    line = caplog.records[0].getMessage()
    assert json.loads(line)["payload"] == {"ipsec": {"password": "***", "rows": [{"id": 1}], "text": "two\nlines"}}
    assert "hidden" not in line
    assert "jane" not in line
    assert "\n" not in line
    assert "y.create.end cannot be rendered" in caplog.text


def test_an_unknown_driver_is_refused_at_start(tmp_path: Path) -> None:
    conf = configured(tmp_path, "[oslo_messaging_notifications]\ndriver = routing\n")
    with pytest.raises(ValueError, match="routing is not known; use noop, log, messaging, messagingv2"):
        notifications.notifier_from_conf(conf, "h1")


def test_a_payload_that_cannot_be_rendered_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    notifier = AmqpNotifier("rabbit://", AmqpOptions("network.h1"))
    notifier.notify("network.create.start", loop, CALLER)
    assert "network.create.start" in caplog.text
    assert notifier.queue.close(0.0) == 0


def test_a_server_without_these_services_does_not_import_their_clients() -> None:
    program = (
        "import sys, neutrino.server.events.notifications, neutrino.server.events.nova\n"
        "print([name for name in ('kombu', 'amqp', 'keystoneauth1', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
