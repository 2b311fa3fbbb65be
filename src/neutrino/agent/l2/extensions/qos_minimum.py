"""Minimum bandwidth of what ports send: queues with a guaranteed rate on the devices through which packets leave the host.

A packet from a port with such a rule gets its queue in table `qos` (see `qos`), and leaves through the uplink of its
physical network, or in a tunnel through the uplink of the bridge that has the tunnel address. There linux-htb guarantees
each queue its rate, and shares what is left among all that send.

The kernel's datapath passes the queue on with the packet. The userspace datapath does not: there a filter of the device
finds the queue by the port's MAC, as the packet's source or, in a tunnel, at the place where the inner packet has it. Both
are installed on both datapaths, as they agree.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from neutrino.agent.l2.desired import Desired, L2Options, LocalNetwork, UplinkPort
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit
from neutrino.dataplane.ovsdb.api import PortSettings, Qos, Queue
from neutrino.dataplane.tc.api import Filter, Item, QueueLength, match_mac
from neutrino.model.qos import QosPolicy

KIND = "qos_policy"
# Without a configured rate: the highest that Open vSwitch can set, below 2^32 bytes/s. By default it would take 100 Mbit/s
# for a device of unknown speed.
_UNLIMITED_KBPS = 34_000_000
_LEAST_KBPS = 12  # of a queue in Open vSwitch
_BURST_SECONDS = 0.01
_LEAST_BURST = 16_000  # bits: a packet and a bit
# Where a frame has its source: as the kernel counts from the network header, without a tag in the frame and with one.
_SOURCE_OFFSETS = (-8, -12)
_IP_HEADER = {4: 20, 6: 40}
_TUNNEL_HEADER = {"vxlan": 16, "geneve": 16, "gre": 8}  # with UDP; GRE with a key
# In userspace all devices share one socket: what waits in the queues of an uplink must leave room in its buffer (212,992
# bytes by default, and a packet takes about 2,300) for the packets to all others.
_SOCKET_PACKETS, _LEAST_WAITING = 40, 4
_INNER_SOURCE = 6  # after the destination


class Share(NamedTuple):
    """A port's guaranteed share of an uplink."""

    queue: int
    kbps: int
    mac: str
    tunnel: str  # the type of tunnel that its packets are in; empty on a physical network


class MinimumBandwidth(L2Extension):
    name = "qos minimum bandwidth"
    kinds = frozenset({KIND})

    def units(self, desired: Desired) -> Iterator[Unit]:
        options, plugged = desired.options, desired.plugged
        rates = dict(options.uplink_rates)
        for bridge, shares in _shares(desired).items():
            for port in plugged.uplink_ports.get(bridge, ()):
                yield Unit(f"uplink {port.name}", (options, port, rates.get(bridge, 0), tuple(shares)), _uplink)


def minimum_kbps(policy: QosPolicy) -> int:
    """What a port is guaranteed to send; 0 if nothing. Rules for ingress are for Placement alone."""
    return next((rule.min_kbps for rule in policy.minimum_bandwidths if rule.direction == "egress"), 0)


def _shares(desired: Desired) -> dict[str, list[Share]]:
    """Return the shares by the bridge that a port's packets leave through."""
    found: defaultdict[str, list[Share]] = defaultdict(list)
    policies = desired.host_state.qos_policies
    if not policies:
        return found
    bridges = {uplink.integration_ofport: uplink.bridge for uplink in desired.plugged.uplinks}
    networks: dict[int, LocalNetwork] = {network.vlan: network for network in desired.networks}
    for port in desired.ports:
        kbps = minimum_kbps(policies[port.id]) if port.id in policies else 0
        if kbps:
            network = networks[port.vlan]
            tunnel = "" if network.is_physical else network.key.network_type
            bridge = bridges.get(network.uplink, "") if network.is_physical else desired.options.underlay_bridge
            if bridge and (network.is_physical or tunnel in _TUNNEL_HEADER):  # a local network has no uplink
                found[bridge].append(Share(port.ofport, kbps, port.mac, tunnel))
    return found


def _uplink(options: L2Options, port: UplinkPort, rate: int, shares: tuple[Share, ...]) -> Contribution:
    queues = {share.queue: _queue(share.kbps, rate) for share in shares}
    # What is not guaranteed to ports is everyone else's. Without a configured rate the others have none guaranteed, so that
    # a busy device sends the packets of guaranteed queues first.
    rest = rate - sum(share.kbps for share in shares) if rate else 0
    queues[0] = _queue(rest, rate)
    most = str((rate or _UNLIMITED_KBPS) * 1000)
    sorting: list[Item] = [each for share in shares for each in _filters(share, options)]
    if options.userspace:
        waiting = max(_SOCKET_PACKETS // len(queues), _LEAST_WAITING)
        sorting += [QueueLength(number, waiting) for number in queues]
    return Contribution(
        ports={port.name: PortSettings(qos=Qos("linux-htb", {"max-rate": most}, queues))},
        filters=dict.fromkeys(port.interfaces, sorting),
    )


def _queue(kbps: int, rate: int) -> Queue:
    least = max(kbps, _LEAST_KBPS)
    burst = max(int(least * 1000 * _BURST_SECONDS), _LEAST_BURST)
    most = max(rate or _UNLIMITED_KBPS, least)
    return Queue({"min-rate": str(least * 1000), "max-rate": str(most * 1000), "burst": str(burst)})


def _filters(share: Share, options: L2Options) -> Iterator[Filter]:
    if not share.tunnel:
        yield from (match_mac(share.mac, offset, share.queue) for offset in _SOURCE_OFFSETS)
        return
    header = _TUNNEL_HEADER[share.tunnel] + (4 if share.tunnel == "gre" and options.tunnel_csum else 0)
    yield match_mac(share.mac, _IP_HEADER[options.tunnel_ip_version] + header + _INNER_SOURCE, share.queue)
