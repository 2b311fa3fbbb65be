"""Local IPs in a trace: the switch of the sender's host leads an address to the associated port of that host.

    from a port or router   before its firewall: the destination becomes the associated port's address, or with
                            `passthrough` its MAC alone
    a reply to it           after its firewall: the source becomes the local IP again

The associated port itself, and hosts without one, reach the true owner of the address. If that is the port which only
reserves the address, nobody gets the packet. IPv6 is not translated.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.local_ip.feed import IN_EFFECT
from neutrino.features.local_ip.tables import associations, local_ips
from neutrino.model.trace import Cause
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import build, read_ids, read_rows
from neutrino.server.trace.feature_part import Reached, TracePart
from neutrino.server.trace.steps.walk import Subject, Walk, of_port, same
from neutrino.server.trace.values import TracedPort, Translation

TRANSLATE = "translate"
_PART = "local-ip"  # of a translation: no router's


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """An association of a local IP with a port."""

    id: str  # of the local IP
    name: str = ""
    project_id: str = ""
    local_ip_address: str
    ip_mode: str = TRANSLATE
    port_id: str
    fixed_ip: str


@dataclass(frozen=True)
class TracedLocalIps(TracePart):
    associations: tuple[Association, ...] = ()  # that the packet may be for
    reserved: Mapping[str, Subject] = field(default_factory=dict)  # the port of a local IP's address → the local IP

    @property
    def port_ids(self) -> Collection[str]:
        return [association.port_id for association in self.associations]

    def sent_by_port(self, walk: Walk, port: TracedPort) -> None:
        self._lead(walk, port.port.network_id, port.id)

    def sent_by_router(self, walk: Walk, network_id: str) -> None:
        self._lead(walk, network_id)

    def reaches_port(self, walk: Walk, port: TracedPort) -> None:
        subject = self.reserved.get(port.id)
        if subject is not None and not port.bound:
            why = "of the sender is associated with it: nobody there answers for its address"
            text = f"No port on host {walk.host} {why}." if walk.host else f"No port on the host {why}."
            public = f"No port on the host {why}."
            walk.drops("local-ip", subject, Cause.NO_LOCAL_IP, f"{subject.title}: {text}", f"{subject.title}: {public}")

    def received_by_router(self, walk: Walk, network_id: str) -> None:
        _translate_back(walk, network_id)

    def received_by_port(self, walk: Walk, port: TracedPort) -> None:
        _translate_back(walk, port.port.network_id)

    def _lead(self, walk: Walk, network_id: str, sender_id: str = "") -> None:
        """Lead a packet that a port or router of this host sends on a network to the associated port, if there is one.

        The association that counts on the packet's host is that of the first port by id.
        """
        if walk.version == 6 or not walk.host:
            return
        for association in sorted(self.associations, key=lambda one: one.port_id):
            port = walk.snapshot.ports.get(association.port_id)
            if port is None or (port.port.host, port.port.network_id) != (walk.host, network_id):
                continue
            is_up = port.port.admin_state_up and (port.status == "ACTIVE" or port.blocks == {"DHCP"})
            if is_up and same(association.local_ip_address, walk.packet.destination):
                if port.id != sender_id:
                    _lead(walk, association, port)
                return


def read_part(connection: Connection, reached: Reached) -> TracedLocalIps:
    """Read the associations of the addresses on hosts that may send the packet: a local IP may have many."""
    local = sa.select(local_ips.c.id).where(local_ips.c.network_id.in_(sorted(reached.networks)))
    ids = read_ids(connection, local, local_ips.c.local_ip_address, sorted(reached.addresses))
    if not ids:
        return TracedLocalIps()
    named = sa.select(local_ips.c.id, local_ips.c.name, local_ips.c.project_id, local_ips.c.local_port_id)
    reserved = {
        row.local_port_id: Subject("local_ip", row.id, row.name, row.project_id, "local IP")
        for row in read_rows(connection, named, local_ips.c.id, sorted(ids))
    }
    statement = (
        sa.select(
            *(local_ips.c.id, local_ips.c.name, local_ips.c.project_id),
            *(local_ips.c.local_ip_address, local_ips.c.ip_mode),
            associations.c.fixed_ip,
            associations.c.fixed_port_id.label("port_id"),
        )
        .join(associations, associations.c.local_ip_id == local_ips.c.id)
        .join(t.ports, t.ports.c.id == associations.c.fixed_port_id)
        .where(local_ips.c.id.in_(sorted(ids)), *IN_EFFECT)
    )
    rows = read_rows(connection, statement, t.ports.c.host, sorted(reached.hosts() - {""}))
    return TracedLocalIps(tuple(build(Association, row) for row in rows), reserved)


def _lead(walk: Walk, association: Association, port: TracedPort) -> None:
    """Lead the packet to the associated port."""
    subject = Subject("local_ip", association.id, association.name, association.project_id, "local IP")
    walk.led_to, before = port.id, walk.packet
    if association.ip_mode != TRANSLATE:
        text = f"{subject.title}: on this host, {association.local_ip_address} leads to {of_port(port)}."
        public = f"{subject.title}: {association.local_ip_address} leads to an associated port."
        return walk.changes("local-ip", subject, text, public, hides=True, eth_dst=port.port.mac_address)
    text = f"{subject.title}: on this host, {association.local_ip_address} → {association.fixed_ip} of {of_port(port)}."
    fields = {"destination": association.fixed_ip, "eth_dst": port.port.mac_address}
    public = f"{subject.title}: {association.local_ip_address} → {association.fixed_ip} of an associated port."
    walk.changes("local-ip", subject, text, public, hides=True, **fields)
    walk.translations.append(
        Translation(
            router_id=port.port.network_id,
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


def _translate_back(walk: Walk, network_id: str) -> None:
    """Translate the source of a reply back, where it reaches who had sent to the local IP."""
    for done in walk.before.translations if walk.packet.reply else ():
        is_ours = (done.router_id, done.part) == (network_id, _PART)
        if is_ours and same(done.after.destination, walk.packet.source):
            subject = Subject(done.resource_type, done.resource_id, done.resource_name, done.project_id, "local IP")
            text = f"A reply: source {walk.packet.source} is translated back to {done.before.destination}."
            return walk.changes("local-ip", subject, text, hides=True, source=done.before.destination)
    return None
