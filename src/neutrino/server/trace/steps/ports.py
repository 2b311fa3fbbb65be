"""What a packet passes at the port that sends it and at the port that receives it. Pure.

`SENDING` and `RECEIVING` are the order of these steps; each is a function of walk and port, and drops the packet or adds
what it has found.
"""

from collections.abc import Callable
from ipaddress import ip_address

from neutrino.model.addresses import link_local
from neutrino.model.trace import Cause, Point, PointKind
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.trace.steps.filters import EGRESS, ICMPV6, INGRESS, UDP, security_groups
from neutrino.server.trace.steps.walk import Subject, Walk, contains, of_network, of_port, same
from neutrino.server.trace.values import TracedPort

_ROUTER_ADVERTISEMENT = 134


def _admin_state(walk: Walk, port: TracedPort) -> None:
    if not port.port.admin_state_up:
        text = f"{of_port(port).title} is administratively down: admin_state_up is false."
        walk.drops("port", of_port(port), Cause.PORT_ADMIN_DOWN, text)
    network = walk.snapshot.networks.get(port.port.network_id)
    if network is not None and not network.admin_state_up:
        subject = of_network(walk, network.id)
        text = f"{subject.title} is administratively down: admin_state_up is false."
        walk.drops("network", subject, Cause.NETWORK_ADMIN_DOWN, text)


def _binding(walk: Walk, port: TracedPort) -> None:
    subject, bound = of_port(port), port.port
    if bound.vif_type == VIF_FAILED:
        text = f"Binding {subject} to host {bound.host} has failed (vif_type binding_failed): no driver could bind it."
        public = f"Binding {subject} has failed (vif_type binding_failed)."
        walk.drops("binding", subject, Cause.BINDING_FAILED, text, public)
    if not bound.host or bound.vif_type == VIF_UNBOUND:
        walk.drops("binding", subject, Cause.PORT_UNBOUND, f"{subject.title} is bound to no host.")


def _enter(walk: Walk, port: TracedPort) -> None:
    walk.enters(port.port.host, Point(kind=PointKind.PORT, port_id=port.id))


def _wired(walk: Walk, port: TracedPort) -> None:
    subject, name = of_port(port), port.port.host
    host = walk.snapshot.hosts.get(name)
    alive = host is not None and host.alive
    if port.status != "ACTIVE" and port.blocks != {"DHCP"}:
        state = f"{subject.title} is {port.status}"
        if not alive:
            text = f"{state}: the L2 agent of its host {name} does not report."
            walk.drops("binding", subject, Cause.HOST_DOWN, text, f"{state}: its host does not report.")
        text, public = f"{state}: its host {name} has not wired it.", f"{state}: its host has not wired it."
        walk.drops("binding", subject, Cause.PORT_NOT_WIRED, text, public)
    check_host(walk, name, subject)
    waits = " It waits for DHCP." if port.status != "ACTIVE" else ""
    text = f"{subject.title} is bound to host {name} and {port.status}.{waits}"
    walk.passes("port", subject, text, f"{subject.title} is bound and {port.status}.{waits}")


def check_host(walk: Walk, name: str, subject: Subject) -> None:
    """Whether the host's agents report, and its switch works."""
    host = walk.snapshot.hosts.get(name)
    if host is None or not host.alive:
        since = f" since {host.last_report}" if host is not None and host.last_report else ""
        text = f"The L2 agent of host {name} has not reported{since}: what its switch does is not known."
        public = "The host does not report: what its switch does is not known."
        walk.doubts_host("host", subject, Cause.HOST_DOWN, text, public)
    elif host.dataplane.startswith("down"):
        text = f"Open vSwitch on host {name} does not work: {host.dataplane}."
        walk.drops("host", subject, Cause.DATAPLANE_DOWN, text, "The switch of the host does not work.")
    elif host.behind:
        text = f"Host {name} was {host.behind} changes behind at its last report."
        if any(step.text == text for step in walk.steps):  # once, also if the packet passes several ports there
            return
        walk.informs("host", subject, text, "The host has not applied the newest changes yet.")


def _addresses(walk: Walk, port: TracedPort) -> None:
    """Anti-spoofing: the source MAC and address must be the port's, or of an allowed address pair."""
    subject, packet = of_port(port), walk.packet
    if port.unfiltered:
        return walk.informs("anti-spoofing", subject, f"Sources of {subject} are not checked: {port.unfiltered}.")
    own = [(port.port.mac_address, fixed.ip_address) for fixed in port.port.fixed_ips]
    pairs = [(pair.mac_address or port.port.mac_address, pair.ip_address) for pair in port.port.allowed_address_pairs]
    macs = {mac.lower() for mac, _ in own + pairs} | {port.port.mac_address.lower()}
    if packet.eth_src.lower() not in macs:
        text = f"MAC address {packet.eth_src} is neither that of {subject} nor in its allowed address pairs."
        walk.drops("anti-spoofing", subject, Cause.ADDRESS_SPOOFED, text)
    source = ip_address(packet.source)
    if source in {link_local(mac) for mac in macs} or source.is_unspecified:
        return walk.passes("anti-spoofing", subject, f"{packet.source} is formed from the port's MAC address.")
    for mac, prefix in own + pairs:
        if mac.lower() == packet.eth_src.lower() and contains(prefix, packet.source):
            word = "an address of the port" if (mac, prefix) in own else "in its allowed address pairs"
            return walk.passes("anti-spoofing", subject, f"{packet.source} with MAC {packet.eth_src} is {word}.")
    text = f"{packet.source} is neither an address of {subject} nor in its allowed address pairs."
    for fip in walk.snapshot.floating_ips.values():
        if fip.port_id == port.id and same(fip.floating_ip_address, packet.source):
            text = (
                f"{packet.source} is the floating IP of {subject}, whose instance sends from {fip.fixed_ip_address}: "
            )
            text += "routers translate the source, and drop nothing else."
    walk.drops("anti-spoofing", subject, Cause.ADDRESS_SPOOFED, text)


def _guards(walk: Walk, port: TracedPort) -> None:
    """An instance neither acts as DHCP server nor as router."""
    if port.unfiltered:
        return
    packet, subject = walk.packet, of_port(port)
    if packet.protocol == UDP and (packet.source_port, packet.destination_port) in ((67, 68), (547, 546)):
        text = f"{subject.title} has port security: DHCP replies of an instance are dropped."
        walk.drops("dhcp-guard", subject, Cause.DHCP_SERVER_GUARD, text)
    if packet.protocol == ICMPV6 and packet.destination_port == _ROUTER_ADVERTISEMENT:
        text = f"{subject.title} has port security: router advertisements of an instance are dropped."
        walk.drops("ra-guard", subject, Cause.RA_GUARD, text)


def _features_sending(walk: Walk, port: TracedPort) -> None:
    for part in walk.snapshot.parts:
        part.sent_by_port(walk, port)
    for part in walk.snapshot.parts:
        part.filters_sender(walk, port)


def _features_past_filters(walk: Walk, port: TracedPort) -> None:
    for part in walk.snapshot.parts:
        part.sent_past_filters(walk, port)


def _features_receiving(walk: Walk, port: TracedPort) -> None:
    for part in walk.snapshot.parts:
        part.filters_receiver(walk, port)
    for part in walk.snapshot.parts:
        part.received_by_port(walk, port)


def _groups_egress(walk: Walk, port: TracedPort) -> None:
    security_groups(walk, port, EGRESS)


def _groups_ingress(walk: Walk, port: TracedPort) -> None:
    security_groups(walk, port, INGRESS)


Check = Callable[[Walk, TracedPort], None]
# The order of what a packet passes at a port.
SENDING: tuple[Check, ...] = (
    _admin_state,
    _binding,
    _enter,
    _wired,
    _addresses,
    _guards,
    _features_sending,
    _groups_egress,
    _features_past_filters,
)
# Before the packet is switched to the port's host: without a binding there is none.
REACHABLE: tuple[Check, ...] = (_admin_state, _binding)
RECEIVING: tuple[Check, ...] = (_wired, _groups_ingress, _features_receiving)


def check(walk: Walk, port: TracedPort, checks: tuple[Check, ...]) -> None:
    for each in checks:
        each(walk, port)
