"""Attributes of the ports that the server creates for its own services: DHCP ports, router ports, floating IPs."""

from typing import Any

Object = dict[str, Any]


def service_port(network_id: str, project_id: str, device_id: str, owner: str, host: str, name: str = "") -> Object:
    """A new port, without addresses; an empty project hides it from tenants."""
    return {
        "name": name,
        "network_id": network_id,
        "project_id": project_id,
        "admin_state_up": True,
        "device_id": device_id,
        "device_owner": owner,
        "extra_dhcp_opts": [],
        "dns_name": "",
        "dns_domain": "",
        "binding:host_id": host,
        "binding:vnic_type": "normal",
        "propagate_uplink_status": True,
    }
