"""QoS of ports: bandwidth limits, packet rate limits and DSCP marks of the policy that is in effect for each port.

A packet from a port passes two tables after the spoofing checks. In that of `Bandwidth` it passes the meter of the port's
egress limit and gets the DSCP mark, in that of `PacketRate` a meter that counts packets. A flow can have one meter, so a
port with both limits needs both tables. A packet to a port passes the meter of an ingress packet rate the same way, before
it is output. Ports without such limits skip the tables.

An ingress bandwidth limit is a linux-htb queue on the port's device, which delays packets where a meter drops them. Devices
that the kernel does not queue packets for, such as vhost-user sockets, get a meter instead.

Every port has meters of its own, named by the port. A changed limit changes meters and queues in place and no flow, so that
no packet is lost and one policy on many ports costs a meter for each.
"""

from collections.abc import Collection, Iterator

from neutrino.agent.l2.desired import Desired, L2Options, LocalPort
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner, use_meter
from neutrino.agent.l2.extensions.qos_minimum import KIND, minimum_kbps
from neutrino.agent.l2.pipeline import REG_COPIES, REG_PORT
from neutrino.dataplane.openflow.api import Flow, Meter
from neutrino.dataplane.ovsdb.api import PortSettings, Qos, Queue
from neutrino.model.qos import BandwidthLimit, PacketRateLimit, QosPolicy

# A policer drops what exceeds its bucket: with a small one TCP stays far below the limit (measured with 10 % of the rate:
# half of the limit; with 80 %: 101 %). A share of 80 % is Neutron's default, too.
_POLICER_BURST = 0.8
# A shaper delays packets, so its bucket only has to cover the timer's granularity.
_SHAPER_BURST = 0.1
_MOST = 2**32 - 1  # of a rate or burst in OpenFlow
_DEFAULT_QUEUE = 0  # of packets that no flow has set a queue for


class Bandwidth(L2Extension):
    """Bandwidth limits, and DSCP marks, which need no table more."""

    name = "qos"
    neutron_name = "qos"
    kinds = frozenset({KIND})
    has_table = True
    has_ingress_table = True

    def egress_ports(self, desired: Desired) -> Collection[str]:
        policies = desired.host_state.qos_policies
        return [key for key, policy in policies.items() if _limit(policy, "egress") or _treatment(policy)]

    def ingress_ports(self, desired: Desired) -> Collection[str]:
        policies = desired.host_state.qos_policies
        metered = (port.id for port in desired.ports if port.id in policies and not port.shaped)
        return [key for key in metered if _limit(policies[key], "ingress")]

    def units(self, desired: Desired) -> Iterator[Unit]:
        for port, policy in _governed(desired):
            limits = _limit(policy, "egress"), _limit(policy, "ingress")
            if any(limits) or _treatment(policy):
                queue = port.ofport if minimum_kbps(policy) else 0
                inputs = desired.options, _place(port), *limits, policy.dscp_mark, queue
                yield Unit(port_owner(port), inputs, _bandwidth)


class PacketRate(L2Extension):
    name = "qos packet rate"
    kinds = frozenset({KIND})
    has_table = True
    has_ingress_table = True

    def egress_ports(self, desired: Desired) -> Collection[str]:
        return [key for key, policy in desired.host_state.qos_policies.items() if _packet_limit(policy, "egress")]

    def ingress_ports(self, desired: Desired) -> Collection[str]:
        return [key for key, policy in desired.host_state.qos_policies.items() if _packet_limit(policy, "ingress")]

    def units(self, desired: Desired) -> Iterator[Unit]:
        for port, policy in _governed(desired):
            limits = _packet_limit(policy, "egress"), _packet_limit(policy, "ingress")
            if any(limits):
                yield Unit(port_owner(port), (desired.options, _place(port), *limits), _packet_rate)


_Place = tuple[str, int, str, bool]
"""A port's id, ofport and device, and whether the device is shaped."""


def _place(port: LocalPort) -> _Place:
    return port.id, port.ofport, port.device, port.shaped


def _governed(desired: Desired) -> Iterator[tuple[LocalPort, QosPolicy]]:
    policies = desired.host_state.qos_policies
    if policies:
        yield from ((port, policies[port.id]) for port in desired.ports if port.id in policies)


def _limit(policy: QosPolicy, direction: str) -> BandwidthLimit | None:
    """The limit of a direction; a rate of 0 is none, as in Neutron."""
    return next(
        (
            bandwidth_limit
            for bandwidth_limit in policy.bandwidth_limits
            if bandwidth_limit.direction == direction and bandwidth_limit.max_kbps
        ),
        None,
    )


def _treatment(policy: QosPolicy) -> bool:
    """Whether packets from the port are marked, or have a queue of their own."""
    return policy.dscp_mark is not None or bool(minimum_kbps(policy))


def _packet_limit(policy: QosPolicy, direction: str) -> PacketRateLimit | None:
    return next(
        (
            packet_rate_limit
            for packet_rate_limit in policy.packet_rate_limits
            if packet_rate_limit.direction == direction and packet_rate_limit.max_kpps
        ),
        None,
    )


def _bandwidth(
    options: L2Options,
    place: _Place,
    egress: BandwidthLimit | None,
    ingress: BandwidthLimit | None,
    dscp_mark: int | None,
    queue: int,
) -> Contribution:
    port_id, ofport, device, shaped = place
    meters: dict[str, Meter] = {}
    flows: list[Flow] = []
    out, into = options.extension_table(Bandwidth.name), options.ingress_table(Bandwidth.name)
    here, onward = f"in_port={ofport}", options.after_extension(out)
    treated: tuple[str, ...] = ()
    if egress is not None:
        name = f"bandwidth-egress-{port_id}"
        meters[name], treated = _bandwidth_meter(egress), (use_meter(name),)
    if queue:
        treated += (f"set_queue:{queue}",)  # at the uplink: see `qos_minimum`
    if treated:
        flows.append(out.flow(1, here, *treated, then=onward))
    if dscp_mark is not None:
        mark = f"set_field:{dscp_mark}->ip_dscp"  # without the ECN bits, which are the end hosts' own
        flows += [out.flow(2, f"{family},{here}", *treated, mark, then=onward) for family in ("ip", "ipv6")]
    ports: dict[str, PortSettings] = {}
    if ingress is not None and shaped:
        ports[device] = PortSettings(qos=_shaping(ingress))
    elif ingress is not None:
        name = f"bandwidth-ingress-{port_id}"
        meters[name] = _bandwidth_meter(ingress)
        match = f"{REG_PORT}={ofport},{REG_COPIES}=0"
        flows.append(into.flow(1, match, use_meter(name), then=options.after_ingress(into)))
    bridge = options.integration_bridge
    return Contribution({bridge: flows}, meters={bridge: meters}, ports=ports)


def _packet_rate(
    options: L2Options, place: _Place, egress: PacketRateLimit | None, ingress: PacketRateLimit | None
) -> Contribution:
    port_id, ofport, _, _ = place
    out, into = options.extension_table(PacketRate.name), options.ingress_table(PacketRate.name)
    meters: dict[str, Meter] = {}
    flows: list[Flow] = []
    if egress is not None:
        name = f"packets-egress-{port_id}"
        meters[name] = _packet_meter(egress)
        flows.append(out.flow(1, f"in_port={ofport}", use_meter(name), then=options.after_extension(out)))
    if ingress is not None:
        name = f"packets-ingress-{port_id}"
        meters[name] = _packet_meter(ingress)
        match = f"{REG_PORT}={ofport},{REG_COPIES}=0"
        flows.append(into.flow(1, match, use_meter(name), then=options.after_ingress(into)))
    bridge = options.integration_bridge
    return Contribution({bridge: flows}, meters={bridge: meters})


def _bandwidth_meter(limit: BandwidthLimit) -> Meter:
    burst = limit.max_burst_kbps or int(limit.max_kbps * _POLICER_BURST)
    return Meter(limit.max_kbps, "kbps", max(burst, 1))


def _packet_meter(limit: PacketRateLimit) -> Meter:
    rate = min(limit.max_kpps * 1000, _MOST)
    burst = min(limit.max_burst_kpps * 1000, _MOST) or int(rate * _POLICER_BURST)
    return Meter(rate, "pktps", burst)


def _shaping(limit: BandwidthLimit) -> Qos:
    """One queue for everything. A guaranteed rate below the limit would make it depend on the root's small bucket."""
    rate = str(limit.max_kbps * 1000)
    burst = limit.max_burst_kbps * 1000 or int(limit.max_kbps * 1000 * _SHAPER_BURST)
    queue = Queue({"max-rate": rate, "min-rate": rate, "burst": str(burst)})
    return Qos("linux-htb", {"max-rate": rate}, {_DEFAULT_QUEUE: queue})
