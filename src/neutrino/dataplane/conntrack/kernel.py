"""The kernel's connection tracker, for ports that are filtered on a Linux bridge, and for routers.

Connections are read through the `conntrack` program, which prints thousands of them in the time that netlink in Python
takes for a hundred, and changed through netlink, as the program rejects a zone in an update. The messages are few and the
format is the kernel's ABI, so they are packed here.
"""

import errno
import os
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address

from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, Connection, ConntrackError, ConntrackFlush, Selection
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces

_NETLINK_NETFILTER = 12
_NEW, _DELETE = 0x100, 0x102  # IPCTNL_MSG_CT_NEW and _DELETE of NFNL_SUBSYS_CTNETLINK; a new one that exists is updated
_REQUEST_ACK = 0x5
_TUPLE_ORIG, _MARK, _ZONE = 1, 8, 18
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_IP_ADDRESSES = {4: (1, 2), 6: (3, 4)}  # source, destination
_PROTO_NUM, _SRC_PORT, _DST_PORT = 1, 2, 3
_ICMP_FIELDS = {ICMP: (4, 5, 6), ICMPV6: (7, 8, 9)}  # id, type, code
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class KernelConntrack:
    """Implements `MarkingConntrack`. `namespace` is the path of a network namespace; empty for the current one."""

    def __init__(self, namespace: str = "", *, program: Sequence[str] = ("conntrack",), timeout: float = 60) -> None:
        self._namespace = namespace
        self._program = [*(["nsenter", f"--net={namespace}"] if namespace else []), *program]
        self._timeout = timeout

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        selection = Selection(entries)
        if selection.zones:
            self._change(_DELETE, (entry for entry in self.read(selection.zones) if selection.includes(entry)))

    def read(self, zones: Iterable[int]) -> tuple[Connection, ...]:
        wanted = set(zones)
        if not wanted:
            return ()
        # The program filters by one zone only; for several, reading all once is faster than a process for each.
        one = ["-w", str(min(wanted))] if len(wanted) == 1 else []
        found = parse_connections(self._run(["-L", *one, "-o", "extended"]))
        return tuple(entry for entry in found if entry.zone in wanted)

    def mark(self, connections: Iterable[Connection], mark: int) -> None:
        self._change(_NEW, connections, _attribute(_MARK, struct.pack("!I", mark)))

    def _change(self, command: int, connections: Iterable[Connection], more: bytes = b"") -> None:
        chosen = list(connections)
        if not chosen:
            return
        directory, name = os.path.split(self._namespace)
        try:
            with Namespaces(directory).run(name, _open) as netlink:
                netlink.settimeout(self._timeout)
                for connection in chosen:
                    code = _request(netlink, command, connection, more)
                    if code not in (0, errno.ENOENT):  # ENOENT: it has ended meanwhile
                        raise ConntrackError(f"conntrack: {connection} cannot be changed: {os.strerror(code)}")
        except (OSError, NetlinkError) as error:
            raise ConntrackError(f"conntrack: {error}") from error

    def _run(self, arguments: list[str]) -> str:
        try:
            done = subprocess.run(
                [*self._program, *arguments], capture_output=True, text=True, timeout=self._timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConntrackError(f"conntrack: {error}") from error
        if done.returncode != 0:
            raise ConntrackError(done.stderr.strip() or f"conntrack exited with status {done.returncode}")
        return done.stdout


def _open() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)


def _request(netlink: socket.socket, command: int, connection: Connection, more: bytes) -> int:
    """Send one message and wait for its acknowledgement; the error number, 0 for none."""
    zone = _attribute(_ZONE, struct.pack("!H", connection.zone))
    header = struct.pack("=BBH", _FAMILIES[connection.family], 0, 0)
    body = header + _tuple(connection) + zone + more
    netlink.send(struct.pack("=IHHII", 16 + len(body), command, _REQUEST_ACK, 0, 0) + body)
    code: int = struct.unpack_from("=i", netlink.recv(8192), 16)[0]
    return -code


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def _nested(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | 0x8000, b"".join(attributes))


def _tuple(connection: Connection) -> bytes:
    """The tuple of the first packet, by which the kernel finds the connection."""
    source, destination = _IP_ADDRESSES[connection.family]
    protocol = [_attribute(_PROTO_NUM, struct.pack("B", connection.protocol))]
    if connection.protocol in _ICMP_FIELDS:
        number, kind, code = _ICMP_FIELDS[connection.protocol]
        protocol.append(_attribute(number, struct.pack("!H", connection.source_port)))
        protocol.append(_attribute(kind, struct.pack("B", connection.icmp_type)))
        protocol.append(_attribute(code, struct.pack("B", connection.icmp_code)))
    elif connection.source_port or connection.destination_port:
        protocol.append(_attribute(_SRC_PORT, struct.pack("!H", connection.source_port)))
        protocol.append(_attribute(_DST_PORT, struct.pack("!H", connection.destination_port)))
    addresses = (
        _attribute(source, ip_address(connection.source).packed),
        _attribute(destination, ip_address(connection.destination).packed),
    )
    return _nested(_TUPLE_ORIG, _nested(_TUPLE_IP, *addresses), _nested(_TUPLE_PROTO, *protocol))


def parse_connections(dump: str) -> Iterator[Connection]:
    """The connections of `conntrack -L -o extended`, which prints the first packet's values before the reply's."""
    for line in dump.splitlines():
        words = line.split()
        if len(words) < 5 or words[0] not in ("ipv4", "ipv6"):
            continue
        first: dict[str, str] = {}
        last: dict[str, str] = {}
        for word in words[4:]:
            name, equals, value = word.partition("=")
            if equals:
                first.setdefault(name, value)
                last[name] = value
        yield Connection(
            zone=int(last.get("zone", "0")),
            family=4 if words[0] == "ipv4" else 6,
            protocol=int(words[3]),
            source=str(ip_address(first["src"])),
            destination=str(ip_address(first["dst"])),
            source_port=int(first.get("sport") or first.get("id") or first.get("srckey") or "0", 0),
            destination_port=int(first.get("dport") or first.get("dstkey") or "0", 0),
            icmp_type=int(first.get("type", "-1")),
            icmp_code=int(first.get("code", "-1")),
            mark=int(last.get("mark", "0")),
        )
