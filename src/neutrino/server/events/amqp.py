"""Notifications to RabbitMQ: the transport URL, one connection, and the notifier. The only module that imports kombu."""

# kombu claims to be typed, but most of its functions are not.
# mypy: disable-error-code="no-untyped-call"

import itertools
import logging
import re
import ssl
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote

from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.exceptions import KombuError
from kombu.messaging import Producer
from kombu.transport.pyamqp import Transport
from kombu.utils.url import url_to_parts

from neutrino.server.context import Context, admin_context
from neutrino.server.events.delivery import DeliveryOptions, DeliveryQueue, Undelivered
from neutrino.server.events.envelope import render_message, seal

LOG = logging.getLogger(__name__)

# --- the transport URL ------------------------------------------------------------------------------------------------
#
#     rabbit://user:password@host1:5672,user:password@host2:5672/virtual-host?ssl=1
#
# Standard URL parsers do not read a list of hosts. No error or repr contains the URL, because it contains a password.

SCHEMES = {"rabbit": False, "kombu": False, "amqp": False, "pyamqp": False, "amqps": True}  # whether it implies TLS
DEFAULT_PORT, DEFAULT_TLS_PORT = 5672, 5671
_URL = re.compile(r"(?P<scheme>\w+)://(?P<netlocs>[^/?]*)(/(?P<virtual_host>[^?]*))?(\?(?P<query>.*))?")


class InvalidTransportURL(ValueError):
    """The URL cannot be used. The message never quotes it."""


@dataclass(frozen=True, slots=True)
class Broker:
    host: str
    port: int
    username: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class TransportURL:
    brokers: tuple[Broker, ...]
    virtual_host: str
    tls: bool


def parse_transport_url(text: str) -> TransportURL:
    """Parse a transport URL; missing parts are those of a broker freshly installed on this host."""
    found = _URL.fullmatch(text.strip())
    if found is None or found["scheme"] not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        raise InvalidTransportURL(f"the transport URL must be scheme://..., the scheme one of {known}")
    flags = parse_qs(found["query"] or "")
    tls = SCHEMES[found["scheme"]] or flags.get("ssl", ["0"])[-1].lower() in ("1", "true", "yes", "on")
    brokers = tuple(_broker(netloc, tls) for netloc in found["netlocs"].split(","))
    return TransportURL(brokers, unquote(found["virtual_host"] or "") or "/", tls)


def _broker(netloc: str, tls: bool) -> Broker:
    try:
        parts = url_to_parts(f"amqp://{netloc}")
    except ValueError:
        raise InvalidTransportURL("a broker's address in the transport URL is not host:port") from None
    port = parts.port or (DEFAULT_TLS_PORT if tls else DEFAULT_PORT)
    password = parts.password or "" if "@" in netloc else "guest"
    return Broker(parts.hostname or "localhost", port, parts.username or "guest", password)


# --- a connection -----------------------------------------------------------------------------------------------------

PRECONDITION_FAILED = 406  # AMQP: the exchange or queue exists with other properties
TIMEOUT = 10.0


# Errors of amqp's connections. Another attempt may succeed after the first kind; with the second, the broker refuses this
# message or a declaration that it needs.
UNAVAILABLE = (*Transport.connection_errors, OSError, KombuError)
REFUSED = Transport.channel_errors


@dataclass(frozen=True, slots=True)
class AmqpOptions:
    """How messages are sent, the last six under the names of their options in [oslo_messaging_rabbit]. Exchange and queues
    must be declared as the consumers declare them.
    """

    publisher_id: str
    topics: Sequence[str] = ("notifications",)
    exchange: str = "neutron"
    envelopes: Sequence[bool] = (True,)  # one message for each: with the envelope 2.0, or without one
    amqp_durable_queues: bool = False
    rabbit_quorum_queue: bool = False
    ssl: bool = False  # as does ?ssl=1 in the URL
    ssl_ca_file: str = ""  # empty: the system's CA certificates
    ssl_cert_file: str = ""
    ssl_key_file: str = ""


class BrokerConnection:
    """An open connection to one broker. After any error it is unusable: drop it and open another.

    The exchange, and a queue of the topic's name bound to it, are declared before the first message: a notification waits
    there for a consumer that starts later. `publish` waits for the broker's confirmation, so that a message that the broker
    never got is sent again over the next connection.
    """

    def __init__(self, broker: Broker, url: TransportURL, options: AmqpOptions) -> None:
        self._connection = Connection(
            hostname=broker.host,
            port=broker.port,
            userid=broker.username,
            password=broker.password,
            virtual_host=url.virtual_host,
            transport="pyamqp",
            ssl=_tls_options(options, broker.host) if options.ssl or url.tls else False,
            connect_timeout=TIMEOUT,
            transport_options={
                "confirm_publish": True,
                "read_timeout": TIMEOUT,
                "write_timeout": TIMEOUT,
                "client_properties": {"connection_name": "neutrino notifications"},
            },
        )
        self._declared: set[str] = set()
        # RabbitMQ refuses a quorum queue that is not durable.
        durable = options.amqp_durable_queues or options.rabbit_quorum_queue
        self._exchange = Exchange(options.exchange, type="topic", durable=durable, auto_delete=False)
        self._arguments = {"x-queue-type": "quorum"} if options.rabbit_quorum_queue else None
        try:
            self._connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
            self._channel = self._connection.channel()
        except (*UNAVAILABLE, *REFUSED) as why:
            self.drop()
            raise ConnectionError(str(why)) from why  # a refused login is not about the message

    def publish(self, routing_key: str, body: str) -> None:
        """Send one message and wait until the broker has it."""
        self._declare(routing_key)
        Producer(self._channel, auto_declare=False).publish(
            body,
            exchange=self._exchange.name,
            routing_key=routing_key,
            content_type="application/json",
            content_encoding="utf-8",
            confirm_timeout=TIMEOUT,
        )

    def drop(self) -> None:
        """Discard a broken connection without the closing handshake, which a dead broker never answers."""
        self._connection.collect(socket_timeout=1)

    def close(self) -> None:
        """Close the connection with its handshake."""
        try:
            self._connection.release()
        except (*UNAVAILABLE, *REFUSED):
            self.drop()

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
        # Exchange and queue are shared: if another service declared them with other properties, they are used as they are.
        for declare in (self._exchange.declare, queue.queue_declare, queue.queue_bind):
            try:
                declare(channel=self._channel)
            except REFUSED as why:
                if getattr(why, "code", None) != PRECONDITION_FAILED:
                    raise
                self._channel = self._connection.channel()  # a refused declaration closes the channel
        self._declared.add(routing_key)


def _tls_options(options: AmqpOptions, host: str) -> dict[str, object]:
    files = {"ca_certs": options.ssl_ca_file, "certfile": options.ssl_cert_file, "keyfile": options.ssl_key_file}
    given = {name: path for name, path in files.items() if path}
    return {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host, **given}


# --- the notifier -----------------------------------------------------------------------------------------------------

DELIVERY = DeliveryOptions(first_retry=0.2)
MAX_REFUSALS = 3  # of one message, which is then given up so that the next ones are sent


class AmqpNotifier:
    """Publishes notifications in order from a background thread: a slow or dead broker costs a request nothing."""

    def __init__(self, url: str, options: AmqpOptions, delivery: DeliveryOptions = DELIVERY) -> None:
        self._url = parse_transport_url(url)
        self._options = options
        self._attempts = itertools.cycle(self._url.brokers)
        self._refusals = 0  # of the next message, in a row
        self._connection: BrokerConnection | None = None
        self.queue: DeliveryQueue[tuple[str, str]] = DeliveryQueue(
            "notifications", self._deliver, delivery, finish=lambda: self._end_connection(BrokerConnection.close)
        )

    def notify(self, event_type: str, payload: Mapping[str, object], context: Context) -> None:
        """Queue one notification for every topic and return.

        Rendered in the thread of the request, in which nothing else changes the payload. A second attempt sends the same
        bytes, so that consumers recognize a duplicate.
        """
        self._notify(event_type, payload, context, self._options.publisher_id)

    def publish(self, event_type: str, payload: Mapping[str, object], publisher_id: str) -> None:
        """Queue a notification of another publisher, such as an agent, for no request."""
        self._notify(event_type, payload, admin_context(), publisher_id)

    def drain(self, timeout: float) -> bool:
        return self.queue.drain(timeout)

    def close(self, timeout: float = 5.0) -> int:
        return self.queue.close(timeout)

    def _notify(self, event_type: str, payload: Mapping[str, object], context: Context, publisher_id: str) -> None:
        identity = {"publisher_id": publisher_id, "message_id": str(uuid.uuid4())}
        try:
            message = render_message(event_type, payload, context, now=datetime.now(UTC), **identity)
            rendered = [
                (f"{topic}.info", seal(message, uuid.uuid4().hex, has_envelope=has_envelope))
                for topic in self._options.topics
                for has_envelope in self._options.envelopes
            ]
        except (TypeError, ValueError):
            LOG.exception("notification %s cannot be rendered and is not sent", event_type)
            return
        for item in rendered:
            self.queue.put(item)

    def _deliver(self, batch: Sequence[tuple[str, str]]) -> Undelivered[tuple[str, str]] | None:
        some_accepted = False
        for position, item in enumerate(batch):
            try:
                self._connected().publish(*item)
                self._refusals, some_accepted = 0, True
            except (*UNAVAILABLE, *REFUSED) as why:
                # A refusal closes the channel, so both errors need a new connection.
                self._end_connection(BrokerConnection.drop)
                self._refusals = self._refusals + 1 if isinstance(why, REFUSED) else 0
                if self._refusals < MAX_REFUSALS:
                    return Undelivered(batch[position:], str(why), some_accepted)
                LOG.error("a notification is given up, the broker refuses it: %s", why)
                self._refusals = 0
        return None

    def _connected(self) -> BrokerConnection:
        """The open connection, or a new one to the next broker of the URL."""
        if self._connection is None:
            broker = next(self._attempts)
            self._connection = BrokerConnection(broker, self._url, self._options)
            LOG.info("notifications are sent to broker %s", broker)
        return self._connection

    def _end_connection(self, end: Callable[[BrokerConnection], None]) -> None:
        if self._connection is not None:
            end(self._connection)
            self._connection = None
