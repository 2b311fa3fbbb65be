"""Names of DHCP options as dnsmasq 2.90 has them: what `extra_dhcp_opts` may name, besides numbers. Pure.

`dnsmasq --help dhcp` and `--help dhcp6` print them. A line with another name is an error in dnsmasq's log at every reload,
and has no effect.
"""

import re
from collections.abc import Mapping
from typing import Final

CLIENT_ID: Final = frozenset({"client-id", "61"})  # selects the lease of a client, and is not sent
MAX_NUMBER: Final = {4: 255, 6: 65535}  # 255 is dnsmasq's for the address of the boot server, as `server-ip-address`
NUMBERS: Final[Mapping[int, Mapping[str, int]]] = {
    4: {
        "netmask": 1,
        "time-offset": 2,
        "router": 3,
        "dns-server": 6,
        "log-server": 7,
        "lpr-server": 9,
        "boot-file-size": 13,
        "domain-name": 15,
        "swap-server": 16,
        "root-path": 17,
        "extension-path": 18,
        "ip-forward-enable": 19,
        "non-local-source-routing": 20,
        "policy-filter": 21,
        "max-datagram-reassembly": 22,
        "default-ttl": 23,
        "mtu": 26,
        "all-subnets-local": 27,
        "router-discovery": 31,
        "router-solicitation": 32,
        "static-route": 33,
        "trailer-encapsulation": 34,
        "arp-timeout": 35,
        "ethernet-encap": 36,
        "tcp-ttl": 37,
        "tcp-keepalive": 38,
        "nis-domain": 40,
        "nis-server": 41,
        "ntp-server": 42,
        "netbios-ns": 44,
        "netbios-dd": 45,
        "netbios-nodetype": 46,
        "netbios-scope": 47,
        "x-windows-fs": 48,
        "x-windows-dm": 49,
        "T1": 58,
        "T2": 59,
        "vendor-class": 60,
        "nis+-domain": 64,
        "nis+-server": 65,
        "tftp-server": 66,
        "bootfile-name": 67,
        "mobile-ip-home": 68,
        "smtp-server": 69,
        "pop3-server": 70,
        "nntp-server": 71,
        "irc-server": 74,
        "user-class": 77,
        "rapid-commit": 80,
        "client-arch": 93,
        "client-interface-id": 94,
        "client-machine-id": 97,
        "posix-timezone": 100,
        "tzdb-timezone": 101,
        "ipv6-only": 108,
        "domain-search": 119,
        "sip-server": 120,
        "classless-static-route": 121,
        "vendor-id-encap": 125,
        "tftp-server-address": 150,
        "server-ip-address": 255,
    },
    6: {
        "sip-server-domain": 21,
        "sip-server": 22,
        "dns-server": 23,
        "domain-search": 24,
        "nis-server": 27,
        "nis+-server": 28,
        "nis-domain": 29,
        "nis+-domain": 30,
        "sntp-server": 31,
        "information-refresh-time": 32,
        "posix-timezone": 41,
        "tzdb-timezone": 42,
        "ntp-server": 56,
        "bootfile-url": 59,
        "bootfile-param": 60,
    },
}
_TAGGED: Final = re.compile(r"(?P<tags>(?:tag:[^,]*,)*)(?P<option>.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]{1,5}")


def split_tags(name: str) -> tuple[list[str], str]:
    """The tags of dnsmasq before an option's name, as in `tag:ipxe,bootfile-name`, and the name."""
    parts = _TAGGED.fullmatch(name)
    assert parts is not None, "any text matches"
    return [text for text in parts["tags"].split(",") if text], parts["option"]


def number_of(name: str, ip_version: int) -> int | None:
    """The number of an option, by its name in any case or its number, without tags; None if dnsmasq does not know it."""
    if _NUMBER.fullmatch(name):
        return int(name) if 0 < int(name) <= MAX_NUMBER[ip_version] else None
    known = NUMBERS[ip_version]
    return known.get(name, _LOWER[ip_version].get(name.lower()))


def is_known(name: str, ip_version: int) -> bool:
    """Whether `opt_name` is a client id, or an option that dnsmasq knows, with tags before it or without.

    The name may be one of the other IP version, as Tempest gives `tftp-server` for IPv6: such an option is never sent.
    """
    option = split_tags(name)[1]
    by_name = any(option.lower() in names for names in _LOWER.values())
    return name in CLIENT_ID or by_name or number_of(option, ip_version) is not None


_LOWER: Final = {
    version: {name.lower(): number for name, number in names.items()} for version, names in NUMBERS.items()
}
