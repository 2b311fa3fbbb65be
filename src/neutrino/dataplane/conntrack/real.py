"""The switch's connection tracker, over its control socket.

The switch takes no prefixes, and for a partial tuple it searches all its connections with each command. So the
connections of a zone are read once, those to flush are selected here, and each is flushed by its exact tuple.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator

from neutrino.dataplane.conntrack import api
from neutrino.dataplane.protocols.unixctl import ControlConnection, ControlError, control_connection

_NUMBERS = {"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "dccp": 33, "icmpv6": 58, "sctp": 132, "udplite": 136}
_PORTS = (api.TCP, api.UDP, api.SCTP)
_LINE = re.compile(r"^(?P<protocol>\w+),orig=\((?P<orig>[^)]*)\),reply=\([^)]*\)(?P<rest>.*)$")
_GONE = "No such file or directory"  # the connection has ended meanwhile
_CONTROL_SECONDS = 30.0  # for all commands of a flush, of which there may be thousands


@dataclasses.dataclass(frozen=True)
class OvsConntrack:
    """Implements `Conntrack`."""

    run_directory: str = ""  # where ovs-vswitchd has its sockets
    datapath: str = ""  # if it has several

    def flush(self, entries: Iterable[api.ConntrackFlush]) -> None:
        selection = api.Selection(entries)
        if not selection.zones:
            return
        try:
            with control_connection(self.run_directory, _CONTROL_SECONDS) as control:
                datapath = self._named_datapath(control)
                for zone in selection.zones:
                    dump = control.call("dpctl/dump-conntrack", *datapath, f"zone={zone}")
                    for connection in parse_connections(dump):
                        if selection.includes(connection):
                            _flush(control, datapath, connection)
        except ControlError as error:
            raise api.ConntrackError(str(error)) from error

    def _named_datapath(self, control: ControlConnection) -> tuple[str, ...]:
        """The argument that names the datapath. Open vSwitch 3.1 takes none in a flush, so a single one is not named."""
        known = control.call("dpctl/dump-dps").split()
        if len(known) <= 1:
            return ()
        if self.datapath not in known:
            wanted = f"none of them is {self.datapath}" if self.datapath else "the configuration does not name one"
            raise api.ConntrackError(f"the switch has several datapaths, {', '.join(known)}: {wanted}")
        return (self.datapath,)


def _flush(control: ControlConnection, datapath: tuple[str, ...], connection: api.Connection) -> None:
    if connection.protocol == api.ICMPV6:
        # ovs-vswitchd aborts on the tuple of an ICMPv6 connection of the userspace datapath. Such a connection is an echo:
        # each reply follows a request, and every request needs a rule.
        return
    try:
        control.call("dpctl/flush-conntrack", *datapath, f"zone={connection.zone}", render_tuple(connection))
    except ControlError as error:
        if _GONE not in str(error):
            raise


def parse_connections(dump: str) -> Iterator[api.Connection]:
    """The connections in the output of `dpctl/dump-conntrack`."""
    for line in dump.splitlines():
        found = _LINE.match(line.strip())
        if found is None:
            continue
        name = found["protocol"]
        protocol = _NUMBERS.get(name) or (int(name) if name.isdigit() else -1)
        first = dict(part.partition("=")[::2] for part in found["orig"].split(","))
        rest = dict(part.partition("=")[::2] for part in found["rest"].split(","))
        yield api.parse_connection(first, protocol, rest.get("zone", "0"), rest.get("mark", "0"))


def render_tuple(connection: api.Connection) -> str:
    prefix = "ct_nw" if connection.family == 4 else "ct_ipv6"
    parts = [
        f"{prefix}_src={connection.source}",
        f"{prefix}_dst={connection.destination}",
        f"ct_nw_proto={connection.protocol}",
    ]
    if connection.protocol in _PORTS:
        parts += [f"ct_tp_src={connection.source_port}", f"ct_tp_dst={connection.destination_port}"]
    elif connection.protocol == api.ICMP:
        parts += [f"icmp_id={connection.source_port}", f"icmp_type={connection.icmp_type}"]
        parts.append(f"icmp_code={connection.icmp_code}")
    return ",".join(parts)
