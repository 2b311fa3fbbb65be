"""Programs that the roles require, with their Debian packages, and the required capability.

keepalived, radvd, dibbler and charon are optional: a host without them serves every router that needs none of them. A
program that an option asks for is required.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

BGPD = "/usr/lib/frr/bgpd"  # unless `[bgp] bgpd` names another one
PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "l2": {"ovs-ofctl": "openvswitch-common"},
    "dhcp": {"dnsmasq": "dnsmasq-base", "conntrack": "conntrack"},
    "l3": {"nft": "nftables", "conntrack": "conntrack"},
    "metadata": {},
    "bgp": {BGPD: "frr", "vtysh": "frr"},
    "sriov": {},
}
CONNTRACKD: Mapping[str, str] = {"conntrackd": "conntrackd"}  # of role l3 with ha_conntrackd_enabled
CAP_NET_ADMIN = 12


def programs_of(roles: Collection[str], bgpd: str = BGPD, *, conntrackd: bool = False) -> dict[str, str]:
    """The programs that the roles of an agent require, with their packages; `bgpd` and `conntrackd` as configured."""
    required = {program: package for role in roles for program, package in PROGRAMS.get(role, {}).items()}
    required |= CONNTRACKD if conntrackd and "l3" in roles else {}
    return {bgpd if program == BGPD else program: package for program, package in required.items()}


def has_capability(number: int, status: str = "/proc/self/status") -> bool:
    """Whether this process has the capability; in a container even root may lack it."""
    for line in Path(status).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> number & 1)
    return False
