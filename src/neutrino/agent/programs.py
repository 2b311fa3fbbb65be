"""Programs that each role cannot work without, the Debian package of each, and the privilege that they need.

keepalived, radvd and dibbler are not among them: a host without them serves every router that needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "l2": {"ovs-ofctl": "openvswitch-common"},
    "dhcp": {"dnsmasq": "dnsmasq-base", "conntrack": "conntrack"},
    "l3": {"nft": "nftables", "conntrack": "conntrack"},
    "metadata": {},
}
CAP_NET_ADMIN = 12


def has_capability(number: int, status: str = "/proc/self/status") -> bool:
    """Whether this process holds the capability; root has all of them, unless a container took them away."""
    for line in Path(status).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> number & 1)
    return False
