"""Firewall groups in a trace: which rule lets a packet pass at a port of an instance, or of a router. Pure once read.

    from a port        before its security groups (egress)
    to a port          after its security groups (ingress)
    through a router   by the interface that it came by (egress), then by the one that it leaves by (ingress)

The rules of a group are in order: the first that matches decides, and what none matches is dropped. Replies pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from neutrino.features.firewall.feed import read_firewall_groups, read_port_groups
from neutrino.features.firewall.tables import firewall_groups
from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.model.routing import RouterInterface
from neutrino.model.trace import Cause, Packet
from neutrino.server.trace.feature_part import Reached, TracePart
from neutrino.server.trace.snapshot import read_names
from neutrino.server.trace.steps.filters import EGRESS, INGRESS, WITH_PORTS, needs_no_rule, words
from neutrino.server.trace.steps.walk import Subject, Walk, contains, of_interface, of_port
from neutrino.server.trace.values import Named, Snapshot, TracedPort

KIND = "firewall-group"  # of steps


@dataclass(frozen=True)
class TracedFirewalls(TracePart):
    groups: Mapping[str, FirewallGroup] = field(default_factory=dict)  # of ports and routers of the trace, by id
    names: Mapping[str, Named] = field(default_factory=dict)  # by the id of the group
    of_ports: Mapping[str, str] = field(default_factory=dict)  # port of an instance → its group

    def with_rules(self, connection: Connection, snapshot: Snapshot) -> "TracedFirewalls":
        fields = read_port_groups(connection, sorted(snapshot.ports))
        of_ports = {port_id: values["firewall_group_id"] for port_id, values in fields.items()}
        routers = [traced.router for traced in snapshot.routers.values()]
        of_routers = {port.firewall_group_id for r in routers for port in (*r.interfaces, *r.snat_interfaces)}
        ids = sorted({*of_ports.values(), *of_routers} - {""})
        names = dict(read_names(connection, firewall_groups, ids))
        return TracedFirewalls(dict(read_firewall_groups(connection, ids)), names, of_ports)

    def filters_sender(self, walk: Walk, port: TracedPort) -> None:
        self._filter(walk, self.of_ports.get(port.id, ""), EGRESS, of_port(port))

    def filters_receiver(self, walk: Walk, port: TracedPort) -> None:
        self._filter(walk, self.of_ports.get(port.id, ""), INGRESS, of_port(port))

    def filters_routed(self, walk: Walk, came: RouterInterface | None, leaves: RouterInterface) -> None:
        if came is not None:
            self._filter(walk, came.firewall_group_id, EGRESS, of_interface(walk, came))
        self._filter(walk, leaves.firewall_group_id, INGRESS, of_interface(walk, leaves))

    def _filter(self, walk: Walk, group_id: str, direction: str, at: Subject) -> None:
        """Filter by the group of a port; directions are as seen from the devices behind it."""
        if not group_id:
            return None
        if word := needs_no_rule(walk.packet, direction):
            return walk.passes(KIND, at, f"{word} passes without a rule.")
        name = self.names.get(group_id, Named())
        subject = Subject("firewall_group", group_id, name.name, name.project_id)
        group = self.groups.get(group_id)
        if group is None or not group.admin_state_up:
            text = f"{subject.title} of {at} is administratively down: it drops everything."
            walk.drops(KIND, subject, Cause.FIREWALL_GROUP, text)
        if (KIND, at.id) in walk.before.allowed:
            return walk.passes(KIND, subject, f"It is a reply on a connection that {subject} has allowed.")
        rule = _first_rule(group, walk.packet, direction, walk.version)
        if rule is None:
            text = f"No {direction} rule of {subject} on {at} allows {words(walk.packet, direction)}."
            walk.drops(KIND, subject, Cause.FIREWALL_GROUP, text)
        if rule.action != "allow":
            text = f"{direction.capitalize()} rule {rule.id} of {subject} on {at} has the action {rule.action}."
            walk.drops(KIND, subject, Cause.FIREWALL_GROUP, text)
        walk.allowed.add((KIND, at.id))
        return walk.passes(KIND, subject, f"{subject.title} allows it by its rule {rule.id}.")


def read_part(_connection: Connection, _reached: Reached) -> TracedFirewalls:
    return TracedFirewalls()


def _first_rule(group: FirewallGroup, packet: Packet, direction: str, version: int) -> FirewallRule | None:
    rules = group.egress if direction == EGRESS else group.ingress
    return next((rule for rule in rules if _decides(rule, packet, version)), None)


def _decides(rule: FirewallRule, packet: Packet, version: int) -> bool:
    if rule.ip_version != version or rule.ip_protocol not in (None, packet.protocol):
        return False
    sides = (
        (rule.source_ip_address, packet.source),
        (rule.destination_ip_address, packet.destination),
    )
    if any(prefix is not None and not contains(prefix, address) for prefix, address in sides):
        return False
    ranges = (
        (rule.source_port_first, rule.source_port_last, packet.source_port),
        (rule.destination_port_first, rule.destination_port_last, packet.destination_port),
    )
    for first, last, port in ranges:
        if first is not None and (packet.protocol not in WITH_PORTS or not first <= port <= (last or first)):
            return False
    return True
