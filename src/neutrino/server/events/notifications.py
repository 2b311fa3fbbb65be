"""Notifications about API requests, for consumers on a message bus.

Each change sends two: `network.create.start` with the request and `network.create.end` with the result. The server itself
never depends on them, and they are off unless configured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config import cfg

if TYPE_CHECKING:
    from neutrino.server.events.amqp import AmqpNotifier


def register_options(conf: cfg.ConfigOpts) -> None:
    """Options of oslo.messaging that decide where notifications go, under their own names."""
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
            cfg.StrOpt("transport_url", secret=True, help="The broker; if not set, [DEFAULT] transport_url."),
        ],
        group="oslo_messaging_notifications",
    )
    conf.register_opts(
        [
            cfg.BoolOpt("amqp_durable_queues", default=False, help="Declare exchange and queues as durable."),
            cfg.BoolOpt("rabbit_quorum_queue", default=False, help="Declare queues as quorum queues."),
            cfg.BoolOpt("ssl", default=False, help="Connect with TLS."),
            cfg.StrOpt("ssl_ca_file", default="", help="CA certificates that the broker's certificate must chain to."),
            cfg.StrOpt("ssl_cert_file", default="", help="The client certificate."),
            cfg.StrOpt("ssl_key_file", default="", help="The key of the client certificate."),
        ],
        group="oslo_messaging_rabbit",
    )


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
    amqp = AmqpOptions(
        f"network.{host}",
        options.topics,
        conf.control_exchange,
        durable=rabbit.amqp_durable_queues,
        quorum=rabbit.rabbit_quorum_queue,
        tls=rabbit.ssl,
        ca_file=rabbit.ssl_ca_file,
        cert_file=rabbit.ssl_cert_file,
        key_file=rabbit.ssl_key_file,
    )
    return AmqpNotifier(options.transport_url or conf.transport_url, amqp)
