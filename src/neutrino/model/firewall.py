"""Firewall groups (FWaaS v2) as hosts get them: one object per group, with the enabled rules of both policies in order."""

from typing import Annotated

import msgspec

from neutrino.model import fields
from neutrino.model.packet_log import ACCEPT, ALL, DROP
from neutrino.model.state import Object


class FirewallRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule; fields that are None match everything."""

    id: fields.Id
    action: Annotated[str, fields.one_of("allow", "deny", "reject")]
    ip_version: fields.IpVersion
    protocol: Annotated[int | None, fields.within(0, 255)] = None  # by number
    source_ip_address: fields.OptionalPrefix = None
    destination_ip_address: fields.OptionalPrefix = None
    source_port_first: fields.OptionalL4Port = None
    source_port_last: fields.OptionalL4Port = None
    destination_port_first: fields.OptionalL4Port = None
    destination_port_last: fields.OptionalL4Port = None

    @property
    def ip_protocol(self) -> int | None:
        """The protocol number in packets: ICMP in a rule for IPv6 means ICMPv6."""
        return 58 if self.ip_version == 6 and self.protocol == 1 else self.protocol


class FirewallLog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A log of the packets that a group accepts or drops, on all of its router ports or on one."""

    id: fields.Id
    name: str = ""
    project_id: str = ""
    event: Annotated[str, fields.one_of(ACCEPT, DROP, ALL)] = ALL
    target_id: str = ""  # a port

    def covers(self, event: str) -> bool:
        return self.event in (ALL, event)


class FirewallGroup(Object, frozen=True, kw_only=True, omit_defaults=True):
    """Directions are as seen from the devices behind the port: `ingress` filters what is sent to them.

    A packet that no rule of its direction matches is dropped. A group that is administratively down drops everything.
    """

    admin_state_up: bool = True
    ingress: tuple[FirewallRule, ...] = ()
    egress: tuple[FirewallRule, ...] = ()
    logs: tuple[FirewallLog, ...] = ()  # enabled ones; hosts write those of router ports
