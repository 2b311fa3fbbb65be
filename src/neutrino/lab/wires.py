"""The wires between the hosts: a Linux bridge each, in a namespace of their own.

There are three, as in a small cloud: the underlay carries the tunnels, the provider wire carries VLANs and flat networks,
the external wire leads outside. A bridge that filters no VLANs passes tagged frames as they are, so the kernel need not
know VLANs. The wires hang on nothing of this machine: nothing gets out, and labs do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from neutrino.lab.enter import command, host_network, in_network, ip_batch, write_sysctls
from neutrino.lab.settings import EXTERNAL, EXTERNAL_ADDRESSES, WIRES

# An uplink or a tap belongs to the userspace switch, which reads it beside the kernel. The kernel's own stack must not
# answer there as well: no ARP for the host's addresses, no IPv6. Set for all devices to come, and undone where meant.
SWITCH_ONLY = {"ipv4/conf/default/arp_ignore": 8, "ipv6/conf/default/disable_ipv6": 1}


def render_wires(hosts: Mapping[str, int], external: int, mtu: int) -> list[str]:
    """Commands of `ip` in the wires' namespace; hosts and the external machine are named by their holders' pids."""
    lines = []
    for wire in WIRES:
        lines += [f"link add {wire} mtu {mtu} type bridge mcast_snooping 0", f"link set {wire} up"]
        for host, holder in hosts.items():
            port = f"{host}-{wire}"
            lines += [
                f"link add {port} mtu {mtu} type veth peer name {wire} mtu {mtu} netns {holder}",
                f"link set {port} master {wire} up",
            ]
    return [
        *lines,
        f"link add machine mtu {mtu} type veth peer name eth0 mtu {mtu} netns {external}",
        f"link set machine master {EXTERNAL} up",
    ]


def render_external() -> list[str]:
    """Commands in the external machine's namespace."""
    addresses = [
        f"address add {address} dev eth0{' nodad' if ':' in address else ''}" for address in EXTERNAL_ADDRESSES
    ]
    return ["link set lo up", "link set eth0 up", *addresses]


def apply_wires(wires: int, hosts: Mapping[str, int], external: int, mtu: int) -> None:
    for holder in hosts.values():
        in_network(host_network(holder), lambda: write_sysctls(SWITCH_ONLY))
    in_network(host_network(wires), lambda: _build(render_wires(hosts, external, mtu)))
    in_network(host_network(external), _apply_external)


def _build(lines: list[str]) -> None:
    _pass_everything()
    ip_batch(lines)


def _pass_everything() -> None:
    """What crosses a bridge is no business of iptables here."""
    for table in ("iptables", "ip6tables", "arptables"):
        switch = Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}")
        if switch.exists():
            switch.write_text("0")


def _apply_external() -> None:
    write_sysctls({"ipv6/conf/eth0/accept_dad": 0})
    ip_batch(render_external())
    checksum_in_software("eth0")


def checksum_in_software(device: str) -> None:
    """The userspace switch reads packets as they leave the device: a checksum left to the hardware is wrong there."""
    command(["ethtool", "-K", device, "tx", "off"])
