"""Delivery of events to Nova, against a local HTTP server that plays Nova, and Keystone for one test."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from oslo_config import cfg

from neutrino.server.config import configuration
from neutrino.server.events import nova
from neutrino.server.events.delivery import DeliveryOptions
from neutrino.server.events.nova import NovaAnswer, NovaEvent, NovaNotifier, NovaUnavailable, keystone_poster

SERVER = "8a9f1a54-3d0b-4c55-9d47-0f2a1e0a7c11"
PATIENCE = 10.0
"""Timeout of waits for expected events; a passing test never reaches it."""


class FakeNova:
    """Answers with the planned statuses in turn, then 200, and remembers the events of every request."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[list[dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.planned: list[tuple[int, dict[str, int]]] = []
        self.hold = threading.Event()
        self.hold.set()
        self._arrived = threading.Condition()

    def answer_next(self, status: int, codes: dict[str, int] | None = None) -> None:
        """The next request gets this status; in `codes`, events by tag get a code of their own."""
        self.planned.append((status, codes or {}))

    def wait_for_requests(self, count: int) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, PATIENCE), self.requests

    def take(self, events: list[dict[str, str]], headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        with self._arrived:
            self.requests.append(events)
            self.headers.append(headers)
            status, codes = self.planned.pop(0) if self.planned else (200, {})
            self._arrived.notify_all()
        assert self.hold.wait(PATIENCE)
        return status, {"events": [{**event, "code": codes.get(event["tag"], 200)} for event in events]}


@contextmanager
def serving(nova_: FakeNova) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(200, keystone_versions(nova_.url))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/v3/auth/tokens":
                self._reply(201, keystone_token(nova_.url), {"X-Subject-Token": "the-token"})
            elif self.path == "/v2.1/os-server-external-events":
                self._reply(*nova_.take(body["events"], {name.lower(): value for name, value in self.headers.items()}))
            else:
                self._reply(418, {"path": self.path})

        def _reply(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    nova_.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield nova_.url
    finally:
        nova_.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


def keystone_versions(url: str) -> dict[str, Any]:
    version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{url}/v3/"}]}
    return {"versions": {"values": [version]}}


def keystone_token(url: str) -> dict[str, Any]:
    endpoints = [
        {"interface": "public", "region": "one", "region_id": "one", "url": "http://127.0.0.1:1/v2.1", "id": "1"},
        {"interface": "internal", "region": "one", "region_id": "one", "url": f"{url}/v2.1", "id": "2"},
        {"interface": "internal", "region": "two", "region_id": "two", "url": "http://127.0.0.1:1/v2.1", "id": "3"},
    ]
    catalog = [{"type": "compute", "name": "nova", "id": "n", "endpoints": endpoints}]
    return {"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "catalog": catalog, "methods": ["password"]}}


@pytest.fixture
def fake_nova() -> Iterator[FakeNova]:
    fake = FakeNova()
    with serving(fake):
        yield fake


def configured(tmp_path: Any, text: str) -> cfg.ConfigOpts:
    path = tmp_path / "neutron.conf"
    path.write_text(text)
    return configuration([str(path)])


def without_keystone(url: str) -> str:
    return f"[nova]\nauth_type = none\nendpoint = {url}/v2.1\n"


@pytest.fixture
def notifier(fake_nova: FakeNova, tmp_path: Any) -> Iterator[NovaNotifier]:
    post = keystone_poster(configured(tmp_path, without_keystone(fake_nova.url)))
    made = NovaNotifier(post, delivery=DeliveryOptions(first_retry=0.001, slowest_retry=0.01))
    yield made
    fake_nova.hold.set()
    made.queue.close(PATIENCE)


def changed(tag: str) -> NovaEvent:
    return NovaEvent("network-changed", SERVER, tag)


def plugged(tag: str) -> NovaEvent:
    return NovaEvent("network-vif-plugged", SERVER, tag, "completed")


def unplugged(tag: str) -> NovaEvent:
    return NovaEvent("network-vif-unplugged", SERVER, tag, "completed")


def tags(request: list[dict[str, str]]) -> list[str]:
    return [event["tag"] for event in request]


def test_events_are_batched_during_a_request(fake_nova: FakeNova, notifier: NovaNotifier) -> None:
    fake_nova.hold.clear()
    notifier.send([changed("first")])
    fake_nova.wait_for_requests(1)
    for number in range(50):
        notifier.send([changed(str(number))])
    fake_nova.hold.set()
    fake_nova.wait_for_requests(2)
    notifier.queue.close(PATIENCE)
    assert [tags(request) for request in fake_nova.requests] == [["first"], [str(number) for number in range(50)]]


def test_a_request_carries_a_bounded_number_of_events(fake_nova: FakeNova, notifier: NovaNotifier) -> None:
    fake_nova.hold.clear()
    notifier.send([changed("first")])
    fake_nova.wait_for_requests(1)
    notifier.send(changed(str(number)) for number in range(250))
    fake_nova.hold.set()
    notifier.queue.close(PATIENCE)
    assert [len(request) for request in fake_nova.requests] == [1, 100, 100, 50]
    assert [tag for request in fake_nova.requests[1:] for tag in tags(request)] == [str(n) for n in range(250)]


def test_equal_events_merge_and_the_last_one_gives_the_order(fake_nova: FakeNova, notifier: NovaNotifier) -> None:
    fake_nova.hold.clear()
    notifier.send([changed("first")])
    fake_nova.wait_for_requests(1)
    notifier.send([plugged("a"), changed("b"), unplugged("a"), plugged("a"), changed("b")])
    fake_nova.hold.set()
    notifier.queue.close(PATIENCE)
    sent = [(event["name"], event["tag"]) for event in fake_nova.requests[1]]
    assert sent == [("network-vif-unplugged", "a"), ("network-vif-plugged", "a"), ("network-changed", "b")]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_temporary_errors_of_nova_are_retried(fake_nova: FakeNova, notifier: NovaNotifier, status: int) -> None:
    fake_nova.answer_next(status)
    fake_nova.answer_next(status)
    notifier.send([plugged("a")])
    fake_nova.wait_for_requests(3)
    assert notifier.queue.close(PATIENCE) == 0
    assert fake_nova.requests == [[msgspec.to_builtins(plugged("a"))]] * 3


@pytest.mark.parametrize("status", [400, 403, 404])
def test_refused_events_are_dropped_and_later_ones_are_sent(
    fake_nova: FakeNova, notifier: NovaNotifier, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fake_nova.answer_next(status)
    notifier.send([changed("gone")])
    fake_nova.wait_for_requests(1)
    notifier.send([changed("next")])
    fake_nova.wait_for_requests(2)
    notifier.queue.close(PATIENCE)
    assert [tags(request) for request in fake_nova.requests] == [["gone"], ["next"]]
    assert any("Nova" in record.getMessage() for record in caplog.records)


def test_an_awaited_event_that_nova_does_not_find_is_a_warning_with_the_remedy(
    fake_nova: FakeNova, notifier: NovaNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for number, event in enumerate((plugged("a"), changed("b")), 1):
        fake_nova.answer_next(404)
        notifier.send([event])
        fake_nova.wait_for_requests(number)
    notifier.queue.close(PATIENCE)
    levels = [record.levelname for record in caplog.records if "404" in record.getMessage()]
    assert levels == ["WARNING", "INFO"]
    assert "role add" in caplog.text
    assert SERVER in caplog.text


def test_one_unknown_server_among_others_is_dropped_alone(
    fake_nova: FakeNova, notifier: NovaNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fake_nova.hold.clear()
    notifier.send([changed("first")])
    fake_nova.wait_for_requests(1)
    fake_nova.answer_next(207, {"b": 404})
    notifier.send([changed("a"), changed("b"), changed("c")])
    fake_nova.hold.set()
    notifier.queue.close(PATIENCE)
    assert len(fake_nova.requests) == 2
    assert any("port b" in record.getMessage() and "404" in record.getMessage() for record in caplog.records)


def test_an_unreachable_nova_is_retried() -> None:
    attempts: list[int] = []
    taken = threading.Event()

    def post(events: list[dict[str, str]]) -> NovaAnswer:
        attempts.append(len(events))
        if len(attempts) < 4:
            raise NovaUnavailable("connection refused")
        taken.set()
        return NovaAnswer(200)

    notifier = NovaNotifier(post, delivery=DeliveryOptions(first_retry=0.001, slowest_retry=0.002))
    notifier.send([plugged("a")])
    assert taken.wait(PATIENCE)
    notifier.queue.close(PATIENCE)
    assert attempts == [1, 1, 1, 1]


def test_events_older_than_nova_would_wait_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    tried: list[str] = []

    def post(events: list[dict[str, str]]) -> NovaAnswer:
        tried.append(events[0]["tag"])
        now[0] += 200.0
        raise NovaUnavailable("connection refused")

    notifier = NovaNotifier(
        post, delivery=DeliveryOptions(first_retry=0.001, slowest_retry=0.002, retry_for=300.0, clock=lambda: now[0])
    )
    notifier.send([plugged("a")])
    notifier.queue.close(PATIENCE)
    assert set(tried) == {"a"}
    assert len(tried) <= 2
    assert "1 items are given up" in caplog.text


def test_close_ends_a_long_wait_after_one_last_attempt(caplog: pytest.LogCaptureFixture) -> None:
    tried = threading.Semaphore(0)

    def post(events: list[dict[str, str]]) -> NovaAnswer:
        tried.release()
        raise NovaUnavailable("connection refused")

    notifier = NovaNotifier(post, delivery=DeliveryOptions(first_retry=3600.0, slowest_retry=3600.0, retry_for=1e9))
    notifier.send([plugged("a")])
    assert tried.acquire(timeout=PATIENCE)
    assert notifier.queue.close(PATIENCE) == 0
    assert "1 items are given up" in caplog.text


@pytest.mark.parametrize(
    ("status_changes", "data_changes", "expected"),
    [(True, False, ["network-vif-plugged"]), (False, True, ["network-changed"])],
)
def test_each_kind_of_event_has_its_switch(status_changes: bool, data_changes: bool, expected: list[str]) -> None:
    sent: list[str] = []

    def post(events: list[dict[str, str]]) -> NovaAnswer:
        sent.extend(event["name"] for event in events)
        return NovaAnswer(200)

    notifier = NovaNotifier(post, status_changes=status_changes, data_changes=data_changes)
    notifier.send([plugged("a"), changed("a")])
    notifier.queue.close(PATIENCE)
    assert sent == expected


def test_nova_is_found_through_keystones_catalogue(fake_nova: FakeNova, tmp_path: Any) -> None:
    conf = configured(
        tmp_path,
        "[DEFAULT]\nnotify_nova_on_port_data_changes = false\n"
        f"[nova]\nauth_type = password\nauth_url = {fake_nova.url}\nusername = neutron\npassword = secret\n"
        "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n"
        "region_name = one\nendpoint_type = internal\n",
    )
    notifier = nova.nova_notifier_from_conf(conf)
    notifier.send([plugged("a"), changed("a")])
    fake_nova.wait_for_requests(1)
    notifier.queue.close(PATIENCE)
    assert fake_nova.requests == [[msgspec.to_builtins(plugged("a"))]]
    assert fake_nova.headers[0]["x-auth-token"] == "the-token"
    assert fake_nova.headers[0]["x-openstack-request-id"].startswith("req-")


def test_an_unreachable_keystone_is_retried_like_nova(tmp_path: Any) -> None:
    conf = configured(
        tmp_path, "[nova]\nauth_type = password\nauth_url = http://127.0.0.1:1\nusername = u\npassword = secret\n"
    )
    with pytest.raises(NovaUnavailable) as raised:
        keystone_poster(conf)([msgspec.to_builtins(changed("a"))])
    assert "secret" not in str(raised.value)


def test_with_credentials_all_events_are_sent_by_default(fake_nova: FakeNova, tmp_path: Any) -> None:
    conf = configured(
        tmp_path,
        f"[nova]\nauth_type = password\nauth_url = {fake_nova.url}\nusername = neutron\npassword = secret\n"
        "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n"
        "region_name = one\nendpoint_type = internal\n",
    )
    notifier = nova.nova_notifier_from_conf(conf)
    assert (notifier.status_changes, notifier.data_changes) == (True, True)
    notifier.send([plugged("a")])
    fake_nova.wait_for_requests(1)
    notifier.queue.close(PATIENCE)
    assert fake_nova.requests == [[msgspec.to_builtins(plugged("a"))]]


@pytest.mark.parametrize(
    ("text", "level"),
    [("", "INFO"), ("[DEFAULT]\nnotify_nova_on_port_data_changes = true\n[nova]\nregion_name = one\n", "WARNING")],
)
def test_without_credentials_nothing_is_sent_and_one_line_is_logged(
    tmp_path: Any, caplog: pytest.LogCaptureFixture, text: str, level: str
) -> None:
    caplog.set_level("INFO")
    conf = configured(tmp_path, text)
    nova.report_unconfigured(conf)
    notifier = nova.nova_notifier_from_conf(conf)
    notifier.send([NovaEvent(nova.VIF_PLUGGED, "server", "port"), NovaEvent(nova.VIF_DELETED, "server", "port")])
    assert "events for Nova" not in [thread.name for thread in threading.enumerate()]  # it starts with the first event
    assert [(record.levelname, record.message) for record in caplog.records] == [
        (level, "Nova is not notified of port changes: [nova] auth_type and credentials are not set")
    ]


def test_switched_off_nothing_is_logged_or_loaded(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    off = "[DEFAULT]\nnotify_nova_on_port_status_changes = false\nnotify_nova_on_port_data_changes = false\n"
    conf = configured(tmp_path, f"{off}[nova]\nauth_type = none\n")
    nova.report_unconfigured(conf)
    nova.report_unconfigured(configured(tmp_path, off))
    notifier = nova.nova_notifier_from_conf(conf)
    assert (notifier.status_changes, notifier.data_changes, caplog.records) == (False, False, [])


def test_credentials_without_auth_type_are_refused_at_start(tmp_path: Any) -> None:
    conf = configured(tmp_path, "[nova]\nauth_url = http://127.0.0.1:1\nusername = neutron\n")
    with pytest.raises(ValueError, match="auth_type"):
        nova.nova_notifier_from_conf(conf)
