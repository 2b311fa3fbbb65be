"""Port security: enabled by default, by the network's setting; disabled for ports of services."""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from neutrino.server import errors

Object = Mapping[str, Any]


class PortSecurity:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass

    def process_create_port(self, values: Object, port: Object, network: Object) -> Object:
        service = port["device_owner"].startswith("network:")
        if values.get("port_security_enabled", network["port_security_enabled"] and not service):
            return {"port_security_enabled": True}
        if values.get("security_groups"):
            raise errors.PortSecurityAndIPRequiredForSecurityGroups()
        if port["allowed_address_pairs"]:
            raise errors.AddressPairAndPortSecurityRequired()
        return {"port_security_enabled": False, "security_groups": []}  # the default group is not for it either

    def process_update_port(self, values: Object, port: Object, network: Object, before: Object) -> Object:
        if port["port_security_enabled"]:
            return {}
        if port["security_groups"]:
            if values.get("security_groups"):
                raise errors.PortSecurityAndIPRequiredForSecurityGroups()
            raise errors.PortSecurityPortHasSecurityGroup()
        if port["allowed_address_pairs"]:
            raise errors.AddressPairAndPortSecurityRequired()
        return {}
