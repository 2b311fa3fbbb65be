"""Notifications through a real RabbitMQ, also with lost connections and restarted brokers."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from kombu import Connection, Exchange, Queue

from neutrino.server.context import Context
from neutrino.server.events.amqp import AmqpNotifier, AmqpOptions, parse_transport_url
from neutrino.server.events.delivery import DeliveryOptions
from tests.support.rabbitmq import RabbitMQ

pytestmark = pytest.mark.rabbitmq

CALLER = Context(request_id="req-1", user_id="u1", project_id="p1", roles=frozenset({"member"}))
PATIENCE = 30.0


def plain_message(message: Any) -> dict[str, Any]:
    assert message.content_type == "application/json"
    assert message.content_encoding == "utf-8"
    body = json.loads(message.body)
    assert body["oslo.version"] == "2.0"
    inner: dict[str, Any] = json.loads(body["oslo.message"])
    return inner


def declare_queue(url: str) -> None:
    """Make the queue as the notifier does, for a consumer that may start before the first message."""
    with Connection(url) as connection, connection.channel() as channel:
        exchange = Exchange("neutron", type="topic", durable=False)
        Queue("notifications.info", exchange, routing_key="notifications.info", durable=False)(channel).declare()


def consume(
    url: str, count: int, queue: str = "notifications.info", known: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """Exactly `count` messages, for a consumer that skips what it had before, as oslo.messaging does."""
    taken: dict[str, dict[str, Any]] = {}

    def take(message: Any) -> None:
        plain = plain_message(message)
        if plain["_unique_id"] not in known:
            taken.setdefault(plain["_unique_id"], plain)
        message.ack()

    deadline = time.monotonic() + PATIENCE
    with Connection(url) as connection, connection.channel() as channel:
        entity = Queue(queue, no_declare=True)(channel)
        with connection.Consumer(entity, on_message=take, channel=channel, auto_declare=False):
            while len(taken) < count:
                assert time.monotonic() < deadline, f"{len(taken)} of {count} messages arrived"
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=1)
        while (left := entity.get()) is not None:
            take(left)
    assert len(taken) == count
    return list(taken.values())


def forget_queues(url: str) -> None:
    with Connection(url) as connection, connection.channel() as channel:
        for name in ("notifications.info", "audit.info"):
            Queue(name)(channel).delete()
        Exchange("neutron")(channel).delete()


@pytest.fixture
def url(rabbitmq: RabbitMQ) -> Iterator[str]:
    url = rabbitmq.at("notifications")
    forget_queues(url)
    yield url
    forget_queues(url)


@contextlib.contextmanager
def notifying(url: str, limit: int = 10_000, **options: Any) -> Iterator[AmqpNotifier]:
    delivery = DeliveryOptions(limit, first_retry=0.05, slowest_retry=0.2)
    notifier = AmqpNotifier(url, AmqpOptions("network.h1", **options), delivery)
    try:
        yield notifier
    finally:
        notifier.queue.close(PATIENCE)


class Forwarder:
    """A TCP forwarder in front of the broker, with or without TLS, whose connections can be cut."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        target = parse_transport_url(url)
        self._broker = target.brokers[0]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._up = threading.Event()
        self._up.set()
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        port = self._listener.getsockname()[1]
        self.url = f"rabbit://{self._broker.username}:{self._broker.password}@127.0.0.1:{port}/{target.virtual_host}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Every connection breaks, and new ones break at once."""
        self._up.clear()
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def mend(self) -> None:
        self._up.set()

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self._up.is_set():
                    client.close()
                    continue
                if self._tls is not None:
                    try:
                        client = self._tls.wrap_socket(client, server_side=True)
                    except OSError:
                        client.close()
                        continue
                upstream = socket.create_connection((self._broker.host, self._broker.port))
                with self._lock:
                    self._open += [client, upstream]
                for source, sink in ((client, upstream), (upstream, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def forwarder(url: str) -> Iterator[Forwarder]:
    forwarder = Forwarder(url)
    yield forwarder
    forwarder.close()


def test_messages_wait_for_a_consumer_that_starts_later(url: str) -> None:
    with notifying(url) as notifier:
        notifier.notify("network.create.start", {"network": {"name": "net"}}, CALLER)
        notifier.notify("network.create.end", {"network": {"id": "n1", "name": "net"}}, CALLER)
    start, end = consume(url, 2)
    assert (start["event_type"], end["event_type"]) == ("network.create.start", "network.create.end")
    assert start["payload"] == {"network": {"name": "net"}}
    assert end["payload"] == {"network": {"id": "n1", "name": "net"}}
    assert start["publisher_id"] == "network.h1"
    assert start["priority"] == "INFO"
    assert start["_context_request_id"] == end["_context_request_id"] == "req-1"
    assert start["_context_project_id"] == "p1"
    assert start["message_id"] != end["message_id"]
    assert start["_unique_id"] != end["_unique_id"]


def test_order_is_kept_and_nothing_is_lost(url: str) -> None:
    with notifying(url) as notifier:
        for number in range(500):
            notifier.notify("port.update.end", {"number": number}, CALLER)
    assert [message["payload"]["number"] for message in consume(url, 500)] == list(range(500))


def test_every_topic_gets_its_copy(url: str) -> None:
    with notifying(url, topics=("notifications", "audit")) as notifier:
        notifier.notify("network.delete.end", {"network_id": "n1"}, CALLER)
    (one,) = consume(url, 1)
    (other,) = consume(url, 1, "audit.info")
    assert one["message_id"] == other["message_id"]
    assert one["_unique_id"] != other["_unique_id"]


def test_an_exchange_and_queue_with_other_properties_are_used(url: str) -> None:
    with Connection(url) as connection, connection.channel() as channel:
        exchange = Exchange("neutron", type="topic", durable=True)
        Queue("notifications.info", exchange, routing_key="notifications.info", durable=True)(channel).declare()
    with notifying(url, amqp_durable_queues=False) as notifier:
        notifier.notify("network.create.start", {}, CALLER)
    assert len(consume(url, 1)) == 1


def test_durable_queues(url: str) -> None:
    with notifying(url, amqp_durable_queues=True) as notifier:
        notifier.notify("network.create.start", {}, CALLER)
    with Connection(url) as connection, connection.channel() as channel:
        Exchange("neutron", type="topic", durable=True)(channel).declare()
        Queue("notifications.info", durable=True)(channel).queue_declare()


def test_a_connection_that_breaks_loses_nothing(url: str, forwarder: Forwarder) -> None:
    with notifying(forwarder.url) as notifier:
        declare_queue(url)
        notifier.notify("network.create.start", {"number": 0}, CALLER)
        (first,) = consume(url, 1)
        forwarder.cut()
        for number in range(1, 51):
            notifier.notify("network.create.start", {"number": number}, CALLER)
        forwarder.mend()
        rest = consume(url, 50, known=frozenset({first["_unique_id"]}))
    assert [message["payload"]["number"] for message in (first, *rest)] == list(range(51))


def test_a_lost_connection_neither_blocks_nor_logs_the_password(
    url: str, forwarder: Forwarder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    forwarder.cut()
    with notifying(forwarder.url, limit=10) as notifier:
        began = time.monotonic()
        for number in range(200):
            notifier.notify("network.create.start", {"number": number}, CALLER)
        assert time.monotonic() - began < 10.0
    for what in ("the oldest are dropped", "notifications are delayed", "items are given up"):
        assert what in caplog.text
    assert parse_transport_url(url).brokers[0].password not in caplog.text


def test_a_wrong_password_is_an_outage_and_is_not_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    broker = parse_transport_url(url).brokers[0]
    with notifying(f"rabbit://{broker.username}:not-this-one@{broker}/notifications") as notifier:
        notifier.notify("network.create.start", {}, CALLER)
    assert "1 items are given up" in caplog.text
    assert "not-this-one" not in caplog.text


def test_the_next_broker_is_used_if_the_first_is_unreachable(url: str) -> None:
    broker = parse_transport_url(url).brokers[0]
    login = f"{broker.username}:{broker.password}"
    with notifying(f"rabbit://{login}@127.0.0.1:1,{login}@{broker}/notifications") as notifier:
        notifier.notify("network.create.start", {}, CALLER)
        declare_queue(url)
        assert len(consume(url, 1)) == 1


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, its own authority, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path / "broker.pem"
    path.write_bytes(made.public_bytes(Encoding.PEM) + private)
    return path


def test_tls_connects_only_to_a_broker_with_a_trusted_certificate(
    url: str, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    forwarder = Forwarder(url, context)
    try:
        with notifying(f"{forwarder.url}?ssl=1") as untrusting:
            untrusting.notify("network.create.start", {}, CALLER)
        assert "1 items are given up" in caplog.text
        with notifying(forwarder.url, ssl=True, ssl_ca_file=str(certificate)) as notifier:
            notifier.notify("network.create.start", {}, CALLER)
        assert len(consume(url, 1)) == 1
    finally:
        forwarder.close()


def test_a_silent_broker_blocks_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        notifier = AmqpNotifier(f"rabbit://127.0.0.1:{silent.getsockname()[1]}/", AmqpOptions("network.h1"))
        began = time.monotonic()
        notifier.notify("network.create.start", {}, CALLER)
        with silent.accept()[0]:
            notifier.notify("network.create.end", {}, CALLER)
            assert notifier.queue.close(0.1) == 2
        assert time.monotonic() - began < 5.0


@pytest.mark.slow
def test_a_broker_that_starts_late_and_restarts_gets_all_messages() -> None:
    broker = RabbitMQ()
    with notifying(broker.url) as notifier:
        began = time.monotonic()
        notifier.notify("network.create.start", {"number": 1}, CALLER)
        notifier.notify("network.create.end", {"number": 2}, CALLER)
        assert time.monotonic() - began < 10.0
        with broker:
            declare_queue(broker.url)
            assert [message["payload"]["number"] for message in consume(broker.url, 2)] == [1, 2]
        notifier.notify("network.delete.start", {"number": 3}, CALLER)
        again = RabbitMQ()
        again.port, again.user, again.password = broker.port, broker.user, broker.password
        with again:
            declare_queue(again.url)
            assert [message["payload"]["number"] for message in consume(again.url, 1)] == [3]
