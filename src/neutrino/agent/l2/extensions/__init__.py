"""The built-in extensions: each renders one feature's flows from desired state, without seeing the actual state.

The order is that of their tables, and of precedence: of two conflicting contributions the first one counts, and the other
is reported with the names of both. Third parties' extensions follow.
"""

from neutrino.agent.l2.extension_api import L2Extension
from neutrino.agent.l2.extensions.arp import Responder, SpoofingGuard
from neutrino.agent.l2.extensions.dvr import Dvr
from neutrino.agent.l2.extensions.firewall import Firewall
from neutrino.agent.l2.extensions.firewall_groups import FirewallGroups
from neutrino.agent.l2.extensions.hints import PortHints
from neutrino.agent.l2.extensions.integration import DhcpCopies, Physical, Switching
from neutrino.agent.l2.extensions.local_ip import LocalIps
from neutrino.agent.l2.extensions.packet_log import PacketLogs
from neutrino.agent.l2.extensions.qos import Bandwidth, PacketRate
from neutrino.agent.l2.extensions.qos_minimum import MinimumBandwidth
from neutrino.agent.l2.extensions.routed_replies import RoutedReplies
from neutrino.agent.l2.extensions.tap_tunnels import TapTunnels
from neutrino.agent.l2.extensions.taps import TapsFromPorts, TapsToPorts
from neutrino.agent.l2.extensions.trunks import TrunkStatuses
from neutrino.agent.l2.extensions.tunnel import Tunnels

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
