"""From flows to objects of the API: owners, and the cause of a drop by the table that drops. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options, why_silent
from neutrino.agent.l2.pipeline import Bridge
from neutrino.dataplane.conntrack.api import ICMPV6
from neutrino.dataplane.openflow.trace import Lookup
from neutrino.model.trace import Cause, Packet

Owner = tuple[str, str]
"""Kind and id of an object of the API; both empty where there is none."""
NOBODY: Final[Owner] = ("", "")
_FIREWALL_GROUP: Final = "firewall group "
_FIREWALL_GROUPS: Final = "firewall groups"  # the table of that extension
_GUARDS: Final = 95  # priority of the flows in BASE_EGRESS for what only servers and routers may send
_ADVERTISEMENT: Final = 134
_OF_TABLE: Final[Mapping[tuple[Bridge, str], Cause]] = {
    (Bridge.INTEGRATION, "ARP_SPOOFING"): Cause.ADDRESS_SPOOFED,
    (Bridge.INTEGRATION, "MAC_SPOOFING"): Cause.ADDRESS_SPOOFED,
    (Bridge.INTEGRATION, "TRANSIENT"): Cause.NO_SUCH_ADDRESS,
    (Bridge.INTEGRATION, "RULES_EGRESS"): Cause.SECURITY_GROUP_EGRESS,
    (Bridge.INTEGRATION, "BASE_INGRESS"): Cause.SECURITY_GROUP_INGRESS,
    (Bridge.INTEGRATION, "RULES_INGRESS"): Cause.SECURITY_GROUP_INGRESS,
    (Bridge.INTEGRATION, "ACCEPTED_EGRESS_NORMAL"): Cause.NO_SUCH_ADDRESS,
    (Bridge.INTEGRATION, "TO_LEARNED"): Cause.NO_SUCH_ADDRESS,
    (Bridge.TUNNEL, "TUNNEL_ENTRY"): Cause.NO_TUNNEL,
    (Bridge.TUNNEL, "FLOOD"): Cause.NO_TUNNEL,
    (Bridge.TUNNEL, "FROM_VXLAN"): Cause.NO_SUCH_ADDRESS,
    (Bridge.TUNNEL, "FROM_GRE"): Cause.NO_SUCH_ADDRESS,
    (Bridge.TUNNEL, "FROM_GENEVE"): Cause.NO_SUCH_ADDRESS,
    (Bridge.PHYSICAL, "VLAN_TRANSLATION"): Cause.NO_PHYSICAL_NETWORK,
}


def parse_owner(text: str) -> Owner:
    """The object of an owner of flows."""
    kind, _, rest = text.partition(" ")
    if kind in ("port", "network") and rest:
        return kind, rest.split()[0]
    if text.startswith(_FIREWALL_GROUP):
        return "firewall_group", text.removeprefix(_FIREWALL_GROUP)
    return NOBODY


def bridge_kind(options: L2Options, bridge: str) -> Bridge | None:
    if bridge == options.integration_bridge:
        return Bridge.INTEGRATION
    if bridge == options.tunnel_bridge:
        return Bridge.TUNNEL
    return Bridge.PHYSICAL if bridge in dict(options.bridge_mappings).values() else None


def table_name(options: L2Options, bridge: str, number: int) -> str:
    kind = bridge_kind(options, bridge)
    tables = (*options.extension_tables, *options.ingress_tables) if kind is Bridge.INTEGRATION else ()
    known = (*pipeline.TABLES, *tables)
    return next((each.name for each in known if each.bridge is kind and each.number == number), "")


def deciding(options: L2Options, lookups: Sequence[Lookup]) -> Lookup | None:
    """The lookup that decided a drop: the last one, before the table that only drops."""
    ours = [lookup for lookup in lookups if bridge_kind(options, lookup.bridge) is not None]
    while len(ours) > 1 and table_name(options, ours[-1].bridge, ours[-1].table) == pipeline.DROPPED.name:
        ours.pop()
    return ours[-1] if ours else None


def cause_of(desired: Desired, lookup: Lookup, packet: Packet, in_port: int) -> tuple[Cause, str]:
    """Why a packet is dropped in a table, and in words."""
    options = desired.options
    kind, name = bridge_kind(options, lookup.bridge), table_name(options, lookup.bridge, lookup.table)
    if kind is Bridge.INTEGRATION and name == pipeline.LOCAL_SWITCHING.name:
        return _silent(desired, in_port)
    if name == _FIREWALL_GROUPS:
        return Cause.FIREWALL_GROUP, "no rule of the firewall group allows it, or one denies it"
    if name == pipeline.BASE_EGRESS.name:
        if lookup.priority == _GUARDS:
            if packet.protocol == ICMPV6 and packet.destination_port == _ADVERTISEMENT:
                return Cause.RA_GUARD, "instances may not send router advertisements"
            return Cause.DHCP_SERVER_GUARD, "instances may not send DHCP replies"
        return Cause.ADDRESS_SPOOFED, f"{packet.source} with MAC {packet.eth_src} is not an address of the port"
    cause = _OF_TABLE.get((kind, name), Cause.OTHER) if kind is not None else Cause.OTHER
    notes = {
        Cause.ADDRESS_SPOOFED: f"{packet.eth_src} is not a MAC of the port",
        Cause.SECURITY_GROUP_EGRESS: "no rule of the sender's security groups allows it",
        Cause.SECURITY_GROUP_INGRESS: "no rule of the receiver's security groups allows it",
        Cause.NO_SUCH_ADDRESS: f"no port here has MAC {packet.eth_dst}, and the network has no other way out",
        Cause.NO_TUNNEL: f"no other host has MAC {packet.eth_dst}, as far as this host has been informed",
        Cause.NO_PHYSICAL_NETWORK: "the network has no tag on this bridge",
    }
    return cause, notes.get(cause, f"table {name or lookup.table} of {lookup.bridge} drops it")


def _silent(desired: Desired, in_port: int) -> tuple[Cause, str]:
    """A drop at the entry of the integration bridge: a port that must not talk, or is not wired."""
    uplinks = {uplink.integration_ofport: uplink.physical_network for uplink in desired.plugged.uplinks}
    if in_port in uplinks:
        return Cause.NO_SUCH_ADDRESS, f"no port here is on this segment of physical network {uplinks[in_port]}"
    state = desired.host_state
    port_id = next((key for key, ofport in desired.plugged.ports.items() if ofport == in_port), "")
    port = state.ports.get(port_id)
    if port is None:
        return Cause.PORT_NOT_WIRED, "this host does not know the port"
    return silent_cause(desired, port_id) or (
        Cause.PORT_NOT_WIRED,
        desired.problems.get(port_id, "the port is not wired"),
    )


def silent_cause(desired: Desired, port_id: str) -> tuple[Cause, str] | None:
    """Why a port of this host must not talk; None if it may."""
    state = desired.host_state
    port = state.ports.get(port_id)
    reason = why_silent(port, state.networks) if port is not None else None
    if port is None or reason is None:
        return None
    if not port.admin_state_up:
        return Cause.PORT_ADMIN_DOWN, reason
    return (Cause.PORT_UNBOUND if not port.active else Cause.NETWORK_ADMIN_DOWN), reason
