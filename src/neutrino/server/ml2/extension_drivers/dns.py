"""Names of ports: the host name asked for, or one made of the address, under the configured domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from neutrino.server import errors


class Dns:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._domain = conf.dns_domain.strip(".")

    def process_create_port(self, values: Mapping[str, Any], port: dict[str, Any], network: Mapping[str, Any]) -> None:
        self._assign(port)

    def process_update_port(
        self, values: Mapping[str, Any], port: dict[str, Any], network: Mapping[str, Any], before: Mapping[str, Any]
    ) -> None:
        if port["dns_name"] != before["dns_name"] or port["fixed_ips"] != before["fixed_ips"]:
            self._assign(port)

    def _assign(self, port: dict[str, Any]) -> None:
        if len(port["dns_name"]) + len(self._domain) + 2 > 255:
            raise errors.InvalidInput(f"Invalid input for dns_name: with the domain {self._domain} it is too long.")
        port["dns_assignment"] = [self.name_for(port["dns_name"], f["ip_address"]) for f in port["fixed_ips"]]

    def name_for(self, dns_name: str, address: str) -> dict[str, str]:
        host = dns_name or f"host-{address.replace('.', '-').replace(':', '-')}"
        suffix = f".{self._domain}." if self._domain else "."
        if dns_name.endswith("."):
            return {"ip_address": address, "hostname": dns_name.partition(".")[0], "fqdn": dns_name}
        return {"ip_address": address, "hostname": host, "fqdn": f"{host}{suffix}"}
