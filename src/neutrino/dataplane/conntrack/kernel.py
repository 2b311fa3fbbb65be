"""The kernel's connections, for ports that are filtered on a Linux bridge.

They are read through the `conntrack` program, which prints thousands of them in the time that netlink in Python takes for a
hundred, and changed through netlink, as the program cannot mark the connections of a zone. The library for that is loaded
when there is the first one to change: it is a third of what an agent loads, and many hosts never need it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from socket import AF_INET, AF_INET6
from typing import Any

from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, Connection, ConntrackError, ConntrackFlush
from neutrino.dataplane.conntrack.match import Selection

_WITHOUT_PORTS = (ICMP, ICMPV6)
_GONE = 2  # ENOENT
_FAMILIES = {4: AF_INET, 6: AF_INET6}


class KernelConntrack:
    """Implements `MarkingConntrack`. `namespace` is the path of a network namespace; empty for the one we are in."""

    def __init__(self, namespace: str = "", *, program: Sequence[str] = ("conntrack",), timeout: float = 60) -> None:
        self._namespace = namespace
        self._program = [*(["nsenter", f"--net={namespace}"] if namespace else []), *program]
        self._timeout = timeout

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        selection = Selection(entries)
        if selection.zones:
            chosen = [entry for entry in self.read(selection.zones) if selection.includes(entry)]
            self._change("del", chosen)

    def read(self, zones: Iterable[int]) -> tuple[Connection, ...]:
        wanted = set(zones)
        if not wanted:
            return ()
        one = ["-w", str(min(wanted))] if len(wanted) == 1 else []
        found = parse_connections(self._run(["-L", *one, "-o", "extended"]))
        return tuple(entry for entry in found if entry.zone in wanted)

    def mark(self, connections: Iterable[Connection], mark: int) -> None:
        self._change("set", connections, mark=mark)

    def _change(self, command: str, connections: Iterable[Connection], **values: int) -> None:
        chosen = list(connections)
        if chosen:
            self._change_some(command, chosen, **values)

    def _change_some(self, command: str, connections: Iterable[Connection], **values: int) -> None:
        from pyroute2.netlink.exceptions import NetlinkError

        sockets: dict[int, Any] = {}
        try:
            for connection in connections:
                family = connection.family
                if family not in sockets:
                    sockets[family] = self._open(_FAMILIES[family])
                try:
                    sockets[family].entry(command, zone=connection.zone, tuple_orig=_tuple(connection), **values)
                except NetlinkError as error:
                    if error.code != _GONE:  # it has ended by itself
                        raise ConntrackError(f"conntrack: {command} {connection}: {error}") from error
        except OSError as error:
            raise ConntrackError(f"conntrack: {error}") from error
        finally:
            for opened in sockets.values():
                opened.close()

    def _open(self, family: int) -> Any:
        from pyroute2.netlink.nfnetlink.nfctsocket import NFCTSocket

        where = {"netns": self._namespace} if self._namespace else {}
        return NFCTSocket(nfgen_family=family, **where)

    def _run(self, arguments: list[str]) -> str:
        try:
            done = subprocess.run(
                [*self._program, *arguments], capture_output=True, text=True, timeout=self._timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConntrackError(f"conntrack: {error}") from error
        if done.returncode != 0:
            raise ConntrackError(done.stderr.strip() or f"conntrack ended with {done.returncode}")
        return done.stdout


def _tuple(connection: Connection) -> Any:
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

    values: dict[str, object] = {
        "family": _FAMILIES[connection.family],
        "saddr": connection.source,
        "daddr": connection.destination,
        "proto": connection.protocol,
    }
    if connection.protocol in _WITHOUT_PORTS:
        values |= {"icmp_id": connection.source_port, "icmp_type": connection.icmp_type}
        values |= {"icmp_code": connection.icmp_code}
    elif connection.source_port or connection.destination_port:
        values |= {"sport": connection.source_port, "dport": connection.destination_port}
    return NFCTAttrTuple(**values)


def parse_connections(dump: str) -> Iterator[Connection]:
    """The lines of `conntrack -L -o extended`: the first packet's values stand before those of the answer."""
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
