"""The built-in extensions: each renders one feature's flows from desired state, without seeing the actual state.

The order is that of their tables, and of precedence: of two conflicting contributions the first one counts, and the other
is reported with the names of both. Third parties' extensions follow.
"""

from neutrino.agent.l2.extension_api import L2Extension
from neutrino.agent.l2.flows.arp import Responder, SpoofingGuard
from neutrino.agent.l2.flows.dvr import Dvr
from neutrino.agent.l2.flows.firewall import Firewall
from neutrino.agent.l2.flows.firewall_groups import FirewallGroups
from neutrino.agent.l2.flows.hints import PortHints
from neutrino.agent.l2.flows.integration import DhcpCopies, Physical, Switching
from neutrino.agent.l2.flows.local_ip import LocalIps
from neutrino.agent.l2.flows.packet_log import PacketLogs
from neutrino.agent.l2.flows.qos import Bandwidth, PacketRate
from neutrino.agent.l2.flows.qos_minimum import MinimumBandwidth
from neutrino.agent.l2.flows.routed_replies import RoutedReplies
from neutrino.agent.l2.flows.taps import TapsFromPorts, TapsToPorts
from neutrino.agent.l2.flows.tunnel import Tunnels
from neutrino.agent.l2.tap_tunnels import TapTunnels
from neutrino.agent.l2.trunks import TrunkStatuses

BUILT_IN: tuple[L2Extension, ...] = (
    Switching(),
    SpoofingGuard(),
    TapsFromPorts(),
    Firewall(),
    FirewallGroups(),
    RoutedReplies(),
    DhcpCopies(),
    Tunnels(),
    Responder(),
    Physical(),
    Dvr(),
    Bandwidth(),
    PacketRate(),
    MinimumBandwidth(),
    PortHints(),
    LocalIps(),
    TapsToPorts(),
    TapTunnels(),
    PacketLogs(),
    TrunkStatuses(),
)
