"""Ironic: its network interfaces `neutron` and `flat` with Keystone and neutrino.

networking-generic-switch binds its ports (`services/neutrino.py`), so `fail_on_port_binding_failure` has Ironic's default.
"""

from __future__ import annotations

from pathlib import Path

from qa.openstack.cloud import Cloud, ini
from qa.openstack.services.resources import DEMO
from qa.openstack.services_more.environment import more
from qa.openstack.services_more.programs import run_steps

USER = "ironic"
PROGRAM = Path(__file__).with_name("ironic_program.py")
SERVICE_NETWORK, TENANT_NETWORK = "ironic-provisioning", "ironic-tenant"
CLEANED = ("cleaning", "provisioning", "rescuing", "inspection", "servicing")


def check_ironic(cloud: Cloud) -> str:
    """Ironic's network interfaces: service networks, VIFs of nodes with port groups, binding profiles."""
    cloud.keystone_user(USER)
    cloud.sql("DROP DATABASE IF EXISTS ironic")
    config = cloud.write("ironic.conf", render(cloud))
    with more(cloud):
        cloud.run([cloud.program("ironic-dbsync"), "--config-file", config, "create_schema"])
    ports = _networks(cloud)
    try:
        steps = run_steps(cloud, "ironic", PROGRAM, [config, *ports])
    finally:
        _remove(cloud)
    return f"{steps} steps of the network interfaces"


def render(cloud: Cloud) -> str:
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "enabled_hardware_types": "fake-hardware",
            "enabled_network_interfaces": "noop,flat,neutron",
            "enabled_boot_interfaces": "fake,pxe",
            "enabled_deploy_interfaces": "fake",
            "enabled_management_interfaces": "fake",
            "enabled_power_interfaces": "fake",
            "enabled_inspect_interfaces": "no-inspect",
            "enabled_vendor_interfaces": "no-vendor",  # the default needs ipmitool
            "default_boot_interface": "pxe",  # decides which ports boot
            "host": "conductor",
        },
        "database": {"connection": cloud.database("ironic")},
    }
    networks = {f"{name}_network": SERVICE_NETWORK for name in CLEANED}
    neutron = cloud.credentials("neutron", USER, **networks)
    return ini(sections) + neutron + cloud.credentials("service_catalog", USER)


def _networks(cloud: Cloud) -> list[str]:
    """The network of the services, and two ports of `demo`, as Nova would attach them."""
    _remove(cloud)
    admin, demo = cloud.connect().network, cloud.connect(*DEMO).network
    services = admin.create_network(
        name=SERVICE_NETWORK, provider_network_type="flat", provider_physical_network="physnet1"
    )
    admin.create_subnet(network_id=services.id, ip_version=4, cidr="10.84.0.0/24")
    tenant = demo.create_network(name=TENANT_NETWORK)
    demo.create_subnet(network_id=tenant.id, ip_version=4, cidr="10.85.0.0/24")
    return [demo.create_port(network_id=tenant.id).id for _ in range(2)]


def _remove(cloud: Cloud) -> None:
    admin = cloud.connect().network
    for name in (SERVICE_NETWORK, TENANT_NETWORK):
        for found in admin.networks(name=name):
            for port in admin.ports(network_id=found.id):
                if not port.device_owner.startswith("network:"):
                    admin.delete_port(port)
            admin.delete_network(found)
