"""A VM's addresses and routes, from its port: what a VM with a static configuration would have been told."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.lab.enter import in_network, ip_batch
from neutrino.lab.plug import DEVICE

DEFAULTS = {4: "0.0.0.0/0", 6: "::/0"}


def render_static(
    port: Mapping[str, Any], subnets: Sequence[Mapping[str, Any]], but: Collection[str] = ()
) -> list[str]:
    """Commands of `ip` in the VM; those of an earlier port or subnet go. `but`: subnets that are not for us to address."""
    by_id = {subnet["id"]: subnet for subnet in subnets}
    lines = [f"address flush dev {DEVICE} scope global"]
    routes: dict[str, str] = {}  # the first one counts, as with a client that is told the same twice
    for fixed in port["fixed_ips"]:
        if fixed["subnet_id"] in but:
            continue
        subnet = by_id[fixed["subnet_id"]]
        address, network = ipaddress.ip_address(fixed["ip_address"]), ipaddress.ip_network(subnet["cidr"])
        lines.append(
            f"address add {address}/{network.prefixlen} dev {DEVICE}{' nodad' if network.version == 6 else ''}"
        )
        for route in subnet["host_routes"]:
            routes.setdefault(route["destination"], route["nexthop"])
        if subnet["gateway_ip"] and subnet["gateway_ip"] != str(address):
            routes.setdefault(DEFAULTS[network.version], subnet["gateway_ip"])
    return lines + [
        f"route replace {destination} via {nexthop} dev {DEVICE} onlink" for destination, nexthop in routes.items()
    ]


def apply_static(
    network: Path, port: Mapping[str, Any], subnets: Sequence[Mapping[str, Any]], but: Collection[str] = ()
) -> None:
    in_network(network, lambda: ip_batch(render_static(port, subnets, but)))
