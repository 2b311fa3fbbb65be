"""Programs that the roles require, with their Debian packages, and the required capability.

keepalived, radvd, dibbler and charon are optional: a host without them serves every router that needs none of them.
"""

from collections.abc import Mapping
from pathlib import Path

PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "l2": {"ovs-ofctl": "openvswitch-common"},
    "dhcp": {"dnsmasq": "dnsmasq-base", "conntrack": "conntrack"},
    "l3": {"nft": "nftables", "conntrack": "conntrack"},
    "metadata": {},
    "bgp": {"/usr/lib/frr/bgpd": "frr", "vtysh": "frr"},
}
CAP_NET_ADMIN = 12


def has_capability(number: int, status: str = "/proc/self/status") -> bool:
    """Whether this process has the capability; in a container even root may lack it."""
    for line in Path(status).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> number & 1)
    return False
