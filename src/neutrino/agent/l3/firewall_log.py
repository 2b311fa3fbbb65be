"""Logs of firewall groups on router ports: rules that copy packets to netfilter's log of the namespace. Pure.

A packet that a logged port's group drops or accepts is copied, and the copy's prefix names what happened, in which
direction, and the device: `DROP egress qr-…`. The agent reads the copies (`services/firewall_log.py`).

    firewall_log_accepted           after the policies of both ports: a packet that opens a connection
    firewall_log_dropped_egress     before each rule that drops what enters the router by a port
    firewall_log_dropped_ingress    before each rule that drops what would leave the router by a port

All copies of a namespace pass one limit: what exceeds it is not copied, and the packet itself goes on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from neutrino.agent.l3.extension_api import RouterNamespace
from neutrino.agent.packet_lines import COPIED_BYTES, decode, lines
from neutrino.dataplane.nft.api import Chain
from neutrino.model.firewall import FirewallGroup, FirewallLog
from neutrino.model.packet_log import ACCEPT, DROP

GROUP: Final = "firewall_group"  # the feed's kind
NFLOG_GROUP: Final = 0x6E6D
LIMIT: Final = "firewall_log"
ACCEPTED: Final = "firewall_log_accepted"
DROPPED: Final = {"egress": "firewall_log_dropped_egress", "ingress": "firewall_log_dropped_ingress"}
_DEVICE: Final = {"egress": "iifname", "ingress": "oifname"}  # by which a packet has to do with a port


@dataclass(frozen=True)
class LoggedPort:
    id: str  # of the router's interface
    group_id: str
    logs: tuple[FirewallLog, ...]

    def covers(self, event: str) -> bool:
        return any(log.covers(event) for log in self.logs)


LoggedPorts = Mapping[str, LoggedPort]
"""The ports with logs, by device."""


def logged_ports(namespace: RouterNamespace) -> LoggedPorts:
    """The SNAT port of a distributed router has the logs of the router's interface on its subnet, as it has its group."""
    known = namespace.objects.get(GROUP, {})
    interfaces = {a.subnet_id: port.id for port in namespace.whole.interfaces for a in port.addresses}
    found = {}
    for device, port in sorted(namespace.inside.items()):
        group = known.get(port.firewall_group_id)
        if not isinstance(group, FirewallGroup):
            continue
        ids = (interfaces[a.subnet_id] for a in port.addresses if a.subnet_id in interfaces)
        port_id = port.id if namespace.kind == "router" else next(ids, port.id)
        if logs := tuple(log for log in group.logs if log.target_id in ("", port_id)):
            found[device] = LoggedPort(port_id, group.id, logs)
    return found


@dataclass(frozen=True)
class Logging:
    """What a namespace copies; falsy if nothing."""

    accepted: tuple[str, ...] = ()  # devices
    dropped: tuple[str, ...] = ()
    dropping_groups: frozenset[str] = frozenset()  # groups of the latter
    rate: int = 100  # packets a second
    burst: int = 25

    def __bool__(self) -> bool:
        return bool(self.accepted or self.dropped)

    def declarations(self) -> Iterator[str]:
        if self:
            yield f"limit {LIMIT} {{\nrate {self.rate}/second burst {self.burst} packets\n}}"

    def chains(self) -> Iterator[Chain]:
        if self.accepted:
            # One line for each connection: where conntrack sees one direction alone, later segments are new to it too.
            opening = ("ct state != new return", "tcp flags & (syn | ack) != syn return")
            copies = (copy for way in DROPPED for copy in _copies(ACCEPT, way, self.accepted))
            yield Chain(ACCEPTED, (*opening, *copies))
        for way, chain in DROPPED.items() if self.dropped else ():
            yield Chain(chain, tuple(_copies(DROP, way, self.dropped)))

    def accepting(self) -> Iterator[str]:
        """Rules after which a packet is accepted."""
        if self.accepted:
            yield f"jump {ACCEPTED}"

    def dropping(self, match: str, *ways: str) -> Iterator[str]:
        """Rules before one that drops such packets, of ports in either direction."""
        for way in ways if self.dropped else ():
            yield f"{match} jump {DROPPED[way]}".lstrip()


def logging_of(namespace: RouterNamespace) -> Logging:
    ports, options = logged_ports(namespace), namespace.options
    if not options.can_log:
        return Logging()
    accepted, dropped = (
        tuple(device for device, port in ports.items() if port.covers(event)) for event in (ACCEPT, DROP)
    )
    return Logging(
        accepted, dropped, frozenset(ports[device].group_id for device in dropped), options.log_rate, options.log_burst
    )


def _copies(event: str, way: str, devices: Iterable[str]) -> Iterator[str]:
    for device in devices:
        copy = f'log prefix "{event} {way} {device}" group {NFLOG_GROUP} snaplen {COPIED_BYTES}'
        yield f'{_DEVICE[way]} "{device}" limit name "{LIMIT}" {copy}'


def lines_of(ports: LoggedPorts, prefix: str, data: bytes) -> Iterator[str]:
    """The lines of a copied packet, by the prefix of the rule and the frame; none if its log was deleted meanwhile."""
    event, _, rest = prefix.partition(" ")
    way, _, device = rest.partition(" ")
    port, frame = ports.get(device), decode(data)
    if port is not None and frame is not None and way in DROPPED:
        yield from lines(event, way, "port", port.id, [log for log in port.logs if log.covers(event)], frame)
