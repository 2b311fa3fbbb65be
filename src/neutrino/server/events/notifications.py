"""Notifications of what the API did, for consumers on a message bus.

Around each change two notifications go out: `network.create.start` with what was asked, `network.create.end` with what
came of it. They are news, not work: the server itself never depends on them, and they are off unless configured.

`AmqpNotifier.notify` renders the message in the request's own thread, where its payload is at rest, and leaves the
rest to an outbox: a broker that is slow, gone or restarting costs a request nothing.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from oslo_config import cfg

from neutrino.server.events.envelope import (
    NotificationContext,
    new_message_id,
    new_unique_id,
    notification_context,
    render_message,
    seal,
)
from neutrino.server.events.outbox import Outbox, OutboxCounts, backoff
from neutrino.server.events.transport_url import parse_transport_url

if TYPE_CHECKING:
    from neutrino.server.events.broker import BrokerConnection, Messaging, TLSFiles

__all__ = [
    "AmqpNotifier",
    "NotificationContext",
    "Notifier",
    "NullNotifier",
    "notification_context",
    "notifier_from_conf",
    "register_options",
]

LOG = logging.getLogger(__name__)

WAITING_LIMIT = 10_000
BATCH = 100
FIRST_RETRY = 0.2
SLOWEST_RETRY = 10.0
REFUSALS = 3
"""How often a broker may refuse one message before that message is given up, so that the next ones get their turn."""


class Notifier(Protocol):
    """Tells consumers what happened. It neither blocks nor raises."""

    def notify(self, event_type: str, payload: Mapping[str, object], context: NotificationContext) -> None: ...

    def close(self, timeout: float = 5.0) -> None: ...


class NullNotifier:
    """Notifications are off."""

    def notify(self, event_type: str, payload: Mapping[str, object], context: NotificationContext) -> None:
        """Nobody listens."""

    def close(self, timeout: float = 5.0) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One sealed message for one topic. A second attempt sends the same bytes, so that consumers know it again."""

    routing_key: str
    body: str


class AmqpNotifier:
    """Publishes to RabbitMQ, in order, from one background thread of its own."""

    def __init__(
        self,
        url: str,
        *,
        topics: Sequence[str] = ("notifications",),
        exchange: str = "neutron",
        publisher_id: str = "",
        durable: bool = False,
        quorum: bool = False,
        tls: TLSFiles | None = None,
        waiting_limit: int = WAITING_LIMIT,
        first_retry: float = FIRST_RETRY,
        slowest_retry: float = SLOWEST_RETRY,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`tls` gives the files of a TLS connection; the URL decides whether there is one, unless `tls` is given."""
        self._url = parse_transport_url(url)
        self._routing_keys = tuple(f"{topic}.info" for topic in topics)
        self._exchange = exchange
        self._publisher_id = publisher_id or f"network.{socket.gethostname()}"
        self._durable = durable
        self._quorum = quorum
        self._tls = tls
        self._first_retry = first_retry
        self._slowest_retry = slowest_retry
        self._now = now
        self._next_broker = 0
        self._connection: BrokerConnection | None = None
        self._outbox: Outbox[OutgoingMessage] = Outbox(
            "notifications", self._deliver, limit=waiting_limit, batch=BATCH, finish=self._goodbye
        )

    @property
    def counts(self) -> OutboxCounts:
        return self._outbox.counts

    def notify(self, event_type: str, payload: Mapping[str, object], context: NotificationContext) -> None:
        """Queue one notification for every topic and return."""
        try:
            message = render_message(
                event_type,
                payload,
                context,
                publisher_id=self._publisher_id,
                message_id=new_message_id(),
                now=self._now(),
            )
            outgoing = [OutgoingMessage(key, seal(message, new_unique_id())) for key in self._routing_keys]
        except (TypeError, ValueError):
            LOG.exception("The notification %s cannot be rendered and is not sent", event_type)
            return
        for item in outgoing:
            self._outbox.put(item)

    def close(self, timeout: float = 5.0) -> None:
        """Send what can be sent within `timeout`, then stop."""
        self._outbox.close(timeout)

    def _deliver(self, batch: Sequence[OutgoingMessage]) -> int:
        from neutrino.server.events.broker import BrokerRefused, BrokerUnavailable

        pending = deque(batch)
        given_up = refusals = 0
        delays = backoff(self._first_retry, self._slowest_retry)
        while pending:
            try:
                self._connected().publish(pending[0].routing_key, pending[0].body)
            except (BrokerUnavailable, BrokerRefused) as why:
                self._disconnect()
                LOG.warning("Notifications wait, %d in hand: %s", len(pending), why)
                refusals = refusals + 1 if isinstance(why, BrokerRefused) else 0
                if refusals >= REFUSALS:
                    LOG.error("The broker refuses a notification; it is given up: %s", why)
                    pending.popleft()
                    given_up += 1
                    refusals = 0
                elif not self._outbox.pause(next(delays)):
                    return given_up + len(pending)
            else:
                pending.popleft()
                refusals = 0
                delays = backoff(self._first_retry, self._slowest_retry)
        return given_up

    def _connected(self) -> BrokerConnection:
        """The open connection, or one to the next broker of the URL."""
        from neutrino.server.events.broker import BrokerConnection

        if self._connection is None:
            broker = self._url.brokers[self._next_broker % len(self._url.brokers)]
            self._next_broker += 1
            self._connection = BrokerConnection(broker, self._messaging())
            LOG.info("Notifications go to the broker %s", broker)
        return self._connection

    def _messaging(self) -> Messaging:
        from neutrino.server.events.broker import Messaging, TLSFiles

        tls = self._tls if self._tls is not None else (TLSFiles() if self._url.tls else None)
        return Messaging(
            exchange=self._exchange,
            durable=self._durable,
            quorum=self._quorum,
            virtual_host=self._url.virtual_host,
            tls=tls,
        )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    def _goodbye(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def register_options(conf: cfg.ConfigOpts) -> None:
    """The options of the ecosystem's other services that decide where notifications go."""
    conf.register_opts(
        [
            cfg.StrOpt("transport_url", default="rabbit://", secret=True, help="The message broker's address."),
            cfg.StrOpt("control_exchange", default="neutron", help="The exchange that notifications are sent to."),
        ]
    )
    conf.register_opts(
        [
            cfg.MultiStrOpt(
                "driver",
                default=["noop"],
                help="How notifications are sent: 'noop' (not at all) or 'messagingv2' (to RabbitMQ).",
            ),
            cfg.ListOpt("topics", default=["notifications"], help="The topics that notifications are sent to."),
            cfg.StrOpt(
                "transport_url",
                secret=True,
                help="The broker for notifications; without it, [DEFAULT] transport_url.",
            ),
        ],
        group="oslo_messaging_notifications",
    )
    conf.register_opts(
        [
            cfg.BoolOpt("amqp_durable_queues", default=False, help="Declare exchange and queues as durable."),
            cfg.BoolOpt("rabbit_quorum_queue", default=False, help="Declare queues as quorum queues."),
            cfg.BoolOpt("ssl", default=False, help="Connect with TLS."),
            cfg.StrOpt(
                "ssl_ca_file", default="", help="The authorities that the broker's certificate is checked against."
            ),
            cfg.StrOpt("ssl_cert_file", default="", help="The certificate to show to the broker."),
            cfg.StrOpt("ssl_key_file", default="", help="The key of that certificate."),
        ],
        group="oslo_messaging_rabbit",
    )


def notifier_from_conf(conf: cfg.ConfigOpts, host: str) -> Notifier:
    """The notifier that the configuration asks for; a driver it does not know is an error at start, not later."""
    options = conf.oslo_messaging_notifications
    drivers = {driver for driver in options.driver if driver not in ("", "noop")}
    if unknown := drivers - {"messagingv2"}:
        raise ValueError(
            f"[oslo_messaging_notifications] driver: {', '.join(sorted(unknown))} is not known; use noop or messagingv2"
        )
    if not drivers:
        return NullNotifier()
    url = options.transport_url or conf.transport_url
    rabbit = conf.oslo_messaging_rabbit
    tls: TLSFiles | None = None
    if rabbit.ssl or parse_transport_url(url).tls:
        from neutrino.server.events.broker import TLSFiles

        tls = TLSFiles(rabbit.ssl_ca_file, rabbit.ssl_cert_file, rabbit.ssl_key_file)
    return AmqpNotifier(
        url,
        topics=options.topics,
        exchange=conf.control_exchange,
        publisher_id=f"network.{host}",
        durable=rabbit.amqp_durable_queues,
        quorum=rabbit.rabbit_quorum_queue,
        tls=tls,
    )
