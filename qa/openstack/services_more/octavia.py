"""Octavia: its network driver with Keystone and neutrino."""

from __future__ import annotations

from pathlib import Path

from qa.openstack.cloud import Cloud, ini
from qa.openstack.services.resources import DEMO
from qa.openstack.services_more.programs import run_steps

USER = "octavia"
PROGRAM = Path(__file__).with_name("octavia_program.py")
NAME = "octavia-check"


def check_octavia(cloud: Cloud) -> str:
    """Octavia's network driver: virtual addresses, security group, plugging, failover, removal."""
    cloud.keystone_user(USER)
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {"transport_url": cloud.amqp_url},
        "database": {"connection": cloud.database("octavia")},
    }
    config = cloud.write("octavia.conf", ini(sections) + cloud.credentials("service_auth", USER) + "[neutron]\n")
    arguments = _networks(cloud)
    try:
        steps = run_steps(cloud, "octavia", PROGRAM, [config, *arguments, cloud.hosts[0]])
    finally:
        _remove(cloud)
    return f"{steps} steps of the network driver"


def _networks(cloud: Cloud) -> list[str]:
    """Networks of `demo`, whose load balancer it is: project, network, its subnets, a subnet of members."""
    _remove(cloud)
    network = cloud.connect(*DEMO).network
    front = network.create_network(name=NAME)
    back = network.create_network(name=f"{NAME}-members")
    v4 = network.create_subnet(network_id=front.id, ip_version=4, cidr="10.81.0.0/24")
    v6 = network.create_subnet(network_id=front.id, ip_version=6, cidr="fd00:81::/64")
    members = network.create_subnet(network_id=back.id, ip_version=4, cidr="10.82.0.0/24")
    return [front.project_id, front.id, v4.id, v6.id, members.id]


def _remove(cloud: Cloud) -> None:
    admin = cloud.connect().network
    for name in (NAME, f"{NAME}-members"):
        for found in admin.networks(name=name):
            for port in admin.ports(network_id=found.id):
                if not port.device_owner.startswith("network:"):
                    admin.delete_port(port)
            admin.delete_network(found)
