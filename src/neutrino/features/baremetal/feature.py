"""Bare-metal nodes of Ironic as agents of the type "Baremetal Node", which mechanism drivers bind ports by.

Neutron gets them from ironic-neutron-agent over RabbitMQ. Here the server asks Ironic itself, if `[ironic] report_nodes` is
set: one of its API processes at a time (docs/design/neutron-drivers.md). With `enable_notifications` Ironic gets events
about bare-metal ports, as from Neutron.
"""

from oslo_config import cfg

from neutrino.features.baremetal.ironic import GROUP, ports_from_conf
from neutrino.features.baremetal.nodes import NodeReporter
from neutrino.features.baremetal.notifications import notifier_from_conf
from neutrino.server.features import Feature, Running
from neutrino.server.services import ResourcePlugin, Services


def start(services: Services) -> Running:
    options = services.conf[GROUP]
    notifier = notifier_from_conf(services.conf) if options.enable_notifications else None
    reporter = None
    if options.report_nodes:
        reporter = NodeReporter(services.db, services.registry, ports_from_conf(services.conf), options.report_interval)

    def close() -> None:
        for one in (reporter, notifier):
            if one is not None:
                one.close()

    return Running(
        port_or_status_changed=notifier.port_changed if notifier is not None else None,
        begin=reporter.begin if reporter is not None else nothing,
        close=close,
    )


def nothing() -> None:
    """No thread to start."""


FEATURES = (
    Feature(
        name="baremetal",
        always=True,
        build=lambda services: ResourcePlugin(),
        options={
            GROUP: [  # keystoneauth registers its own options in this group
                cfg.BoolOpt(
                    "report_nodes",
                    default=False,
                    help="Make Ironic's nodes agents, each with the physical networks of its ports, for mechanism drivers "
                    "that bind bare-metal ports by these; with the credentials of this section.",
                ),
                cfg.IntOpt("report_interval", default=30, min=1, help="Seconds between reads of Ironic's ports."),
                cfg.BoolOpt(
                    "enable_notifications",
                    default=False,
                    help="Send Ironic an event when a bare-metal port is bound, unbound or deleted; with the credentials "
                    "of this section.",
                ),
                cfg.StrOpt("region_name", help="The region of Ironic's endpoint."),
                cfg.StrOpt(
                    "endpoint_type",
                    default="public",
                    choices=["public", "internal", "admin"],
                    help="Which of Ironic's endpoints in the catalogue to use.",
                ),
            ]
        },
        start=start,
    ),
)
