"""Lines of the network log: the headers of a packet, and the logs that it is for, as text. Pure."""

import json
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, SCTP, TCP, UDP
from neutrino.model.firewall import FirewallLog
from neutrino.model.packet_log import PacketLog
from neutrino.model.trace import Packet

COPIED_BYTES = 128  # of a packet: all headers that are logged
_PROTOCOLS = {ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPV6: "icmpv6", SCTP: "sctp"}
_PLAIN = re.compile(r"[\w.:-]+", re.ASCII)
_IPV4, _IPV6, _VLAN = 0x0800, 0x86DD, 0x8100


class Frame(NamedTuple):
    eth_src: str
    eth_dst: str
    ether_type: int
    packet: Packet | None  # None: not of IPv4 or IPv6, or too short


def lines(
    event: str, direction: str, port_field: str, port_id: str, logs: Iterable[PacketLog | FirewallLog], frame: Frame
) -> Iterator[str]:
    """A line for each project that has some of these logs, which a packet is for."""
    by_project: defaultdict[str, list[PacketLog | FirewallLog]] = defaultdict(list)
    for log in logs:
        by_project[log.project_id].append(log)
    for project_id, own in sorted(by_project.items()):
        yield _line(event, direction, {port_field: port_id}, project_id, own, frame)


def _line(
    event: str,
    direction: str,
    port: Mapping[str, str],
    project_id: str,
    logs: Sequence[PacketLog | FirewallLog],
    frame: Frame,
) -> str:
    """The first four fields are those of Neutron's log. Names and unusual project ids, texts of a client, are quoted."""
    words = {
        "action": event,
        "project_id": project_id if _PLAIN.fullmatch(project_id) else json.dumps(project_id),
        "log_resource_ids": [log.id for log in logs],
        **port,
        "log_names": json.dumps([log.name for log in logs]),
        "direction": direction,
        "eth_src": frame.eth_src,
        "eth_dst": frame.eth_dst,
        **(_packet_words(frame.packet) if frame.packet is not None else {"eth_type": f"{frame.ether_type:#06x}"}),
    }
    return " ".join(f"{name}={value}" for name, value in words.items())


def _packet_words(packet: Packet) -> dict[str, object]:
    words: dict[str, object] = {
        "protocol": _PROTOCOLS.get(packet.protocol, packet.protocol),
        "src": packet.source,
        "dst": packet.destination,
    }
    if packet.protocol in (TCP, UDP, SCTP):
        words |= {"src_port": packet.source_port, "dst_port": packet.destination_port}
    elif packet.protocol in (ICMP, ICMPV6):
        words |= {"icmp_type": packet.destination_port, "icmp_code": packet.icmp_code}
    return words | {"length": packet.size}


# --- headers ----------------------------------------------------------------------------------------------------------


def decode(data: bytes) -> Frame | None:
    """The headers of a frame; None if it is too short for those of Ethernet."""
    if len(data) < 14:
        return None
    destination, source = (data[start : start + 6].hex(":") for start in (0, 6))
    kind, start = int.from_bytes(data[12:14], "big"), 14
    if kind == _VLAN:
        kind, start = int.from_bytes(data[16:18], "big"), 18
    return Frame(source, destination, kind, _packet(source, destination, kind, data[start:]))


def _packet(eth_src: str, eth_dst: str, kind: int, data: bytes) -> Packet | None:
    if kind == _IPV4 and len(data) >= 20:
        size, protocol, ttl = int.from_bytes(data[2:4], "big"), data[9], data[8]
        ends, rest = (data[12:16], data[16:20]), data[(data[0] & 0x0F) * 4 :]
        if int.from_bytes(data[6:8], "big") & 0x1FFF:  # a later fragment has no ports
            rest = b""
    elif kind == _IPV6 and len(data) >= 40:
        size, protocol, ttl = 40 + int.from_bytes(data[4:6], "big"), data[6], data[7]
        ends, rest = (data[8:24], data[24:40]), data[40:]
    else:
        return None
    source_port = destination_port = code = 0
    if protocol in (TCP, UDP, SCTP) and len(rest) >= 4:
        source_port, destination_port = struct.unpack_from("!HH", rest)
    elif protocol in (ICMP, ICMPV6) and len(rest) >= 2:
        destination_port, code = rest[0], rest[1]
    return Packet(
        eth_src=eth_src,
        eth_dst=eth_dst,
        source=str(ip_address(ends[0])),
        destination=str(ip_address(ends[1])),
        protocol=protocol,
        source_port=source_port,
        destination_port=destination_port,
        icmp_code=code,
        ttl=ttl,
        size=size,
    )
