"""Allocation pools that leave addresses for tests: a port may be allocated any address of its subnet's pool."""

from __future__ import annotations

import ipaddress
from typing import Any

FREE = 56  # of a /24: from .200 to the end


def pool(cidr: str) -> dict[str, Any]:
    """Attributes of a subnet that keep its last addresses out of the allocation pool."""
    network = ipaddress.ip_network(cidr)
    if network.version == 6 or network.prefixlen > 24:
        return {}
    return {"allocation_pools": [{"start": str(network[10]), "end": str(network[-FREE - 1])}]}
