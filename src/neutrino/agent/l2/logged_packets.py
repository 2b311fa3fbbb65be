"""From a copy of a packet to lines of the network log: its headers, the logs that it is for, and the text. Pure.

Flows copy packets by port and event. Whether the rules of a log's own group allowed a packet is decided here, by the rules
themselves: flows of several groups that match the same packets are one flow.
"""

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, LocalPort
from neutrino.agent.l2.extension_api import cookie_of, port_owner
from neutrino.agent.l2.hybrid.render import port_device
from neutrino.agent.l2.packets import logs_by_port
from neutrino.agent.trace.group_rules import allowing_any
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, SCTP, TCP, UDP
from neutrino.dataplane.protocols.packet_in import PacketIn
from neutrino.model.packet_log import ACCEPT, DROP, PacketLog
from neutrino.model.state import Port
from neutrino.model.trace import Packet

_PROTOCOLS = {ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPV6: "icmpv6", SCTP: "sctp"}
_IPV4, _IPV6, _VLAN = 0x0800, 0x86DD, 0x8100
_IN, _OUT = "ingress", "egress"
# What a copy of a table means; of a dropped packet the in_port tells the direction.
_EVENTS = {
    pipeline.ACCEPT_OR_INGRESS.number: (ACCEPT, _OUT),
    pipeline.ACCEPTED_INGRESS.number: (ACCEPT, _IN),
    pipeline.DROPPED.number: (DROP, ""),
}


class Frame(NamedTuple):
    eth_src: str
    eth_dst: str
    ether_type: int
    packet: Packet | None  # None: not of IPv4 or IPv6, or too short


_Logged = tuple[LocalPort, tuple[PacketLog, ...]]


class LoggedPorts:
    """The ports with logs of one desired state, by the cookie of their flows, or the device of their own bridge."""

    def __init__(self, desired: Desired) -> None:
        self._desired = desired
        by_port = logs_by_port(desired.host_state)
        found = [(port, by_port[port.id]) for port in desired.ports if port.id in by_port]
        self._found: Mapping[int, _Logged] = {cookie_of(port_owner(port)): (port, logs) for port, logs in found}
        self._bridged: Mapping[str, _Logged] = {
            port_device("tap", port.id): (port, logs) for port, logs in found if port.hybrid and port.secured
        }

    def lines(self, copied: PacketIn) -> Iterator[str]:
        """A line for each project whose logs a packet of the switch is for."""
        if copied.cookie not in self._found or copied.table not in _EVENTS:
            return  # the log was deleted a moment ago
        port, logs = self._found[copied.cookie]
        event, direction = _EVENTS[copied.table]
        direction = direction or (_OUT if copied.in_port == port.ofport else _IN)
        yield from self._lines(port, logs, event, direction, copied.data)

    def bridged_lines(self, event: str, device_in: str, device_out: str, data: bytes) -> Iterator[str]:
        """The same for a packet that crosses the bridge of a hybrid port."""
        for direction, device in ((_OUT, device_in), (_IN, device_out)):
            if device in self._bridged:
                yield from self._lines(*self._bridged[device], event, direction, data)

    def _lines(
        self, port: LocalPort, logs: Sequence[PacketLog], event: str, direction: str, data: bytes
    ) -> Iterator[str]:
        frame = decode(data)
        if frame is None:
            return
        state = self._desired.host_state.ports[port.id]
        chosen = [log for log in logs if log.covers(event) and self._is_for(log, state, frame, event, direction)]
        by_project: defaultdict[str, list[PacketLog]] = defaultdict(list)
        for log in chosen:
            by_project[log.project_id].append(log)
        for project_id, own in sorted(by_project.items()):
            yield line(event, direction, port.id, project_id, own, frame)

    def _is_for(self, log: PacketLog, port: Port, frame: Frame, event: str, direction: str) -> bool:
        """A dropped packet is for every group of the port, an accepted one for those that allow it."""
        if event == DROP or not log.resource_id or frame.packet is None:
            return True
        allowing = allowing_any(self._desired, port, frame.packet, direction)
        return any(group_id == log.resource_id for group_id, _ in allowing)


def line(event: str, direction: str, port_id: str, project_id: str, logs: Sequence[PacketLog], frame: Frame) -> str:
    """The first four fields are those of Neutron's log. Names are quoted: they are any text of a client."""
    words = {
        "action": event,
        "project_id": project_id,
        "log_resource_ids": [log.id for log in logs],
        "vm_port": port_id,
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
