"""The services of a cloud, each a module with `start(cloud)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qa.openstack import hosts
from qa.openstack.cloud import Cloud
from qa.openstack.services import glance, keystone, libvirt, mariadb, neutrino, nova, placement, rabbitmq, resources

# In the order in which they start: each needs some of those before it.
SERVICES: dict[str, Callable[[Cloud], None]] = {
    "hosts": hosts.start,
    "mariadb": mariadb.start,
    "rabbitmq": rabbitmq.start,
    "keystone": keystone.start,
    "neutrino": neutrino.start,
    "placement": placement.start,
    "glance": glance.start,
    "nova": nova.start,
    "libvirt": libvirt.start,
    "compute": nova.start_computes,
    "resources": resources.start,
}
# What a cloud without instances needs.
NETWORKING = ("hosts", "mariadb", "rabbitmq", "keystone", "neutrino")
EVERYTHING = tuple(SERVICES)


def start(cloud: Cloud, names: Sequence[str] = EVERYTHING) -> None:
    """Start the named services in order."""
    for name, begin in SERVICES.items():
        if name in names and name not in cloud.started:
            begin(cloud)
            cloud.add_started(name)
            cloud.say(f"{name} runs")
