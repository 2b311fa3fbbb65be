"""Registry of object kinds: what both ends of the feed need to know about each. Pure.

A new kind is one `Kind` here and one `ServedKind` in `server/feed/kinds.py` (its reader and its scope rule). Everything
else reads these two lists: decoding and the cache on the host, permissions by role, message order, digests, fan-out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from neutrino.model import state
from neutrino.model.bgp import BgpSpeaker
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.firewall import FirewallGroup
from neutrino.model.packet_log import PacketLog
from neutrino.model.qos import QosPolicy
from neutrino.model.roles import BGP, DHCP, L2, L3, SRIOV
from neutrino.model.routing import Router


@dataclass(frozen=True, slots=True)
class Kind:
    name: str  # on the wire
    type: type[state.Object]
    roles: frozenset[str]  # roles of the host agent that consume it; a host without any of them never receives it
    plural: str

    def is_for(self, roles: Iterable[str]) -> bool:
        return not self.roles.isdisjoint(roles)


_L2: Final = frozenset({L2})
_PORTS: Final = frozenset({L2, SRIOV})  # roles that wire ports
# In message order: in a snapshot an object comes after those that it references.
_KINDS: Final = (
    Kind("qos_policy", QosPolicy, frozenset({L2, L3, SRIOV}), "qos_policies"),
    Kind("firewall_group", FirewallGroup, frozenset({L2, L3}), "firewall_groups"),
    Kind("log", PacketLog, _L2, "logs"),
    Kind("network", state.Network, _PORTS, "networks"),
    Kind("host", state.Host, _L2, "hosts"),
    Kind("forwarding", state.Forwarding, _L2, "forwarding"),
    Kind("address_group", state.AddressGroup, _L2, "address_groups"),
    Kind("group_members", state.GroupMembers, _L2, "group_members"),
    Kind("security_group", state.SecurityGroup, _L2, "security_groups"),
    Kind("port", state.Port, _PORTS, "ports"),
    Kind("dhcp_network", DhcpNetwork, frozenset({DHCP}), "dhcp_networks"),
    # L3: routers answer metadata requests of their networks' ports, and a distributed router needs their addresses.
    Kind("dhcp_port", DhcpPort, frozenset({DHCP, L3}), "dhcp_ports"),
    Kind("router", Router, frozenset({L3}), "routers"),
    Kind("dvr_mac", state.DvrMac, _L2, "dvr_macs"),
    Kind("bgp_speaker", BgpSpeaker, frozenset({BGP}), "bgp_speakers"),
)
KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _KINDS}


def kinds_for(role: str) -> list[Kind]:
    """The kinds that a role of the host agent consumes."""
    return [kind for kind in KINDS.values() if role in kind.roles]
