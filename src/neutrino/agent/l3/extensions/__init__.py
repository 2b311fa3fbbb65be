"""The built-in extensions: each renders one feature of a router into its namespaces. Pure.

The order is that of their contributions: of rules at one position, and of sysctls, of which the last one counts. Third
parties' extensions follow.
"""

from neutrino.agent.l3.extension_api import L3Extension
from neutrino.agent.l3.extensions.bfd import BfdPackets
from neutrino.agent.l3.extensions.delegation import PrefixDelegation
from neutrino.agent.l3.extensions.devices import Devices
from neutrino.agent.l3.extensions.distributed import DistributedRouting
from neutrino.agent.l3.extensions.firewall import FirewallGroups
from neutrino.agent.l3.extensions.gateways import FurtherGateways
from neutrino.agent.l3.extensions.ha import HighAvailability
from neutrino.agent.l3.extensions.metadata import Metadata
from neutrino.agent.l3.extensions.metering import Metering
from neutrino.agent.l3.extensions.nat import Nat
from neutrino.agent.l3.extensions.ndp_proxy import NdpProxies
from neutrino.agent.l3.extensions.qos import RouterQos
from neutrino.agent.l3.extensions.ra import RouterAdvertisements
from neutrino.agent.l3.extensions.scopes import AddressScopes
from neutrino.agent.l3.extensions.vpn import Vpn

BUILT_IN: tuple[L3Extension, ...] = (
    Devices(),
    RouterAdvertisements(),
    FurtherGateways(),
    BfdPackets(),
    Vpn(),  # before `Nat`: its packets are not translated
    Nat(),
    RouterQos(),
    Metadata(),
    AddressScopes(),
    FirewallGroups(),
    NdpProxies(),
    Metering(),
    HighAvailability(),
    PrefixDelegation(),
    DistributedRouting(),
)
