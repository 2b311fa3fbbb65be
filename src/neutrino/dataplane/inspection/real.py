"""Asks Open vSwitch over its control socket, and the kernel by netlink, nft and conntrack."""

import contextlib
import dataclasses
import errno
import json
import shutil
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from neutrino.dataplane.inspection import api
from neutrino.dataplane.iptables.api import SavedRules
from neutrino.dataplane.iptables.variants import LEGACY, NFT, read_saved
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.openflow.trace import SwitchPort, parse_ports
from neutrino.dataplane.program import ProgramError, run_program
from neutrino.dataplane.protocols import linux
from neutrino.dataplane.protocols.rtnetlink import NetlinkSocket, attribute, ip, number, read_attributes, text
from neutrino.dataplane.protocols.unixctl import ControlError, control_connection
from neutrino.model.objects import Object

_SECONDS: Final = 10.0  # for a command of the switch
_ROUTE = struct.Struct("=BBBBBBBBI")  # family, lengths of destination and source, tos, table, protocol, scope, type
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, device, state, flags, type
_DEVICE = struct.Struct("=BxHiII")
_RTM_GETROUTE, _RTN_LOCAL, _RTN_UNICAST = 26, 2, 1
_RTA_SRC, _RTA_IIF, _RTA_METRICS, _RTA_MARK = 2, 3, 8, 16
_RTA_IP_PROTO, _RTA_SPORT, _RTA_DPORT = 27, 28, 29
_RTAX_MTU = 2
_RTM_F_LOOKUP_TABLE = 0x1000  # answer with the table in which the route was found
_NUD_FAILED, _NUD_INCOMPLETE = 0x20, 0x01
_SPOOFED = (errno.EXDEV, errno.EINVAL)  # rp_filter; a martian source
_REFUSED = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.ENOENT, errno.ESRCH)


@dataclasses.dataclass(frozen=True)
class RealInspection:
    """Implements `Inspection`."""

    run_directory: str = ""  # where ovs-vswitchd has its sockets
    datapath: str = ""  # if the switch has several
    namespaces: Namespaces = dataclasses.field(default_factory=Namespaces)

    # --- Open vSwitch ---

    def ports(self) -> tuple[SwitchPort, ...]:
        return parse_ports(self._call("dpif/show"), self.datapath)

    def trace(self, bridge: str, flow: str) -> str:
        return self._call("ofproto/trace", bridge, flow)

    def trace_from(self, bridge: str, flow: str, table: int) -> str:
        return self._call("ofproto/trace-packet-out", bridge, flow, f"resubmit(,{table})")

    def _call(self, command: str, *arguments: str) -> str:
        try:
            with control_connection(self.run_directory, _SECONDS) as control:
                return control.call(command, *arguments)
        except ControlError as error:
            raise api.InspectionError(str(error)) from error

    # --- the kernel ---

    def route(self, namespace: str, packet: api.Tuple5, device: str, mark: int = 0) -> api.Route:
        source, destination = packet.source, packet.destination
        family, bits, flags = (socket.AF_INET, 32, _RTM_F_LOOKUP_TABLE)
        if ":" in destination:
            family, bits, flags = socket.AF_INET6, 128, 0  # answers with the table anyway, and refuses the flag
        with self._netlink(namespace) as netlink:
            incoming = number(_RTA_IIF, _index(netlink, device)) if device else b""
            head = _ROUTE.pack(family, bits, bits if source else 0, 0, 0, 0, 0, 0, flags)
            body = ip(linux.RTA_DST, destination) + ip(_RTA_SRC, source) + incoming
            body += number(_RTA_MARK, mark) if mark else b""
            body += _ports(packet)
            try:
                found = netlink.get(_RTM_GETROUTE, head + body)
            except OSError as error:
                if error.errno in _SPOOFED and device and family == socket.AF_INET:  # IPv6 has no such filter
                    return api.Route(refused=str(error.strerror), spoofed=True)
                if error.errno in _REFUSED:
                    return api.Route(refused=str(error.strerror))
                raise
            kind = _ROUTE.unpack_from(found)[7]
            attributes = read_attributes(found, _ROUTE.size)
            if kind not in (_RTN_LOCAL, _RTN_UNICAST):
                return api.Route(refused=f"route of type {kind}")
            return api.Route(
                device=_name(netlink, attributes.number(linux.RTA_OIF)),
                via=attributes.ip(linux.RTA_GATEWAY),
                local=kind == _RTN_LOCAL,
                mtu=attributes.nested(_RTA_METRICS).number(_RTAX_MTU),
                table=attributes.number(linux.RTA_TABLE),
            )

    def neighbours(self, namespace: str, device: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        with self._netlink(namespace) as netlink:
            index = _index(netlink, device)
            for family in (socket.AF_INET, socket.AF_INET6):
                for entry in netlink.list(linux.RTM_GETNEIGH, _NEIGHBOUR.pack(family, 0, 0, 0, 0)):
                    _, at, state, _, _ = _NEIGHBOUR.unpack_from(entry)
                    if at == index:
                        attributes = read_attributes(entry, _NEIGHBOUR.size)
                        failed = state & (_NUD_FAILED | _NUD_INCOMPLETE)
                        found[attributes.ip(linux.NDA_DST)] = "" if failed else attributes.mac(linux.NDA_LLADDR)
        return found

    def ruleset(self, namespace: str) -> api.Ruleset:
        if shutil.which("nft") is None:  # a host without the L3 role does not need it, and has no rules then
            return ()
        output = self._run(namespace, ["nft", "-j", "-n", "list", "ruleset"])
        try:
            found: list[Object] = json.loads(output)["nftables"]
        except (ValueError, KeyError) as error:
            raise api.InspectionError(f"{namespace}: nft printed no list of rules: {error}") from error
        return found

    def iptables(self, namespace: str, family: int) -> tuple[SavedRules, ...]:
        try:
            found = [read_saved(self.namespaces, namespace, family, variant) for variant in (LEGACY, NFT)]
        except (ProgramError, NetlinkError) as error:
            raise api.InspectionError(f"{namespace or 'host'}: {error}") from error
        return tuple(each for each in found if each is not None)

    def connections(self, namespace: str, packet: api.Tuple5) -> tuple[api.TrackedConnection, ...]:
        if shutil.which("conntrack") is None:
            return ()
        family = ["-f", "ipv6" if ":" in packet.source else "ipv4"]
        same, other = ["-s", packet.source, "-d", packet.destination], ["-r", packet.source, "-q", packet.destination]
        found: list[api.TrackedConnection] = []
        for selection in (same, other):
            output = self._run(namespace, ["conntrack", "-L", *family, *selection, "-o", "extended"])
            found += parse_connections(output)
        return tuple(each for each in found if packet in (each.original, each.reply))

    def _run(self, namespace: str, command: list[str]) -> str:
        try:
            return self.namespaces.run(namespace, lambda: run_program(command))
        except (ProgramError, NetlinkError) as error:
            raise api.InspectionError(f"{namespace or 'host'}: {error}") from error

    @contextlib.contextmanager
    def _netlink(self, namespace: str) -> Iterator[NetlinkSocket]:
        try:
            opened = self.namespaces.run(namespace, NetlinkSocket)
            with contextlib.closing(opened) as netlink:
                yield netlink
        except (OSError, NetlinkError) as error:
            raise api.InspectionError(f"{namespace or 'host'}: {error}") from error


def _ports(packet: api.Tuple5) -> bytes:
    """The ports, by which the kernel chooses of several next hops; it takes those of TCP and UDP alone."""
    if packet.protocol not in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        return b""
    ports = ((_RTA_SPORT, packet.source_port), (_RTA_DPORT, packet.destination_port))
    protocol = attribute(_RTA_IP_PROTO, struct.pack("=B", packet.protocol))
    return protocol + b"".join(attribute(type_, struct.pack("!H", value)) for type_, value in ports if value)


def _index(netlink: NetlinkSocket, device: str) -> int:
    body = _DEVICE.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + text(linux.IFLA_IFNAME, device)
    index: int = _DEVICE.unpack_from(netlink.get(linux.RTM_GETLINK, body))[2]
    return index


def _name(netlink: NetlinkSocket, index: int) -> str:
    if not index:
        return ""
    found = netlink.get(linux.RTM_GETLINK, _DEVICE.pack(socket.AF_UNSPEC, 0, index, 0, 0))
    return read_attributes(found, _DEVICE.size, until=linux.IFLA_IFNAME).text(linux.IFLA_IFNAME)


def parse_connections(dump: str) -> Iterator[api.TrackedConnection]:
    """The connections of `conntrack -L -o extended`, with the tuples of both directions."""
    for line in dump.splitlines():
        words = line.split()
        if len(words) < 5 or words[0] not in ("ipv4", "ipv6"):
            continue
        protocol, ways = int(words[3]), [dict[str, str](), dict[str, str]()]
        others: dict[str, str] = {}
        for key, _, value in (word.partition("=") for word in words[4:] if "=" in word):
            if key in ("src", "dst", "sport", "dport"):
                ways[1 if key in ways[0] else 0][key] = value
            else:
                others[key] = value
        if all({"src", "dst"} <= way.keys() for way in ways):
            original, reply = (
                api.Tuple5(protocol, way["src"], way["dst"], int(way.get("sport", 0)), int(way.get("dport", 0)))
                for way in ways
            )
            yield api.TrackedConnection(original, reply, int(others.get("mark", 0)), int(others.get("zone", 0)))
