"""The two ends of a trace, from the request: which port or external network sends, which address is the destination.

A member's sender is a port of its own project; with `source: external`, the receiver is. An object of another project is
answered as one that does not exist.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Values
from neutrino.model.state import FixedIp
from neutrino.model.trace import Packet
from neutrino.server import errors
from neutrino.server.api.resources.common import protocol_number
from neutrino.server.api.resources.trace import EXTERNAL
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.readers.rows import decode_fixed_ips
from neutrino.server.trace.path import OUTSIDE_MAC, UNKNOWN_MAC, Origin
from neutrino.server.trace.routing import PublicAddress, Routing
from neutrino.server.trace.snapshot import Seeds
from neutrino.server.trace.steps.filters import ICMP, ICMPV6, WITH_PORTS
from neutrino.server.trace.steps.walk import contains

_SOURCE_PORT: Final = 40000  # of a connection, if none is given
_SIZE: Final = 84  # of a ping
_OUTSIDE: Final = {4: "198.51.100.1", 6: "2001:db8:ffff::1"}  # a machine outside: addresses for documentation


@dataclass(frozen=True, slots=True)
class _Port:
    id: str
    project_id: str
    network_id: str
    mac_address: str
    fixed_ips: tuple[FixedIp, ...]


@dataclass(frozen=True, slots=True)
class Endpoints:
    origin: Origin
    packet: Packet
    seeds: Seeds
    project_id: str  # whose trace it is: of the sender, or from outside of the receiver


def resolve(connection: Connection, context: Context, values: Values, routing: Routing) -> Endpoints:
    _check(values)
    receiver = _port(connection, context, values["destination_port_id"]) if values["destination_port_id"] else None
    if values["source"] == EXTERNAL:
        return _from_outside(connection, context, values, receiver, routing)
    sender = _sender(connection, context, values, routing)
    version = _version(values, sender, receiver)
    on_link = frozenset(fixed.subnet_id for fixed in sender.fixed_ips)
    destination = values["destination_address"] or _address(receiver, version, "destination_port_id", on_link)
    near = _subnets_with(connection, sender, destination)
    source = values["source_address"] or _address(sender, version, "source_port_id", near)
    packet = _packet(values, version, source, destination, values["source_mac"] or sender.mac_address)
    ids = frozenset(p.id for p in (sender, receiver) if p is not None)
    seeds = Seeds(port_ids=ids, addresses=frozenset({source, destination}))
    towards = receiver.id if receiver is not None else ""
    return Endpoints(Origin(port_id=sender.id, towards=towards), packet, seeds, sender.project_id)


def _invalid(name: str, reason: str) -> errors.HTTPBadRequest:
    return errors.HTTPBadRequest(f"Invalid input for {name}: {reason}.")


# --- checks of the request --------------------------------------------------------------------------------------------


def _check(values: Values) -> None:
    if values["source"] == EXTERNAL and values["source_port_id"]:
        raise _invalid("source", "give either source or source_port_id, not both")
    if values["source"] is None and not (values["source_port_id"] or values["source_address"]):
        raise errors.HTTPBadRequest("One of source_port_id, source_address and source is required.")
    if bool(values["destination_port_id"]) == bool(values["destination_address"]):
        raise errors.HTTPBadRequest("One of destination_port_id and destination_address is required, and not both.")
    number = protocol_number(values["protocol"])
    for name in ("source_port", "destination_port"):
        if values[name] is not None and number not in WITH_PORTS:
            raise _invalid(name, f"protocol {values['protocol']} has no ports, only tcp, udp and sctp have")
    if number in WITH_PORTS and values["destination_port"] is None:
        raise _invalid("destination_port", f"protocol {values['protocol']} needs one")
    for name in ("icmp_type", "icmp_code"):
        if values[name] is not None and number not in (ICMP, ICMPV6):
            raise _invalid(name, f"protocol {values['protocol']} is not ICMP")
    for name in ("source_address", "destination_address"):
        if values[name] is not None:
            one = ip_address(values[name])
            if one.is_multicast or one.is_unspecified or one.is_loopback or str(one) == "255.255.255.255":
                raise _invalid(name, f"'{one}' is not a unicast address")
    versions = {ip_address(values[n]).version for n in ("source_address", "destination_address") if values[n]}
    versions |= {values["ip_version"]} if values["ip_version"] else set()
    if number == ICMPV6:
        versions.add(6)
    if len(versions) > 1:
        raise errors.HTTPBadRequest("ip_version, protocol and the addresses are of different IP versions.")


def _version(values: Values, *known: _Port | None) -> int:
    for name in ("destination_address", "source_address"):
        if values[name]:
            return ip_address(values[name]).version
    if values["ip_version"]:
        return int(values["ip_version"])
    if protocol_number(values["protocol"]) == ICMPV6:
        return 6
    ends = [{ip_address(f.ip_address).version for f in port.fixed_ips} for port in known if port is not None]
    return 4 if all(4 in versions for versions in ends) or not all(6 in versions for versions in ends) else 6


def _packet(values: Values, version: int, source: str, destination: str, mac: str) -> Packet:
    number = protocol_number(values["protocol"])
    number = ICMPV6 if version == 6 and number == ICMP else number
    is_icmp = number in (ICMP, ICMPV6)
    echo = 128 if number == ICMPV6 else 8
    kind = echo if values["icmp_type"] is None else values["icmp_type"]
    has_ports = number in WITH_PORTS
    return Packet(
        eth_src=mac,
        eth_dst=UNKNOWN_MAC,
        source=source,
        destination=destination,
        protocol=number,
        source_port=(values["source_port"] or _SOURCE_PORT) if has_ports else 0,
        destination_port=kind if is_icmp else (values["destination_port"] or 0),
        icmp_code=values["icmp_code"] or 0,
        size=values["packet_size"] or _SIZE,
    )


# --- ports ------------------------------------------------------------------------------------------------------------

_PORTS = sa.select(t.ports.c.id, t.ports.c.project_id, t.ports.c.network_id, t.ports.c.mac_address, t.ports.c.fixed_ips)


def _port(connection: Connection, context: Context, key: str) -> _Port:
    """A port that the caller sees: of its project, or on a network of its project."""
    statement = _PORTS.where(t.ports.c.id == key)
    if not context.is_admin:
        own_network = t.ports.c.network_id.in_(
            sa.select(t.networks.c.id).where(t.networks.c.project_id == context.project_id)
        )
        statement = statement.where(sa.or_(t.ports.c.project_id == context.project_id, own_network))
    row = connection.execute(statement).first() if context.is_admin or context.project_id else None
    if row is None:
        raise errors.PortNotFound(id=key)
    return _decoded(row)


def _decoded(row: NamedRow) -> _Port:
    return _Port(row.id, row.project_id, row.network_id, row.mac_address, decode_fixed_ips(row.fixed_ips))


def _sender(connection: Connection, context: Context, values: Values, routing: Routing) -> _Port:
    if values["source_port_id"]:
        port = _port(connection, context, values["source_port_id"])
        if not context.is_admin and port.project_id != context.project_id:
            raise errors.PortNotFound(id=port.id)
        return port
    found = _with_address(connection, context, values["source_address"])
    if not found and (port_id := _behind_floating_ip(connection, context, values["source_address"], routing)):
        text = f"it is a floating IP, which instances do not send from: give source_port_id {port_id}, its port"
        raise _invalid("source_address", text)
    return _only(found, "source_address", "source_port_id")


def _behind_floating_ip(connection: Connection, context: Context, address: str, routing: Routing) -> str:
    """The port behind a floating IP that the caller sees."""
    several = routing.floating_ips(connection, addresses=[address]).values()
    own = (fip for fip in several if context.is_admin or fip.project_id == (context.project_id or "-"))
    return next((fip.port_id for fip in own if fip.port_id), "")


def _with_address(connection: Connection, context: Context, address: str) -> list[_Port]:
    statement = (
        _PORTS.join(t.ip_allocations, t.ip_allocations.c.port_id == t.ports.c.id)
        .where(t.ip_allocations.c.ip_address == address)
        .order_by(t.ports.c.id)
    )
    if not context.is_admin:
        if not context.project_id:
            return []
        statement = statement.where(t.ports.c.project_id == context.project_id)
    return [_decoded(row) for row in connection.execute(statement.limit(20))]


def _only(found: list[_Port], name: str, instead: str) -> _Port:
    if not found:
        raise _invalid(name, "no port has this address")
    if len({port.id for port in found}) > 1:
        several = ", ".join(f"{port.id} on network {port.network_id}" for port in found[:5])
        raise _invalid(name, f"several ports have this address ({several}): give {instead}")
    return found[0]


def _address(port: _Port | None, version: int, name: str, preferred: frozenset[str] = frozenset()) -> str:
    """The address of a port that is used, on a preferred subnet if it has one there."""
    assert port is not None
    own = [f for f in port.fixed_ips if ip_address(f.ip_address).version == version]
    if not own:
        raise _invalid(name, f"port {port.id} has no IPv{version} address")
    return min(own, key=lambda f: f.subnet_id not in preferred).ip_address


def _subnets_with(connection: Connection, port: _Port, address: str) -> frozenset[str]:
    """The subnets of a port that an address is on."""
    ids = {f.subnet_id for f in port.fixed_ips}
    if len(ids) < 2:  # no choice: no query
        return frozenset(ids)
    rows = connection.execute(sa.select(t.subnets.c.id, t.subnets.c.cidr).where(t.subnets.c.id.in_(sorted(ids))))
    return frozenset(row.id for row in rows if contains(row.cidr, address))


# --- from outside -----------------------------------------------------------------------------------------------------


def _from_outside(
    connection: Connection, context: Context, values: Values, receiver: _Port | None, routing: Routing
) -> Endpoints:
    if values["source_mac"]:
        raise _invalid("source_mac", "it cannot be given with source external")
    if receiver is not None and not context.is_admin and receiver.project_id != context.project_id:
        raise errors.PortNotFound(id=receiver.id)
    version = _version(values, receiver)
    port = values["destination_port"]
    if receiver is not None:
        destination, network, port = _public(connection, values, receiver, version, routing)
        project = receiver.project_id
    else:
        destination = values["destination_address"]
        network, project, receiver = _external_network(connection, context, destination, routing)
    source = values["source_address"] or _gateway(connection, network, version)
    packet = _packet({**values, "destination_port": port}, version, source, destination, OUTSIDE_MAC)
    seeds = Seeds(
        port_ids=frozenset({receiver.id} if receiver is not None else ()),
        network_ids=frozenset({network} if network else ()),
        addresses=frozenset({source, destination}),
    )
    towards = receiver.id if receiver is not None else ""
    return Endpoints(Origin(network_id=network, towards=towards), packet, seeds, project)


def _public(connection: Connection, values: Values, receiver: _Port, version: int, routing: Routing) -> PublicAddress:
    """By what the outside reaches a port."""
    port = values["destination_port"]
    if version == 4:
        floating_ips = routing.floating_ips(connection, port_ids=[receiver.id])
        if floating_ips:
            first = floating_ips[min(floating_ips)]
            return PublicAddress(first.floating_ip_address, first.floating_network_id, port)
        protocol = protocol_number(values["protocol"])
        forwarded = routing.forwarded(connection, receiver.id, protocol, port) if port is not None else None
        if forwarded is not None:
            return forwarded
    address = _address(receiver, version, "destination_port_id")
    return PublicAddress(address, _network_outside(connection, receiver, routing), port)


def _network_outside(connection: Connection, port: _Port, routing: Routing) -> str:
    """The network at whose outside a packet to a fixed address enters; empty: none.

    The port's own if that is external; the external network of a router on its subnets; or its own if that is a physical
    network, on which there may be other machines.
    """
    own = connection.execute(sa.select(t.networks.c.external).where(t.networks.c.id == port.network_id)).scalar()
    if own:
        return port.network_id
    physical = sa.select(t.network_segments.c.network_id).where(
        t.network_segments.c.network_id == port.network_id, t.network_segments.c.physical_network.is_not(None)
    )
    outside = routing.network_outside(connection, {fixed.subnet_id for fixed in port.fixed_ips})
    return outside or connection.execute(physical).scalar() or ""


def _external_network(
    connection: Connection, context: Context, address: str, routing: Routing
) -> tuple[str, str, _Port | None]:
    """The external network by which an address is reached, whose address it is, and the port that has it."""
    floating_ips = [
        fip
        for fip in routing.floating_ips(connection, addresses=[address]).values()
        if context.is_admin or fip.project_id == (context.project_id or "-")
    ]
    if len(floating_ips) > 1:
        raise _invalid("destination_address", "floating IPs of several networks have it: give destination_port_id")
    if floating_ips:
        return floating_ips[0].floating_network_id, floating_ips[0].project_id, None
    found = _with_address(connection, context, address)
    if found:
        port = _only(found, "destination_address", "destination_port_id")
        return _network_outside(connection, port, routing), port.project_id, port
    if context.is_admin:
        subnets = (
            sa.select(t.subnets.c.network_id, t.subnets.c.cidr)
            .join(t.networks, t.networks.c.id == t.subnets.c.network_id)
            .where(t.networks.c.external.is_(True))
        )
        networks = {row.network_id for row in connection.execute(subnets) if contains(row.cidr, address)}
        if len(networks) > 1:
            raise _invalid("destination_address", "it is on subnets of several external networks")
        if networks:
            return networks.pop(), "", None
    raise _invalid("destination_address", "no floating IP or port has this address")


def _gateway(connection: Connection, network_id: str, version: int) -> str:
    """A sender outside: the gateway of the external network, or an address for documentation."""
    statement = sa.select(t.subnets.c.gateway_ip).where(
        t.subnets.c.network_id == network_id, t.subnets.c.ip_version == version, t.subnets.c.gateway_ip.is_not(None)
    )
    return connection.execute(statement.order_by(t.subnets.c.created_at, t.subnets.c.id)).scalar() or _OUTSIDE[version]
