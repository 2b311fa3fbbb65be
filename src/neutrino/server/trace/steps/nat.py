"""Address translation in a part of a router: floating IPs, port forwardings, SNAT, and the way back. Pure.

    before routing   DNAT of a packet to a port forwarding or a floating IP; a reply to a translated source gets it back
    after routing    SNAT to the floating IP of the source, or to the router's address; a reply from a translated
                     destination gets its address back

A packet that is translated and leaves by an internal interface again (hairpin) gets another source, so that its reply comes
back through the router. IPv6 is never translated.
"""

from typing import Any

import msgspec

from neutrino.model.objects import Object
from neutrino.model.routing import FloatingIp, PortForwarding, RouterInterface
from neutrino.model.trace import Cause, Packet
from neutrino.server.api.resources.common import PROTOCOLS
from neutrino.server.trace.feature_part import Translator
from neutrino.server.trace.steps.filters import EGRESS, INGRESS, WITH_PORTS
from neutrino.server.trace.steps.parts import Part
from neutrino.server.trace.steps.walk import Subject, Walk, of_router, same
from neutrino.server.trace.values import Translation


def scope(interface: RouterInterface | None, version: int) -> str | None:
    """The address scope of an interface's network; None: none."""
    addresses = interface.addresses if interface is not None else ()
    return next((address.address_scope_id for address in addresses if address.version == version), None)


# --- before routing ---------------------------------------------------------------------------------------------------


def before_routing(walk: Walk, part: Part, *, from_outside: bool) -> bool:
    """Translate the destination; whether it was."""
    if walk.packet.reply:
        return _source_back(walk, part)
    if walk.version == 6 or (part.local and not from_outside):
        return False
    for forwarding in part.forwardings:
        if is_forwarded(forwarding, walk.packet):
            _forward(walk, part, forwarding)
            return True
    for fip in part.floating_ips:
        if same(fip.floating_ip_address, walk.packet.destination):
            _to_fixed(walk, part, fip)
            return True
    return False


def is_forwarded(forwarding: PortForwarding, packet: Packet) -> bool:
    number = PROTOCOLS.get(forwarding.protocol)
    return (
        same(forwarding.external_ip_address, packet.destination)
        and number == packet.protocol
        and packet.protocol in WITH_PORTS
        and forwarding.external_port_first <= packet.destination_port <= forwarding.external_port_last
    )


def _forward(walk: Walk, part: Part, forwarding: PortForwarding) -> None:
    packet = walk.packet
    offset = packet.destination_port - forwarding.external_port_first
    one = forwarding.internal_port_first == forwarding.internal_port_last
    port = forwarding.internal_port_first + (0 if one else offset)
    known = walk.snapshot.forwardings.get(forwarding.id)
    fip = walk.snapshot.floating_ips.get(known.floating_ip_id) if known is not None else None
    project = fip.project_id if fip is not None else part.router.router.project_id
    subject = Subject("port_forwarding", forwarding.id, "", project)
    text = (
        f"Port forwarding {forwarding.id}: {packet.destination} port {packet.destination_port} → "
        f"{forwarding.internal_ip_address} port {port}."
    )
    _pass_features(walk, part, forwarding, INGRESS)
    _translate(walk, part, "dnat", subject, text, destination=forwarding.internal_ip_address, destination_port=port)


def _to_fixed(walk: Walk, part: Part, fip: FloatingIp) -> None:
    subject = _of_fip(walk, part, fip)
    known = walk.snapshot.floating_ips.get(fip.id)
    if known is not None and known.status != "ACTIVE":
        text = f"Floating IP {fip.floating_ip_address} is {known.status}: host {part.host} has not applied it."
        public = f"Floating IP {fip.floating_ip_address} is {known.status}: its host has not applied it."
        walk.drops("floating-ip", subject, Cause.FLOATING_IP_DOWN, text, public)
    _pass_features(walk, part, fip, INGRESS)
    text = f"Floating IP {fip.floating_ip_address} → {fip.fixed_ip_address}."
    _translate(walk, part, "dnat", subject, text, destination=fip.fixed_ip_address)


def _pass_features(walk: Walk, part: Part, by: Translator, direction: str) -> None:
    for one in walk.snapshot.parts:
        one.translated_by_router(walk, part, by, direction)


def _source_back(walk: Walk, part: Part) -> bool:
    for done in reversed(walk.before.translations):
        if done.kind == "snat" and (done.router_id, done.part) == part.key and _answers(done.after, walk.packet):
            fields: Object = {"destination": done.before.source}
            if walk.packet.protocol in WITH_PORTS:
                fields["destination_port"] = done.before.source_port
            subject = Subject(done.resource_type, done.resource_id, done.resource_name, done.project_id)
            text = f"A reply: {walk.packet.destination} is translated back to {done.before.source}."
            walk.changes("nat", subject, text, **fields)
            return True
    return False


def _answers(sent: Packet, reply: Packet) -> bool:
    return same(sent.source, reply.destination)


# --- after routing ----------------------------------------------------------------------------------------------------


def after_routing(
    walk: Walk,
    part: Part,
    entry: RouterInterface | None,
    leaving: RouterInterface,
    *,
    to_outside: bool,
    translated: bool,
) -> None:
    """Translate the source; `entry` is None for packets from outside, `leaving` the interface to the next network."""
    if walk.packet.reply:
        return _destination_back(walk, part)
    if walk.version == 6 or entry is None or not (to_outside or translated):
        return None
    gateway = leaving if to_outside and leaving in part.gateways else part.outside
    own = sorted(
        (
            fip
            for fip in part.floating_ips
            if same(fip.fixed_ip_address, walk.packet.source) and part.home(fip.network_id) == gateway
        ),
        key=lambda fip: fip.floating_ip_address,
    )
    if own:
        subject = _of_fip(walk, part, own[0])
        _pass_features(walk, part, own[0], EGRESS)
        text = f"Source {walk.packet.source} → floating IP {own[0].floating_ip_address}."
        return _translate(walk, part, "snat", subject, text, source=own[0].floating_ip_address)
    if part.local:
        return None
    subject = of_router(part.router)
    address = snat_address(part, gateway)
    if address is None:
        text = f"{subject.title} does not translate sources (enable_snat is false): {walk.packet.source} stays."
        return walk.informs("snat", subject, text)
    in_scope = scope(entry, 4) is not None and scope(entry, 4) == scope(part.outside, 4) == scope(gateway, 4)
    if to_outside and in_scope:
        text = f"Source {walk.packet.source} stays: its network is in the address scope of the external network."
        return walk.informs("snat", subject, text)
    if gateway == part.outside:
        _pass_features(walk, part, None, EGRESS)
    word = "" if to_outside else " As it goes back inside, the reply has to come back through the router."
    text = f"SNAT by {subject}: source {walk.packet.source} → {address}.{word}"
    return _translate(walk, part, "snat", subject, text, source=address)


def snat_address(part: Part, gateway: RouterInterface | None) -> str | None:
    """The source of what leaves by a gateway; None: it is not translated."""
    addresses = gateway.addresses if gateway is not None and part.router.router.enable_snat else ()
    return next((address.ip_address for address in addresses if address.version == 4), None)


def marked_gateway(walk: Walk, part: Part, entry: RouterInterface | None) -> RouterInterface | None:
    """The gateway by which a packet from inside has to leave, as it has the connection's external address; None: any.

    Of a reply, that which has the address that the first packet was for; of a first packet, that of its floating IP.
    """
    if not part.further or entry is None or walk.version == 6:
        return None
    if walk.packet.reply:
        called = [
            done.before.destination
            for done in walk.before.translations
            if done.kind == "dnat" and (done.router_id, done.part) == part.key
        ]
        return next(
            (gateway for gateway in part.gateways if any(_has(part, gateway, address) for address in called)), None
        )
    homes = [part.home(f.network_id) for f in part.floating_ips if same(f.fixed_ip_address, walk.packet.source)]
    return next((gateway for gateway in part.gateways if gateway in homes), None)


def _has(part: Part, gateway: RouterInterface, address: str) -> bool:
    """Whether packets to an external address come by a gateway."""
    floating = {floating_ip.floating_ip_address: floating_ip.network_id for floating_ip in part.floating_ips}
    floating |= {forwarding.external_ip_address: forwarding.network_id for forwarding in part.forwardings}
    if address in floating:
        return part.home(floating[address]) == gateway
    return any(same(each.ip_address, address) for each in gateway.addresses)


def _destination_back(walk: Walk, part: Part) -> None:
    for done in walk.before.translations:
        is_own = done.kind == "dnat" and (done.router_id, done.part) == part.key
        if is_own and same(done.after.destination, walk.packet.source):
            fields: Object = {"source": done.before.destination}
            if walk.packet.protocol in WITH_PORTS:
                fields["source_port"] = done.before.destination_port
            subject = Subject(done.resource_type, done.resource_id, done.resource_name, done.project_id)
            text = f"A reply: source {walk.packet.source} is translated back to {done.before.destination}."
            return walk.changes("nat", subject, text, **fields)
    return None


# --- both -------------------------------------------------------------------------------------------------------------


def _translate(walk: Walk, part: Part, kind: str, subject: Subject, text: str, **fields: Any) -> None:
    before = walk.packet
    walk.changes("nat" if kind == "dnat" else "snat", subject, text, **fields)
    walk.translations.append(
        Translation(
            router_id=part.router.id,
            part=part.name,
            kind=kind,
            before=before,
            after=walk.packet,
            resource_type=subject.type,
            resource_id=subject.id,
            resource_name=subject.name,
            project_id=subject.project_id,
        )
    )


def _of_fip(walk: Walk, part: Part, fip: FloatingIp) -> Subject:
    known = walk.snapshot.floating_ips.get(fip.id)
    project = known.project_id if known is not None else part.router.router.project_id
    return Subject("floatingip", fip.id, fip.floating_ip_address, project)


def is_translated(walk: Walk, part: Part) -> bool:
    """Whether the connection of a reply was translated in this part."""
    return any((done.router_id, done.part) == part.key for done in walk.before.translations)


def answer_to(packet: Packet) -> Packet:
    """The packet that answers, at the place where the other one arrived."""
    echo = {8: 0, 128: 129}
    swap = packet.protocol in WITH_PORTS
    kind = echo.get(packet.destination_port, packet.destination_port)
    return msgspec.structs.replace(
        packet,
        eth_src=packet.eth_dst,
        eth_dst=packet.eth_src,
        source=packet.destination,
        destination=packet.source,
        source_port=packet.destination_port if swap else packet.source_port,
        destination_port=packet.source_port if swap else kind,
        ttl=64,
        reply=True,
    )
