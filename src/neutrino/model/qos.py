"""QoS policies as hosts get them: one object per policy, with its rules by type."""

from typing import Annotated, Final

import msgspec

from neutrino.model import fields
from neutrino.model.state import Network, Object, Port

EGRESS, INGRESS, ANY = "egress", "ingress", "any"
# Class selectors, assured and expedited forwarding (RFC 2474, 2597, 3246), and best effort.
DSCP_MARKS: Final = (0, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 46, 48, 56)
Direction = Annotated[str, fields.one_of(INGRESS, EGRESS)]  # as seen from the instance, as in Neutron
Rate = Annotated[int, fields.within(0, 2**31 - 1)]


class BandwidthLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    direction: Direction = "egress"
    max_kbps: Rate
    max_burst_kbps: Rate = 0  # 0: a share of the rate, which the agent chooses


class PacketRateLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit in thousands of packets per second."""

    direction: Direction = "egress"
    max_kpps: Rate
    max_burst_kpps: Rate = 0


class MinimumBandwidth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    direction: Direction = "egress"
    min_kbps: Rate


class QosPolicy(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A policy with at most one rule of each type and direction.

    Minimum packet rates are for Placement alone: no host enforces them.
    """

    bandwidth_limits: tuple[BandwidthLimit, ...] = ()
    packet_rate_limits: tuple[PacketRateLimit, ...] = ()
    minimum_bandwidths: tuple[MinimumBandwidth, ...] = ()
    dscp_mark: Annotated[int | None, fields.within(0, 63)] = None


# Device owner of ports of routers, DHCP and other services: a network's policy is for instances. Neutron exempts `neutron:`
# as well, but any project may set that on its port, and would escape the policy that an administrator has set.
_SERVICE_OWNER: Final = "network:"


def effective_policy_id(port: Port, network: Network | None) -> str:
    """The policy that applies to a port: its own, or its network's if it belongs to an instance; empty if none does."""
    if port.qos_policy_id or network is None or port.device_owner.startswith(_SERVICE_OWNER):
        return port.qos_policy_id
    return network.qos_policy_id
