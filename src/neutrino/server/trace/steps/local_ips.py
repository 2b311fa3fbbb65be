"""Local IPs: the switch of the sender's host leads an address to the associated port of that host. Pure.

    from a port or router   before its firewall: the destination becomes the associated port's address, or with
                            `passthrough` its MAC alone
    a reply to it           after its firewall: the source becomes the local IP again

The associated port itself, and hosts without one, reach the true owner of the address. IPv6 is not translated.
"""

from neutrino.server.trace.steps.walk import Subject, Walk, of_port, same
from neutrino.server.trace.values import TracedLocalIp, TracedPort, Translation

TRANSLATE = "translate"
_PART = "local-ip"  # of a translation: no router's


def to_associated(walk: Walk, network_id: str, sender_id: str = "") -> None:
    """Lead a packet that a port or router of this host sends on a network to the associated port, if there is one."""
    found = _associated(walk, network_id)
    if found is None or found[1].id == sender_id:
        return
    association, port = found
    subject = Subject("local_ip", association.id, association.name, association.project_id)
    walk.led_to, before = port.id, walk.packet
    if association.ip_mode != TRANSLATE:
        text = f"{subject.title}: on this host, {association.local_ip_address} leads to {of_port(port)}."
        public = f"{subject.title}: {association.local_ip_address} leads to an associated port."
        return walk.changes("local-ip", subject, text, public, eth_dst=port.port.mac_address)
    text = f"{subject.title}: on this host, {association.local_ip_address} → {association.fixed_ip} of {of_port(port)}."
    fields = {"destination": association.fixed_ip, "eth_dst": port.port.mac_address}
    public = f"{subject.title}: {association.local_ip_address} → {association.fixed_ip} of an associated port."
    walk.changes("local-ip", subject, text, public, **fields)
    walk.translations.append(
        Translation(
            router_id=network_id,
            part=_PART,
            kind="dnat",
            before=before,
            after=walk.packet,
            resource_type=subject.type,
            resource_id=subject.id,
            resource_name=subject.name,
            project_id=subject.project_id,
        )
    )
    return None


def back(walk: Walk, network_id: str) -> None:
    """Translate the source of a reply back, where it reaches who had sent to the local IP."""
    for done in walk.before.translations if walk.packet.reply else ():
        is_ours = (done.router_id, done.part) == (network_id, _PART)
        if is_ours and same(done.after.destination, walk.packet.source):
            subject = Subject(done.resource_type, done.resource_id, done.resource_name, done.project_id)
            text = f"A reply: source {walk.packet.source} is translated back to {done.before.destination}."
            return walk.changes("local-ip", subject, text, source=done.before.destination)
    return None


def _associated(walk: Walk, network_id: str) -> tuple[TracedLocalIp, TracedPort] | None:
    """The association that counts on the packet's host: that of the first port by id."""
    if walk.version == 6 or not walk.host:
        return None
    for association in sorted(walk.snapshot.local_ips, key=lambda each: each.port_id):
        port = walk.snapshot.ports.get(association.port_id)
        is_here = port is not None and (port.port.host, port.port.network_id) == (walk.host, network_id)
        is_up = port is not None and port.port.admin_state_up and (port.status == "ACTIVE" or port.blocks == {"DHCP"})
        if port is not None and is_here and is_up and same(association.local_ip_address, walk.packet.destination):
            return association, port
    return None
