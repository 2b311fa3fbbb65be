"""The physical networks between the hosts: three Linux bridges in the namespace `fabric`.

The underlay carries the tunnels, the provider network carries VLAN and flat networks, the external network connects to the
external machine. The bridges do not filter VLANs, so tagged frames pass unchanged. No device of this machine is attached:
packets do not leave the lab, and labs do not reach each other.
"""

from collections.abc import Mapping
from pathlib import Path

from neutrino.lab.hosts.namespaces import command, in_host, ip_batch, write_sysctls
from neutrino.lab.settings import EXTERNAL, EXTERNAL_ADDRESSES, UPLINKS

# The userspace datapath reads uplinks and taps while the host's kernel receives the same packets. Unless prevented, the
# kernel also answers ARP and ND there, and peers get duplicate replies. Default for new devices; br-underlay overrides it.
SWITCH_ONLY = {"ipv4/conf/default/arp_ignore": 8, "ipv6/conf/default/disable_ipv6": 1}


def render_fabric(hosts: Mapping[str, int], external: int, mtu: int) -> list[str]:
    """`ip` commands for the namespace `fabric`; hosts and the external machine are given by their holders' pids."""
    lines = []
    for uplink in UPLINKS:
        lines += [f"link add {uplink} mtu {mtu} type bridge mcast_snooping 0", f"link set {uplink} up"]
        for host, holder in hosts.items():
            port = f"{host}-{uplink}"
            lines += [
                f"link add {port} mtu {mtu} type veth peer name {uplink} mtu {mtu} netns {holder}",
                f"link set {port} master {uplink} up",
            ]
    return [
        *lines,
        f"link add machine mtu {mtu} type veth peer name eth0 mtu {mtu} netns {external}",
        f"link set machine master {EXTERNAL} up",
    ]


def apply_fabric(fabric: int, hosts: Mapping[str, int], external: int, mtu: int) -> None:
    for holder in hosts.values():
        in_host(holder, lambda: write_sysctls(SWITCH_ONLY))
    in_host(fabric, lambda: _build_bridges(render_fabric(hosts, external, mtu)))
    in_host(external, _configure_external_machine)


def _build_bridges(lines: list[str]) -> None:
    if Path(
        "/proc/sys/net/bridge"
    ).exists():  # br_netfilter is loaded: iptables rules would apply to bridged frames too
        write_sysctls({f"bridge/bridge-nf-call-{table}": 0 for table in ("iptables", "ip6tables", "arptables")})
    ip_batch(lines)


def _configure_external_machine() -> None:
    write_sysctls({"ipv6/conf/eth0/accept_dad": 0})
    addresses = [
        f"address add {external_address} dev eth0{' nodad' if ':' in external_address else ''}"
        for external_address in EXTERNAL_ADDRESSES
    ]
    ip_batch(["link set lo up", "link set eth0 up", *addresses])
    checksum_in_software("eth0")


def checksum_in_software(device: str) -> None:
    """Disable TX checksum offload: the userspace datapath reads packets before any hardware would fill the checksum in,
    and the receiver would drop TCP and UDP.
    """
    command(["ethtool", "-K", device, "tx", "off"])
