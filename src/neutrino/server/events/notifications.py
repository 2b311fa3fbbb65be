"""Notifications about API requests, for consumers on a message bus: whether they are sent.

Each change sends two: `network.create.start` with the request and `network.create.end` with the result. The server itself
never depends on them, and they are off unless configured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config import cfg

if TYPE_CHECKING:
    from neutrino.server.events.amqp import AmqpNotifier


def notifier_from_conf(conf: cfg.ConfigOpts, host: str) -> AmqpNotifier | None:
    """The configured notifier, None if notifications are off; an unknown driver is an error at the start of the server."""
    options = conf.oslo_messaging_notifications
    drivers = {driver for driver in options.driver if driver not in ("", "noop")}
    if unknown := drivers - {"messagingv2"}:
        raise ValueError(
            f"[oslo_messaging_notifications] driver: {', '.join(sorted(unknown))} is not known; use noop or messagingv2"
        )
    if not drivers:
        return None
    from neutrino.server.events.amqp import AmqpNotifier, AmqpOptions  # kombu is loaded only if it is used

    rabbit = conf.oslo_messaging_rabbit
    amqp = AmqpOptions(f"network.{host}", options.topics, conf.control_exchange, **rabbit)
    return AmqpNotifier(options.transport_url or conf.transport_url, amqp)
