"""Notifications about API requests, for consumers on a message bus or of the log: whether and how they are sent.

Each change sends two: `network.create.start` with the request and `network.create.end` with the result. The server itself
never depends on them, and they are off unless configured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from oslo_config import cfg

from neutrino.server.context import Context

# Drivers of oslo.messaging that send to a broker, each with whether its messages have the envelope 2.0.
BROKER_DRIVERS: Final = {"messaging": False, "messagingv2": True}
DRIVERS: Final = ("noop", "log", *BROKER_DRIVERS)


class Notifier(Protocol):
    def notify(self, event_type: str, payload: Mapping[str, object], context: Context) -> None:
        """Send a notification of a request; returns at once and never raises."""

    def publish(self, event_type: str, payload: Mapping[str, object], publisher_id: str) -> None:
        """The same of another publisher, such as an agent, for no request."""

    def drain(self, timeout: float) -> bool:
        """Wait until everything is delivered; False if the time was not enough."""

    def close(self, timeout: float = 5.0) -> int:
        """Deliver what is possible within the time; returns how many are left."""


@dataclass(frozen=True)
class Several:
    """The notifiers of several drivers."""

    notifiers: Sequence[Notifier]

    def notify(self, event_type: str, payload: Mapping[str, object], context: Context) -> None:
        for one in self.notifiers:
            one.notify(event_type, payload, context)

    def publish(self, event_type: str, payload: Mapping[str, object], publisher_id: str) -> None:
        for one in self.notifiers:
            one.publish(event_type, payload, publisher_id)

    def drain(self, timeout: float) -> bool:
        return all(one.drain(timeout) for one in self.notifiers)

    def close(self, timeout: float = 5.0) -> int:
        return sum(one.close(timeout) for one in self.notifiers)


def notifier_from_conf(conf: cfg.ConfigOpts, host: str) -> Notifier | None:
    """The configured notifier, None if notifications are off; an unknown driver is an error at the start of the server."""
    options = conf.oslo_messaging_notifications
    drivers = {driver for driver in options.driver if driver not in ("", "noop")}
    if unknown := drivers - set(DRIVERS):
        raise ValueError(
            f"[oslo_messaging_notifications] driver: {', '.join(sorted(unknown))} is not known; use {', '.join(DRIVERS)}"
        )
    notifiers: list[Notifier] = []
    if "log" in drivers:
        from neutrino.server.events.log import LogNotifier

        notifiers.append(LogNotifier(f"network.{host}"))
    if envelopes := [has_envelope for name, has_envelope in BROKER_DRIVERS.items() if name in drivers]:
        from neutrino.server.events.amqp import AmqpNotifier, AmqpOptions  # kombu is loaded only if it is used

        rabbit = conf.oslo_messaging_rabbit
        amqp = AmqpOptions(f"network.{host}", options.topics, conf.control_exchange, envelopes=envelopes, **rabbit)
        notifiers.append(AmqpNotifier(options.transport_url or conf.transport_url, amqp))
    if len(notifiers) > 1:
        return Several(notifiers)
    return notifiers[0] if notifiers else None
