"""A connection tracker for the fake switch: zones, states and marks as `ct()` shows them.

A connection is new until the other side has answered; then its packets are established, those of the answering side also
`rpl`. Until it is committed it is not kept at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from neutrino.dataplane.openflow.text import CT_BITS
from tests.fakes.packet import ICMP, ICMPV6, Packet

Tuple = tuple[int, ...]

_PORTS = {6, 17, 132}
_ANSWERS = {8: 0, 0: 8, 128: 129, 129: 128}  # types of echo


@dataclasses.dataclass
class Connection:
    zone: int
    original: Tuple
    answered: bool = False
    mark: int = 0
    translated: int | None = None  # the destination's address after NAT

    @property
    def answer(self) -> Tuple:
        """The tuple of packets of the answering side."""
        family, protocol, source, destination, *rest = self.original
        to = destination if self.translated is None else self.translated
        if protocol in (ICMP, ICMPV6):
            return family, protocol, to, source, _ANSWERS.get(rest[0], rest[0])
        return family, protocol, to, source, *reversed(rest)


def _ends(fields: Mapping[str, int]) -> tuple[Tuple, Tuple]:
    """The tuple of a packet, and that of its reply."""
    family, protocol = fields["dl_type"], fields.get("nw_proto", 0)
    names = ("nw_src", "nw_dst") if family == 0x0800 else ("ipv6_src", "ipv6_dst")
    source, destination = (fields.get(name, 0) for name in names)
    if protocol in _PORTS:
        one, other = fields.get("tp_src", 0), fields.get("tp_dst", 0)
        return (family, protocol, source, destination, one, other), (family, protocol, destination, source, other, one)
    kind = fields.get("icmp_type", 0) if protocol in (ICMP, ICMPV6) else 0
    return (family, protocol, source, destination, kind), (
        *(family, protocol, destination, source),
        _ANSWERS.get(kind, kind) if protocol in (ICMP, ICMPV6) else 0,
    )


def _whole(packet: Packet) -> Mapping[str, int]:
    """The fields of a packet, put together if it is a fragment."""
    return {**packet.fields, **packet.unseen}


class FakeConntrack:
    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.look_ups = 0

    def original(self, zone: int, packet: Packet) -> dict[str, int]:
        """The fields of the packet that opened the connection."""
        if packet.invalid or packet.about is not None:
            return {}
        connection, _ = self._find(zone, _whole(packet))
        opened = connection.original if connection is not None else _ends(_whole(packet))[0]
        ports = dict(zip(("ct_tp_src", "ct_tp_dst"), opened[4:], strict=True)) if opened[1] in _PORTS else {}
        kind = "nw" if opened[0] == 0x0800 else "ipv6"
        return {"ct_nw_proto": opened[1], f"ct_{kind}_src": opened[2], f"ct_{kind}_dst": opened[3], **ports}

    def look_up(self, zone: int, packet: Packet) -> tuple[int, int]:
        """The state and the mark of a packet in a zone."""
        self.look_ups += 1
        tracked = CT_BITS["trk"]
        if packet.invalid:
            return tracked | CT_BITS["inv"], 0
        if packet.about is not None:
            connection, _ = self._find(zone, packet.about.fields)
            if connection is None:
                return tracked | CT_BITS["inv"], 0
            return tracked | CT_BITS["rel"] | CT_BITS["rpl"], connection.mark
        connection, is_reply = self._find(zone, _whole(packet))
        if connection is None:
            return tracked | CT_BITS["new"], 0
        connection.answered = connection.answered or is_reply
        state = tracked | CT_BITS["est" if connection.answered else "new"]
        return state | (CT_BITS["rpl"] if is_reply else 0), connection.mark

    def translate(self, zone: int, packet: Packet) -> dict[str, int]:
        """The fields that NAT changes in a packet: the destination, or in the other direction the source."""
        connection, is_reply = self._find(zone, _whole(packet))
        if connection is None or connection.translated is None:
            return {}
        return {"nw_src": connection.original[3]} if is_reply else {"nw_dst": connection.translated}

    def commit(self, zone: int, packet: Packet, mark: int | None, translated: int | None = None) -> None:
        if packet.invalid or packet.about is not None:
            return
        connection, _ = self._find(zone, _whole(packet))
        if connection is None:
            connection = Connection(zone, _ends(_whole(packet))[0], translated=translated)
            self.connections.append(connection)
        if mark is not None:
            connection.mark = mark

    def flush(self, zone: int | None = None) -> None:
        self.connections = [entry for entry in self.connections if zone is not None and entry.zone != zone]

    def _find(self, zone: int, fields: Mapping[str, int]) -> tuple[Connection | None, bool]:
        one, _ = _ends(fields)
        for connection in self.connections:
            if connection.zone == zone and one in (connection.original, connection.answer):
                return connection, connection.original != one
        return None, False
