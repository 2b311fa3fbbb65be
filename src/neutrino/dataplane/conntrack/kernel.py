"""The kernel's connection tracker, for ports that are filtered on a Linux bridge, and for routers.

Connections are read through the `conntrack` program, which prints thousands of them in the time that netlink in Python
takes for a hundred, and changed through netlink, as the program rejects a zone in an update. The messages are few and the
format is the kernel's ABI, so they are packed here.
"""

import contextlib
import dataclasses
import errno
import socket
import struct
from collections.abc import Collection, Iterable, Iterator

from neutrino.dataplane.conntrack import api
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.program import ProgramError, run_program
from neutrino.dataplane.protocols.linux import NETLINK_NETFILTER
from neutrino.dataplane.protocols.rtnetlink import NetlinkSocket, attribute, ip, nested, tolerated

_NEW, _DELETE = 0x100, 0x102  # IPCTNL_MSG_CT_NEW and _DELETE of NFNL_SUBSYS_CTNETLINK; a new one that exists is updated
_TUPLE_ORIG, _MARK, _ZONE = 1, 8, 18
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_IP_ADDRESSES = {4: (1, 2), 6: (3, 4)}  # source, destination
_PROTO_NUM, _SRC_PORT, _DST_PORT = 1, 2, 3
_ICMP_FIELDS = {api.ICMP: (4, 5, 6), api.ICMPV6: (7, 8, 9)}  # id, type, code
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclasses.dataclass(frozen=True)
class KernelConntrack:
    """Implements `MarkingConntrack` and `NatConntrack` for the connections of a namespace."""

    namespace: str = HOST
    namespaces: Namespaces = dataclasses.field(default_factory=Namespaces)

    def flush(self, entries: Iterable[api.ConntrackFlush]) -> None:
        selection = api.Selection(entries)
        if selection.zones:
            self._change(_DELETE, (entry for entry in self.read(selection.zones) if selection.includes(entry)))

    def flush_translated(self, kept: Collection[str]) -> int:
        stale = list(api.translated_elsewhere(self.read([0]), kept))
        self._change(_DELETE, stale)
        return len(stale)

    def read(self, zones: Iterable[int]) -> tuple[api.Connection, ...]:
        wanted = set(zones)
        if not wanted:
            return ()
        # The program filters by one zone only; for several, reading all once is faster than a process for each.
        one = ["-w", str(min(wanted))] if len(wanted) == 1 else []
        command = ["conntrack", "-L", *one, "-o", "extended"]
        try:
            output = self.namespaces.run(self.namespace, lambda: run_program(command))
        except (ProgramError, NetlinkError) as error:
            raise api.ConntrackError(f"conntrack: {error}") from error
        return tuple(entry for entry in parse_connections(output) if entry.zone in wanted)

    def mark(self, connections: Iterable[api.Connection], mark: int) -> None:
        self._change(_NEW, connections, attribute(_MARK, struct.pack("!I", mark)))

    def _change(self, command: int, connections: Iterable[api.Connection], more: bytes = b"") -> None:
        chosen = list(connections)
        if not chosen:
            return
        try:
            opened = self.namespaces.run(self.namespace, lambda: NetlinkSocket(NETLINK_NETFILTER))
            with contextlib.closing(opened) as netlink:
                for connection in chosen:
                    with tolerated(errno.ENOENT):  # it has ended meanwhile
                        netlink.do(command, 0, _encode(connection) + more)
        except (OSError, NetlinkError) as error:
            raise api.ConntrackError(f"conntrack: {error}") from error


def _encode(connection: api.Connection) -> bytes:
    """The zone and the tuple of the first packet, by which the kernel finds the connection."""
    head = struct.pack("=BBH", _FAMILIES[connection.family], 0, 0)
    source, destination = _IP_ADDRESSES[connection.family]
    protocol = [attribute(_PROTO_NUM, struct.pack("B", connection.protocol))]
    if connection.protocol in _ICMP_FIELDS:
        number, kind, code = _ICMP_FIELDS[connection.protocol]
        protocol.append(attribute(number, struct.pack("!H", connection.source_port)))
        protocol.append(attribute(kind, struct.pack("B", connection.icmp_type)))
        protocol.append(attribute(code, struct.pack("B", connection.icmp_code)))
    elif connection.source_port or connection.destination_port:
        protocol.append(attribute(_SRC_PORT, struct.pack("!H", connection.source_port)))
        protocol.append(attribute(_DST_PORT, struct.pack("!H", connection.destination_port)))
    addresses = ip(source, connection.source), ip(destination, connection.destination)
    first = nested(_TUPLE_ORIG, nested(_TUPLE_IP, *addresses), nested(_TUPLE_PROTO, *protocol))
    return head + first + attribute(_ZONE, struct.pack("!H", connection.zone))


def parse_connections(dump: str) -> Iterator[api.Connection]:
    """The connections of `conntrack -L -o extended`, which prints the first packet's values before the reply's."""
    for line in dump.splitlines():
        words = line.split()
        if len(words) < 5 or words[0] not in ("ipv4", "ipv6"):
            continue
        values = [word.split("=", 1) for word in words[4:] if "=" in word]
        first, last = dict(reversed(values)), dict(values)  # the first of each key is of the first packet
        yield api.parse_connection(
            first, int(words[3]), last.get("zone", "0"), last.get("mark", "0"), last.get("dst", "")
        )
