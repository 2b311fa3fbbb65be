"""What several parts of the L2 role know of packets: those that need no rule, and those that are logged. Pure."""

from collections.abc import Mapping

from neutrino.agent.l2.desired import HostState
from neutrino.agent.packet_lines import COPIED_BYTES as COPIED_BYTES
from neutrino.model.packet_log import KIND, PacketLog

DHCP_REQUESTS = ("udp,tp_src=68,tp_dst=67", "udp6,tp_src=546,tp_dst=547")
DHCP_REPLIES = ("udp,tp_src=67,tp_dst=68", "udp6,tp_src=547,tp_dst=546")
# Multicast listener reports, router solicitation, neighbour solicitation and advertisement.
NEIGHBOUR_OUT = (131, 132, 133, 135, 136, 143)
# The same, and what routers send: listener queries and router advertisements.
NEIGHBOUR_IN = (130, 131, 132, 134, 135, 136, 143)
# Sent before an instance has an address: router and neighbour solicitation, multicast listener report.
UNADDRESSED = (133, 135, 143)
CONTROLLER_ID = 0x6E6C  # of the connection that gets the copies
FIREWALL_GROUPS = "firewall groups"  # the extension with the tables whose copies are answered


def logs_by_port(host_state: HostState) -> Mapping[str, tuple[PacketLog, ...]]:
    """The logs that are for each port, by id."""
    objects = host_state.extension_objects.get(KIND, {})
    logs = [log for _, log in sorted(objects.items()) if isinstance(log, PacketLog)]
    if not logs:
        return {}
    found = {}
    for port in host_state.ports.values():
        known = (host_state.security_groups.get(key) for key in port.security_groups)
        groups = [group for group in known if group is not None]
        if concerned := tuple(log for log in logs if log.concerns(port, groups)):
            found[port.id] = concerned
    return found
