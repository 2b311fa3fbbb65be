"""Checks of the underlay: the own tunnel address, and the MTU measured by ping to the other hosts.

Packets go to tunnel addresses of our own hosts only, as the agent received them from the server.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import msgspec

from neutrino.agent.l2.links import UNDERLAY
from neutrino.cli.doctor.links import down
from neutrino.cli.doctor.machine import Machine
from neutrino.cli.doctor.subject import Subject
from neutrino.diagnosis import host_problems
from neutrino.diagnosis.problems import Finding
from neutrino.model.state import Network

# Bytes that a tunnel adds to a packet of an instance, besides the outer IP header; as the server computes with.
OVERHEAD: Final = {"vxlan": 30, "geneve": 30, "gre": 22}
IP_HEADER: Final = {4: 20, 6: 40}
ICMP_HEADER: Final = 8
SMALL: Final = 56  # bytes of data in a ping that always fits
LOWEST: Final = {4: 576, 6: 1280}  # MTU that every IP network has
MAX_PEERS: Final = 64
PARALLEL: Final = 16
_LOCAL_MTU = re.compile(r"mtu\s*[=:]?\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Peer:
    host: str
    address: str


def underlay(subject: Subject) -> Iterator[Finding]:
    conf, machine = subject.conf, subject.machine
    if "l2" not in conf.roles or not conf.agent.tunnel_types:
        return
    local, state = conf.ovs.local_ip, subject.state
    if not _is_local(machine, local):
        yield host_problems.LOCAL_IP_MISSING(f"[ovs] local_ip = {local} is on no device of this machine")
        return
    if state is None:
        return
    hosts = [host for host in state.objects["host"].values() if host.id != conf.host and host.tunneling_ip]
    for host in hosts:
        if _same(host.tunneling_ip, local):
            yield host_problems.TUNNEL_ADDRESS_DUPLICATE(f"host {host.id} has the tunnel address {local} of this host")
    family = ipaddress.ip_address(local).version
    peers = [
        Peer(host.id, host.tunneling_ip)
        for host in sorted(hosts, key=lambda host: str(host.id))
        if not _same(host.tunneling_ip, local) and ipaddress.ip_address(host.tunneling_ip).version == family
    ][:MAX_PEERS]
    if not peers:
        return
    if any(use == UNDERLAY for _, use, _ in down(subject)):  # the check of links states it; no peer can answer
        return
    if machine.which("ping") is None:
        yield host_problems.MTU_UNKNOWN("ping is not installed")
        return
    needed = needed_mtu(state.objects["network"].values(), family)
    with ThreadPoolExecutor(PARALLEL) as pool:
        for findings in pool.map(lambda peer: list(_measure(machine, local, peer, family, needed)), peers):
            yield from findings


def _same(one: str, other: str) -> bool:
    return ipaddress.ip_address(one) == ipaddress.ip_address(other)


def _is_local(machine: Machine, text: str) -> bool:
    try:
        return ipaddress.ip_address(text) in local_addresses(machine)
    except ValueError:  # the check of the configuration states it
        return False


def local_addresses(machine: Machine) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Read the addresses of this machine, as values: an IPv6 address has several spellings."""
    done = machine.run(["ip", "-json", "address", "show"])
    if done.status != 0:
        raise RuntimeError(done.error.strip() or "ip address show failed")
    return {
        ipaddress.ip_address(address["local"])
        for device in msgspec.json.decode(done.out)
        for address in device.get("addr_info", ())
        if "local" in address
    }


def needed_mtu(networks: Iterable[Network], family: int) -> int:
    """Return the largest outer packet of the tunnelled networks on this host; 0 without any."""
    sizes = [
        network.mtu + OVERHEAD[segment.network_type] + IP_HEADER[family]
        for network in networks
        for segment in network.segments
        if segment.network_type in OVERHEAD
    ]
    return max(sizes, default=0)


def _measure(machine: Machine, local: str, peer: Peer, family: int, needed: int) -> Iterator[Finding]:
    shown = f"host {peer.host} at {peer.address}"
    if not passes(machine, local, peer.address, family, 0):
        yield host_problems.PEER_UNREACHABLE(f"{shown} does not answer ping from {local}")
        return
    if not needed or passes(machine, local, peer.address, family, needed):
        return
    measured = measure(machine, local, peer.address, family, needed)
    text = f"{shown}: packets of {measured} bytes pass, and its tunnelled networks need {needed}"
    yield host_problems.UNDERLAY_MTU(text, needed=needed, measured=measured)


def measure(machine: Machine, local: str, address: str, family: int, needed: int) -> int:
    """Find the largest packet that passes, by bisection; `needed` does not."""
    low, high = LOWEST[family], needed
    hint = _LOCAL_MTU.search(_ping(machine, local, address, family, needed)[1])
    if hint and low <= int(hint.group(1)) < needed and passes(machine, local, address, family, int(hint.group(1))):
        return int(hint.group(1))  # of this machine's own device, or by an ICMP error on the way
    while high - low > 1:
        middle = (low + high) // 2
        if passes(machine, local, address, family, middle):
            low = middle
        else:
            high = middle
    return low


def passes(machine: Machine, local: str, address: str, family: int, size: int) -> bool:
    return _ping(machine, local, address, family, size)[0]


def _ping(machine: Machine, local: str, address: str, family: int, size: int) -> tuple[bool, str]:
    """Send two packets of this size in bytes with their IP header, not to be fragmented (0: small ones)."""
    data = size - IP_HEADER[family] - ICMP_HEADER if size else SMALL
    options = ["-n", "-c", "2", "-i", "0.2", "-W", "0.5", "-M", "do", "-s", str(data), "-I", local]
    done = machine.run(["ping", f"-{family}", *options, address], 5)
    return done.status == 0, done.out + done.error
