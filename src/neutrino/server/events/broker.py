"""One connection to RabbitMQ that publishes notifications, and nothing else. The only module that imports kombu.

The exchange, and a queue of the topic's own name bound to it, are declared before the first message of a connection:
a notification sent before its consumer first appears waits in that queue. Publishing waits until the broker confirms,
so that a message the broker never had is sent again, over the next connection.
"""

# kombu says that it is typed, and leaves most functions without types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.exceptions import KombuError
from kombu.messaging import Producer

from neutrino.server.events.transport_url import Broker

PRECONDITION_FAILED = 406
"""AMQP's answer to a declaration that differs from what is there."""


class BrokerUnavailable(Exception):
    """The connection could not be made, or broke. Another attempt may succeed."""


class BrokerRefused(Exception):
    """The broker is there and refuses this message, or what it needs to be sent."""


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """What a TLS connection trusts and shows; all empty means the system's authorities and no certificate of ours."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class Messaging:
    """How exchange and queues are declared. It has to be what the consumers declare, or the broker refuses them."""

    exchange: str
    durable: bool = False
    quorum: bool = False
    virtual_host: str = "/"
    tls: TLSFiles | None = None
    timeout: float = 10.0


class BrokerConnection:
    """An open connection. Any error leaves it unusable: close it and open another."""

    def __init__(self, broker: Broker, messaging: Messaging) -> None:
        self._messaging = messaging
        self._connection = Connection(
            hostname=broker.host,
            port=broker.port,
            userid=broker.username,
            password=broker.password,
            virtual_host=messaging.virtual_host,
            transport="pyamqp",
            ssl=_tls_options(messaging.tls, broker.host),
            connect_timeout=messaging.timeout,
            transport_options={
                "confirm_publish": True,
                "read_timeout": messaging.timeout,
                "write_timeout": messaging.timeout,
                "client_properties": {"connection_name": "neutrino notifications"},
            },
        )
        self._unavailable = (*self._connection.connection_errors, OSError, KombuError)
        self._refused = self._connection.channel_errors
        self._declared: set[str] = set()
        durable = messaging.durable or messaging.quorum
        self._exchange = Exchange(messaging.exchange, type="topic", durable=durable, auto_delete=False)
        self._arguments = {"x-queue-type": "quorum"} if messaging.quorum else None
        try:
            self._connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
            self._channel = self._connection.channel()
        except (*self._unavailable, *self._refused) as why:
            self.drop()
            raise BrokerUnavailable(str(why)) from why

    def publish(self, routing_key: str, body: str) -> None:
        """Send one message and wait until the broker has it."""
        try:
            self._declare(routing_key)
            self._producer().publish(
                body,
                exchange=self._exchange.name,
                routing_key=routing_key,
                content_type="application/json",
                content_encoding="utf-8",
                confirm_timeout=self._messaging.timeout,
            )
        except self._refused as why:
            raise BrokerRefused(str(why)) from why
        except self._unavailable as why:
            raise BrokerUnavailable(str(why)) from why

    def drop(self) -> None:
        """Let go of a broken connection, without waiting for a goodbye that a dead broker never says."""
        self._connection.collect(socket_timeout=1)

    def close(self) -> None:
        """End the connection in order."""
        try:
            self._connection.release()
        except (*self._unavailable, *self._refused):
            self.drop()

    def _producer(self) -> Producer:
        return Producer(self._channel, auto_declare=False)

    def _declare(self, routing_key: str) -> None:
        if routing_key in self._declared:
            return
        queue = Queue(
            routing_key,
            exchange=self._exchange,
            routing_key=routing_key,
            durable=self._exchange.durable,
            auto_delete=False,
            queue_arguments=self._arguments,
        )
        self._declare_or_take_as_is(lambda: self._exchange(self._channel).declare())
        self._declare_or_take_as_is(lambda: queue(self._channel).queue_declare())
        queue(self._channel).queue_bind()
        self._declared.add(routing_key)

    def _declare_or_take_as_is(self, declare: Callable[[], object]) -> None:
        """Exchange and queue are shared: where another service made them otherwise, theirs serve as well.

        A refused declaration closes the channel, so the work goes on with a new one.
        """
        try:
            declare()
        except self._refused as why:
            if getattr(why, "code", None) != PRECONDITION_FAILED:
                raise
            self._channel = self._connection.channel()


def _tls_options(files: TLSFiles | None, host: str) -> dict[str, object] | bool:
    if files is None:
        return False
    options: dict[str, object] = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host}
    named = {"ca_certs": files.ca_file, "certfile": files.cert_file, "keyfile": files.key_file}
    options.update((name, path) for name, path in named.items() if path)
    return options
