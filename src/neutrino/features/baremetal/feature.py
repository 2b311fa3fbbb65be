"""Bare-metal nodes of Ironic as agents of the type "Baremetal Node", which mechanism drivers bind ports by.

Neutron gets them from ironic-neutron-agent over RabbitMQ. Here the server asks Ironic itself, if `[ironic] report_nodes` is
set: one of its API processes at a time (docs/design/neutron-drivers.md).
"""

from oslo_config import cfg

from neutrino.features.baremetal.ironic import GROUP, ports_from_conf
from neutrino.features.baremetal.nodes import NodeReporter
from neutrino.server.features import Feature, Running
from neutrino.server.services import ResourcePlugin, Services


def start(services: Services) -> Running:
    if not services.conf[GROUP].report_nodes:
        return Running()
    ports = ports_from_conf(services.conf)
    reporter = NodeReporter(services.db, services.registry, ports, services.conf[GROUP].report_interval)
    return Running(begin=reporter.begin, close=reporter.close)


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
