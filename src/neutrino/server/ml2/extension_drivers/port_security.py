"""Port security: on unless the network or the port says otherwise; off for the service's own ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from neutrino.server import errors


class PortSecurity:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass

    def process_create_port(self, values: Mapping[str, Any], port: dict[str, Any], network: Mapping[str, Any]) -> None:
        service = port["device_owner"].startswith("network:")
        enabled = values.get("port_security_enabled", network["port_security_enabled"] and not service)
        port["port_security_enabled"] = enabled
        if not enabled:
            if values.get("security_groups"):
                raise errors.PortSecurityAndIPRequiredForSecurityGroups()
            port["security_groups"] = []
            if port["allowed_address_pairs"]:
                raise errors.AddressPairAndPortSecurityRequired()

    def process_update_port(
        self, values: Mapping[str, Any], port: dict[str, Any], network: Mapping[str, Any], before: Mapping[str, Any]
    ) -> None:
        if port["port_security_enabled"]:
            return
        if port["security_groups"]:
            if values.get("security_groups"):
                raise errors.PortSecurityAndIPRequiredForSecurityGroups()
            raise errors.PortSecurityPortHasSecurityGroup()
        if port["allowed_address_pairs"]:
            raise errors.AddressPairAndPortSecurityRequired()
