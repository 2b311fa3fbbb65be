"""Addresses that a test may name: a port gets any of its subnet's pool, by chance the very one that a test counts on."""

from __future__ import annotations

import ipaddress
from typing import Any

FREE = 56  # of a /24: from .200 to the end


def pool(cidr: str) -> dict[str, Any]:
    """What a subnet is made with so that its last addresses are nobody's until a test gives them to somebody."""
    network = ipaddress.ip_network(cidr)
    if network.version == 6 or network.prefixlen > 24:
        return {}
    return {"allocation_pools": [{"start": str(network[10]), "end": str(network[-FREE - 1])}]}
