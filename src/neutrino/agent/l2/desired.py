"""Desired state of the L2 role: the objects from the server, joined with what is plugged on this host.

The server sends what a port is, OVSDB has the number under which it is plugged; a flow needs both. `resolve` joins them
into the frozen values that extensions render from, one for each port and network, and names the reason for every port
that cannot be wired.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping
from functools import cached_property
from ipaddress import ip_network
from typing import NamedTuple

from neutrino.agent.l2.local_vlans import SegmentKey
from neutrino.agent.l2.pipeline import DELIVERY, TRANSIENT, Table
from neutrino.agent.l2.port_segments import segment_of
from neutrino.caches import cached
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6
from neutrino.dataplane.openflow.api import DatapathFeatures
from neutrino.model import state
from neutrino.model.addresses import link_local
from neutrino.model.qos import QosPolicy, effective_policy_id

TUNNEL_TYPES = ("gre", "vxlan", "geneve")
VXLAN_PORT = 4789
Remotes = Mapping[str, frozenset[str]]
"""Addresses and prefixes by remote: `group:<id>` for a security group's members, or `addresses:<id>`."""


@dataclasses.dataclass(frozen=True)
class HostState:
    """The objects that the server has sent to this host, by id."""

    networks: Mapping[str, state.Network] = dataclasses.field(default_factory=dict)
    ports: Mapping[str, state.Port] = dataclasses.field(default_factory=dict)
    security_groups: Mapping[str, state.SecurityGroup] = dataclasses.field(default_factory=dict)
    group_members: Mapping[str, state.GroupMembers] = dataclasses.field(default_factory=dict)
    address_groups: Mapping[str, state.AddressGroup] = dataclasses.field(default_factory=dict)
    hosts: Mapping[str, state.Host] = dataclasses.field(default_factory=dict)
    forwarding: Mapping[str, state.Forwarding] = dataclasses.field(default_factory=dict)
    dvr_macs: Mapping[str, state.DvrMac] = dataclasses.field(default_factory=dict)
    # Ports with an inactive binding that wait for their instance, and whether it has arrived: see `migrations`.
    waiting: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    # Objects of the kinds that extensions declare, by kind.
    extension_objects: Mapping[str, Mapping[str, state.Object]] = dataclasses.field(default_factory=dict)

    @cached_property
    def qos_policies(self) -> Mapping[str, QosPolicy]:
        """The QoS policies in effect, by port; a policy that has not arrived yet is none."""
        policies = self.extension_objects.get("qos_policy", {})
        found = {}
        for port in self.ports.values() if policies else ():
            policy = policies.get(effective_policy_id(port, self.networks.get(port.network_id)))
            if isinstance(policy, QosPolicy):
                found[port.id] = policy
        return found


@dataclasses.dataclass(frozen=True)
class Uplink:
    """A physical network's bridge, and the two ends of the patch between it and the integration bridge."""

    physical_network: str
    bridge: str
    integration_ofport: int
    physical_ofport: int


@dataclasses.dataclass(frozen=True)
class UplinkPort:
    """A port of a bridge through which packets leave the host; a bond has several interfaces."""

    name: str
    interfaces: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class TunnelPort:
    """A tunnel to another host."""

    ofport: int
    network_type: str
    host: str


@dataclasses.dataclass(frozen=True)
class Plugged:
    """OpenFlow port numbers of what is plugged, and the datapath's features. A port without a number yet is missing."""

    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # by port id
    devices: Mapping[str, str] = dataclasses.field(default_factory=dict)  # names in OVSDB, by port id
    shaped: frozenset[str] = frozenset()  # ids of ports whose device has a queueing discipline for packets to it
    extension_ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # by the name the extension gave
    uplinks: tuple[Uplink, ...] = ()
    # Of the physical networks' bridges, and of the one that has the tunnel address.
    uplink_ports: Mapping[str, tuple[UplinkPort, ...]] = dataclasses.field(default_factory=dict)
    patch_tun: int = 0  # on the integration bridge; 0 where there are no tunnels
    patch_int: int = 0  # on the tunnel bridge
    tunnels: tuple[TunnelPort, ...] = ()
    features: DatapathFeatures = dataclasses.field(default_factory=DatapathFeatures)


@dataclasses.dataclass(frozen=True)
class L2Options:
    integration_bridge: str = "br-int"
    tunnel_bridge: str = "br-tun"
    int_peer_patch_port: str = "patch-tun"
    tun_peer_patch_port: str = "patch-int"
    bridge_mappings: tuple[tuple[str, str], ...] = ()  # physical network, bridge
    uplink_rates: tuple[tuple[str, int], ...] = ()  # bridge, kbit/s that its uplink can send
    underlay_bridge: str = ""  # that has the tunnel address, if a bridge has it
    datapath_type: str = "system"
    mac_table_size: int = 0  # of bridges of physical networks; 0: as it is
    managers: tuple[str, ...] = ()  # addresses at which OVSDB is served to other programs of this host
    tunnel_types: tuple[str, ...] = ()
    local_ip: str = ""
    vxlan_udp_port: int = VXLAN_PORT
    dont_fragment: bool = True
    tunnel_csum: bool = False
    tunnel_tos: str = ""  # of tunnel packets: "inherit", or the DSCP in its place in the byte; empty: none
    l2_population: bool = True
    arp_responder: bool = True
    filters: bool = True  # False: no port's security groups are applied, in flows or on bridges
    permitted_ethertypes: tuple[int, ...] = ()
    host: str = ""
    distributed: bool = False  # this host takes part in distributed routers
    log_rate: int = 100  # packets per second that are logged, of all ports together
    log_burst: int = 25
    extension_tables: tuple[Table, ...] = ()  # for packets from ports
    ingress_tables: tuple[Table, ...] = ()  # of extensions, for packets to ports

    @property
    def userspace(self) -> bool:
        """Whether the switch itself forwards packets, and sends them through sockets where a device is the kernel's."""
        return self.datapath_type == "netdev"

    @property
    def tunnel_ip_version(self) -> int:
        return 6 if ":" in self.local_ip else 4

    def after_spoofing(self, port: LocalPort) -> Table:
        """The table that a port's packets pass after the spoofing checks."""
        return self.extension_tables[0] if port.egress_extensions else TRANSIENT

    def extension_table(self, name: str) -> Table:
        """The table of an extension that has one."""
        return next(table for table in self.extension_tables if table.name == name)

    def after_extension(self, table: Table) -> Table:
        """The table that follows an extension's own."""
        return next((each for each in self.extension_tables if each.number > table.number), TRANSIENT)

    @property
    def ingress_entry(self) -> Table:
        """The first table of extensions for packets to ports."""
        return self.ingress_tables[0] if self.ingress_tables else DELIVERY

    def ingress_table(self, name: str) -> Table:
        """The table of an extension that has one for packets to ports."""
        return next(table for table in self.ingress_tables if table.name == name)

    def after_ingress(self, table: Table) -> Table:
        """The table that follows an extension's own for packets to ports."""
        return next((each for each in self.ingress_tables if each.number > table.number), DELIVERY)


@dataclasses.dataclass(frozen=True)
class LocalNetwork:
    """A segment that has ports here, and its way out of the integration bridge."""

    key: SegmentKey
    vlan: int
    uplink: int = 0  # ofport on the integration bridge; 0: none
    carries_tags: bool = False  # VLAN tags of instances
    qinq: bool = False  # its own tag on the physical network is that of 802.1ad

    @property
    def is_physical(self) -> bool:
        """Whether its packets carry the segment's own tag, or none, outside this host."""
        return self.key.network_type in ("vlan", "flat")


@dataclasses.dataclass(frozen=True)
class EffectiveRule:
    """A rule in force for a port, without the ids of rule and group, so that duplicates of two groups are one."""

    direction: str
    family: int
    protocol: int | None
    port_min: int | None
    port_max: int | None
    prefix: str | None
    remote: str | None  # a key of Remotes
    stateful: bool

    @property
    def ip_protocol(self) -> int | None:
        """The protocol number in packets: ICMP in a rule for IPv6 means ICMPv6."""
        return ICMPV6 if self.family == 6 and self.protocol == ICMP else self.protocol


@dataclasses.dataclass(frozen=True)
class LocalPort:
    """A port that is plugged here."""

    id: str
    ofport: int
    vlan: int  # of its network on this host
    mac: str = ""
    device: str = ""  # its name in OVSDB
    shaped: bool = False  # the device has a queueing discipline for packets to it
    secured: bool = False
    hybrid: bool = False  # filtered on a Linux bridge of its own, in front of the integration bridge
    trusted: bool = False  # one of ours, such as a router's: it uses only its own MAC
    copy: bool = False  # a copy of a DHCP port of another host: it serves the ports of this host only
    replicated: bool = False  # the same port is on other hosts too: which one is active is learned from packets
    migrating: bool = False  # its instance may be on another host already, by live migration
    standby: bool = False  # its instance has not arrived yet, by live migration: nothing is delivered to it
    sources: frozenset[tuple[str, str]] = frozenset()  # (MAC, prefix) that it may send from, if it is secured
    addresses: frozenset[str] = frozenset()  # prefixes of its addresses, secured or not; none of a trusted port
    rules: frozenset[EffectiveRule] = frozenset()
    stateful: bool = True  # whether any of its groups tracks connections
    stateless: bool = False  # whether any of its groups tracks none
    sends_tags: bool = False  # its network carries the VLAN tags of its frames
    tx_steering: str = ""  # the hint for the switch
    egress_extensions: bool = False  # packets from it pass the extensions' tables
    ingress_extensions: bool = False  # packets to it pass the extensions' tables

    @property
    def filtered(self) -> bool:
        """Whether the integration bridge itself applies the security groups."""
        return self.secured and not self.hybrid

    @property
    def tracks_all(self) -> bool:
        """Whether its firewall judges every packet to it by the state of its connection."""
        return self.stateful and not self.stateless

    @property
    def learns_macs(self) -> bool:
        """Whether MACs behind it are learned from packets: any MAC without port security, or an HA router's."""
        return self.replicated or (not self.secured and not self.trusted)

    @cached_property
    def macs(self) -> frozenset[str]:
        return frozenset({self.mac, *(mac for mac, _ in self.sources)})

    @cached_property
    def ruleless(self) -> LocalPort:
        """The port without its rules: the input of a network's delivery, so that a rule's change does not render it."""
        return dataclasses.replace(self, rules=frozenset())

    def through(self, *, egress: bool, ingress: bool) -> LocalPort:
        """The port with its packets led through the extensions' tables. The same object each time, so that inputs of
        units are compared by identity."""
        if not (egress or ingress):
            return self
        made = self._through.get((egress, ingress))
        if made is None:
            made = dataclasses.replace(self, egress_extensions=egress, ingress_extensions=ingress)
            self._through[egress, ingress] = made
        return made

    @cached_property
    def _through(self) -> dict[tuple[bool, bool], LocalPort]:
        return {}


@dataclasses.dataclass(frozen=True)
class Desired:
    """The desired state of this host: the input of every extension."""

    options: L2Options
    plugged: Plugged
    networks: tuple[LocalNetwork, ...]
    ports: tuple[LocalPort, ...]
    dead: tuple[int, ...]  # ofports that are plugged and must not talk
    remotes: Remotes  # those that rules name
    problems: Mapping[str, str]  # port, to the reason why it is not wired
    host_state: HostState = dataclasses.field(default_factory=HostState)

    @property
    def objects(self) -> Mapping[str, Mapping[str, state.Object]]:
        """Feed objects by kind and id: those of the kinds that extensions declare."""
        return self.host_state.extension_objects

    @cached_property
    def tunnel_networks(self) -> list[tuple[LocalNetwork, tuple[state.Forwarding, ...]]]:
        """The tunnel networks with ports here, each with the forwarding entries of its ports on other hosts, by id."""
        networks = [network for network in self.networks if network.key.network_type in TUNNEL_TYPES]
        entries: dict[str, list[state.Forwarding]] = {network.key.network_id: [] for network in networks}
        for _, entry in sorted(self.host_state.forwarding.items()):
            if entry.network_id in entries:
                entries[entry.network_id].append(entry)
        return [(network, tuple(entries[network.key.network_id])) for network in networks]


def wanted_segments(host_state: HostState, plugged: Plugged) -> frozenset[SegmentKey]:
    """The segments that need a local VLAN here."""
    networks = host_state.networks
    present = (port for port in host_state.ports.values() if port.id in plugged.ports)
    keys = (
        _segment_of(each, host_state, plugged) for each in present if not why_silent(each, networks, host_state.waiting)
    )
    return frozenset(key for key in keys if key is not None)


def _segment_of(port: state.Port, host_state: HostState, plugged: Plugged) -> SegmentKey | None:
    def reaches(segment: state.Segment) -> bool:
        with contextlib.suppress(NotWired):
            _uplink_of(segment.network_type, segment.physical_network or "", plugged)
            return True
        return False

    return segment_of(port, host_state.networks, host_state.ports.values(), reaches)


class Place(NamedTuple):
    """Where a port is plugged."""

    ofport: int
    device: str
    shaped: bool


class NotWired(ValueError):
    """The reason why a plugged port cannot be wired."""


def resolve(host_state: HostState, plugged: Plugged, vlans: Mapping[SegmentKey, int], options: L2Options) -> Desired:
    problems: dict[str, str] = {}
    ports: list[LocalPort] = []
    networks: dict[SegmentKey, LocalNetwork] = {}
    groups = host_state.security_groups
    for port_id, port in sorted(host_state.ports.items()):
        if port_id not in plugged.ports:
            continue
        try:
            network = _network(port, host_state, plugged, vlans)
            if network.carries_tags and port.hybrid_plug and port.port_security_enabled:
                raise NotWired(
                    "its network carries VLAN tags, and the iptables firewall does not look into tagged frames"
                )
            networks[network.key] = network
            # A group that is invalid or has not arrived yet allows nothing; the port's other groups count.
            held = tuple(groups[group_id] for group_id in port.security_groups if group_id in groups)
            place = Place(plugged.ports[port_id], plugged.devices.get(port_id, ""), port_id in plugged.shaped)
            standby = not host_state.waiting.get(port_id, True)
            ports.append(_local_port(port, place, network, held, options.filters, standby))
        except ValueError as error:  # NotWired, or an address that cannot be parsed: it costs this port alone
            problems[port_id] = str(error)
    live = {port.ofport for port in ports}
    return Desired(
        options=options,
        plugged=plugged,
        networks=tuple(networks[key] for key in sorted(networks)),
        ports=tuple(ports),
        dead=tuple(sorted({*plugged.ports.values()} - live)),  # also plugged ports that the server does not know
        remotes=_remotes(ports, host_state),
        problems=problems,
        host_state=host_state,
    )


def why_silent(port: state.Port, networks: Mapping[str, state.Network], waiting: Collection[str] = ()) -> str | None:
    """The reason why a port must not talk, whatever is plugged; None if it may. `waiting`: for an instance to arrive."""
    if not port.admin_state_up:
        return "its admin state is down"
    if not port.active and port.id not in waiting:
        return "its binding to this host is not active"
    network = networks.get(port.network_id)
    if network is not None and not network.admin_state_up:
        return "its network's admin state is down"
    return None


def _network(
    port: state.Port, host_state: HostState, plugged: Plugged, vlans: Mapping[SegmentKey, int]
) -> LocalNetwork:
    """The network of a port on this host; NotWired if it must not talk, or its segment cannot be reached from here."""
    networks = host_state.networks
    silent, key = why_silent(port, networks, host_state.waiting), _segment_of(port, host_state, plugged)
    if silent is not None:
        raise NotWired(silent)
    if key is None:
        is_shared = port.distributed or port.replicated
        raise NotWired("this host is not on its segment" if is_shared else "its segment is not known here")
    if key not in vlans:
        raise NotWired("no local VLAN is left for its network")
    network = networks[port.network_id]
    carries_tags = network.vlan_transparent or network.qinq
    return LocalNetwork(
        key, vlans[key], _uplink_of(key.network_type, key.physical_network, plugged), carries_tags, network.qinq
    )


def _uplink_of(network_type: str, physical_network: str, plugged: Plugged) -> int:
    """The ofport by which packets of a segment leave; NotWired if this host is not connected to it."""
    if network_type == "local":
        return 0
    if network_type in TUNNEL_TYPES:
        if not plugged.patch_tun:
            raise NotWired(f"this host has no tunnels for {network_type} networks")
        return plugged.patch_tun
    for uplink in plugged.uplinks:
        if uplink.physical_network == physical_network:
            return uplink.integration_ofport
    raise NotWired(f"no bridge is mapped to physical network {physical_network}")


# Cached, as every reconciliation calls it with the same arguments for all ports but the changed ones.
@cached(maxsize=2048)
def _local_port(
    port: state.Port,
    place: Place,
    network: LocalNetwork,
    held: tuple[state.SecurityGroup, ...],
    filters: bool,
    standby: bool,
) -> LocalPort:
    trusted = port.device_owner.startswith("network:")  # routers and DHCP servers: these devices are ours
    secured = port.port_security_enabled and not trusted
    sources = allowed_sources(port) if not trusted else frozenset()
    return LocalPort(
        id=port.id,
        ofport=place.ofport,
        vlan=network.vlan,
        mac=port.mac_address.lower(),
        device=place.device,
        shaped=place.shaped,
        secured=secured,
        # Without filters a secured port is like a hybrid one: no groups in flows, but the spoofing guard stays.
        hybrid=port.hybrid_plug or not filters,
        trusted=trusted,
        copy=port.copy,
        replicated=port.replicated,
        migrating=port.migrating,
        standby=standby,
        sources=sources if secured else frozenset(),
        addresses=frozenset(prefix for _, prefix in sources),
        rules=_rules_of(held) if secured else frozenset(),
        stateful=any(group.stateful for group in held),
        stateless=any(not group.stateful for group in held),
        sends_tags=network.carries_tags,
        tx_steering=port.tx_steering,
    )


def allowed_sources(port: state.Port) -> frozenset[tuple[str, str]]:
    """The (MAC, prefix) pairs that a port may send from, the link-local addresses of its MACs included."""
    mac = port.mac_address.lower()
    pairs = {(mac, str(ip_network(fixed.ip_address))) for fixed in port.fixed_ips}
    for pair in port.allowed_address_pairs:
        pairs.add((pair.mac_address.lower() or mac, str(ip_network(pair.ip_address, strict=False))))
    macs = {mac, *(address for address, _ in pairs)}
    return frozenset(pairs | {(address, f"{link_local(address)}/128") for address in macs})


@cached(maxsize=256)
def _rules_of(held: tuple[state.SecurityGroup, ...]) -> frozenset[EffectiveRule]:
    return frozenset(_effective(rule, group.stateful) for group in held for rule in group.rules)


def _effective(rule: state.Rule, stateful: bool) -> EffectiveRule:
    remote = None
    if rule.remote_group_id is not None:
        remote = f"group:{rule.remote_group_id}"
    elif rule.remote_address_group_id is not None:
        remote = f"addresses:{rule.remote_address_group_id}"
    family = 6 if rule.ethertype == "IPv6" else 4
    prefix = str(ip_network(rule.remote_ip_prefix, strict=False)) if rule.remote_ip_prefix else None
    match = rule.protocol, rule.port_min, rule.port_max
    return EffectiveRule(rule.direction, family, *match, prefix, remote, stateful)


def _remotes(ports: list[LocalPort], host_state: HostState) -> dict[str, frozenset[str]]:
    remotes: dict[str, frozenset[str]] = {}
    for name in {rule.remote for port in ports for rule in port.rules if rule.remote is not None}:
        kind, _, object_id = name.partition(":")
        if kind == "group":
            members = host_state.group_members.get(object_id)
            remotes[name] = frozenset(member.ip_address for member in members.members) if members else frozenset()
        else:
            group = host_state.address_groups.get(object_id)
            remotes[name] = frozenset(group.addresses) if group else frozenset()
    return remotes
