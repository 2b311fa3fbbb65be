"""What should be wired on this host: the state from the server met with what is plugged here.

The server says what a port is; the bridge says under which number it is plugged. Neither alone makes a flow. `resolve`
puts the two together into values that the renderers take, one per port and one per network, and names for every port
that cannot be wired the reason why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property, lru_cache
from ipaddress import ip_network
from types import MappingProxyType
from typing import TypeVar

from neutrino.agent.l2.distributed import Distributed, resolve_distributed
from neutrino.agent.l2.local_vlans import Allocation, SegmentKey
from neutrino.dataplane.openflow.api import DatapathFeatures
from neutrino.model import state
from neutrino.model.link_local import link_local

TUNNEL_TYPES = ("gre", "vxlan", "geneve")
_T = TypeVar("_T")


def _none() -> Mapping[str, _T]:
    return MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class HostState:
    """What the server has told this host, by id."""

    networks: Mapping[str, state.Network] = dataclasses.field(default_factory=_none)
    ports: Mapping[str, state.Port] = dataclasses.field(default_factory=_none)
    security_groups: Mapping[str, state.SecurityGroup] = dataclasses.field(default_factory=_none)
    group_members: Mapping[str, state.GroupMembers] = dataclasses.field(default_factory=_none)
    address_groups: Mapping[str, state.AddressGroup] = dataclasses.field(default_factory=_none)
    hosts: Mapping[str, state.Host] = dataclasses.field(default_factory=_none)
    forwarding: Mapping[str, state.Forwarding] = dataclasses.field(default_factory=_none)
    dvr_macs: Mapping[str, state.DvrMac] = dataclasses.field(default_factory=_none)


@dataclasses.dataclass(frozen=True)
class Uplink:
    """A physical network: its bridge, and the two ends of the patch between that and the integration bridge."""

    physical_network: str
    bridge: str
    integration_ofport: int
    physical_ofport: int


@dataclasses.dataclass(frozen=True)
class TunnelPort:
    """A tunnel to another host."""

    ofport: int
    network_type: str
    host: str


@dataclasses.dataclass(frozen=True)
class Plugged:
    """What is plugged, by OpenFlow port number, and what the switch can do; a port not there, or not ready, is missing."""

    ports: Mapping[str, int] = dataclasses.field(default_factory=_none)
    uplinks: tuple[Uplink, ...] = ()
    patch_tun: int = 0  # on the integration bridge; 0 where there are no tunnels
    patch_int: int = 0  # on the tunnel bridge
    tunnels: tuple[TunnelPort, ...] = ()
    features: DatapathFeatures = dataclasses.field(default_factory=DatapathFeatures)


@dataclasses.dataclass(frozen=True)
class FlowOptions:
    integration_bridge: str = "br-int"
    tunnel_bridge: str = "br-tun"
    l2_population: bool = True
    arp_responder: bool = True
    filters: bool = True  # False: no port's security groups are applied, in flows or on bridges
    permitted_ethertypes: tuple[int, ...] = ()
    host: str = ""
    distributed: bool = False  # this host takes part in distributed routers


@dataclasses.dataclass(frozen=True)
class LocalNetwork:
    """A segment that has ports here, and how it leaves the integration bridge."""

    key: SegmentKey
    vlan: int
    uplink: int = 0  # ofport on the integration bridge; 0: nowhere


@dataclasses.dataclass(frozen=True)
class EffectiveRule:
    """A rule that holds for a port, without the names of rule and group: two groups saying the same say it once."""

    direction: str
    family: int
    protocol: int | None
    port_min: int | None
    port_max: int | None
    prefix: str | None
    remote: str | None  # "group:<id>" or "addresses:<id>"
    stateful: bool

    def order(self) -> str:
        return repr(self)


@dataclasses.dataclass(frozen=True)
class LocalPort:
    """A port that is plugged here."""

    id: str
    ofport: int
    vlan: int  # DEAD_VLAN where it must not talk
    mac: str = ""
    secured: bool = False
    hybrid: bool = False  # filtered on a Linux bridge of its own, before it comes here
    trusted: bool = False  # one of ours, such as a router's: it uses only its own MAC
    copy: bool = False  # a DHCP port of another host: it is for the ports here alone
    replicated: bool = False  # the same port is on other hosts too: whether its MAC is here is learned from packets
    sources: frozenset[tuple[str, str]] = frozenset()  # (MAC, prefix) that it may send from
    rules: frozenset[EffectiveRule] = frozenset()
    stateful: bool = True  # whether any of its groups follows connections

    @property
    def filtered(self) -> bool:
        """Whether the integration bridge itself applies the security groups."""
        return self.secured and not self.hybrid

    @property
    def harbours(self) -> bool:
        """Whether only packets show what is behind it: machines with MACs of their own, or the active router or not."""
        return self.replicated or (not self.secured and not self.trusted)

    @cached_property
    def macs(self) -> frozenset[str]:
        return frozenset({self.mac, *(mac for mac, _ in self.sources)})

    @cached_property
    def ruleless(self) -> LocalPort:
        """What a network's delivery needs of a port, so that a change of its rules does not come there."""
        return dataclasses.replace(self, rules=frozenset())


@dataclasses.dataclass(frozen=True)
class Desired:
    options: FlowOptions
    plugged: Plugged
    networks: tuple[LocalNetwork, ...]
    ports: tuple[LocalPort, ...]
    dead: tuple[int, ...]  # ofports that are plugged and must not talk
    remotes: Mapping[str, frozenset[str]]  # addresses by remote, for the remotes that rules name
    hosts: Mapping[str, state.Host]
    forwarding: tuple[state.Forwarding, ...]
    problems: Mapping[str, str]  # port, to why it is not wired
    distributed: Distributed | None = None  # where this host takes part in distributed routers


def segment_of(port: state.Port, networks: Mapping[str, state.Network]) -> SegmentKey | None:
    """The segment that a port's binding is on; without one said, the network's only one."""
    network = networks.get(port.network_id)
    if network is None:
        return None
    for segment in network.segments:
        if segment.id == port.segment_id or (not port.segment_id and len(network.segments) == 1):
            return SegmentKey(
                network_id=network.id,
                network_type=segment.network_type,
                physical_network=segment.physical_network or "",
                segmentation_id=segment.segmentation_id or 0,
            )
    return None


def wanted_segments(host_state: HostState, plugged: Plugged) -> frozenset[SegmentKey]:
    """The segments that need a local VLAN here."""
    networks = host_state.networks
    present = (port for port in host_state.ports.values() if port.id in plugged.ports)
    keys = (segment_of(port, networks) for port in present if why_silent(port, networks) is None)
    return frozenset(key for key in keys if key is not None)


def resolve(host_state: HostState, plugged: Plugged, vlans: Allocation, options: FlowOptions) -> Desired:
    problems: dict[str, str] = {}
    ports: list[LocalPort] = []
    networks: dict[SegmentKey, LocalNetwork] = {}
    groups = host_state.security_groups
    for port_id, port in sorted(host_state.ports.items()):
        if port_id not in plugged.ports:
            continue
        key = segment_of(port, host_state.networks)
        network = _network(key, plugged, vlans)
        reason = why_silent(port, host_state.networks) or (network if isinstance(network, str) else None)
        if reason is not None:
            problems[port_id] = reason
        elif key is not None and isinstance(network, LocalNetwork):
            networks[key] = network
            held = tuple(groups[group_id] for group_id in port.security_groups if group_id in groups)
            try:
                ports.append(_local_port(port, plugged.ports[port_id], network.vlan, held, options))
            except ValueError as error:  # of this port alone
                problems[port_id] = str(error)
    live = {port.ofport for port in ports}
    present = {key.network_id for key in networks}
    return Desired(
        options=options,
        plugged=plugged,
        networks=tuple(networks[key] for key in sorted(networks)),
        ports=tuple(ports),
        dead=tuple(sorted({*plugged.ports.values()} - live)),
        remotes=_remotes(ports, host_state),
        hosts=dict(host_state.hosts),
        forwarding=tuple(entry for _, entry in sorted(host_state.forwarding.items()) if entry.network_id in present),
        problems=problems,
        distributed=resolve_distributed(
            options.host, host_state.dvr_macs, host_state.ports, {port.id: port.vlan for port in ports}
        )
        if options.distributed
        else None,
    )


def why_silent(port: state.Port, networks: Mapping[str, state.Network]) -> str | None:
    """Why a port must not talk, whatever is plugged."""
    if not port.admin_state_up:
        return "its admin state is down"
    if not port.active:
        return "its binding to this host is not active"
    network = networks.get(port.network_id)
    if network is not None and not network.admin_state_up:
        return "its network's admin state is down"
    return None


def _network(key: SegmentKey | None, plugged: Plugged, vlans: Allocation) -> LocalNetwork | str:
    """The network of a port, or why the port cannot have it."""
    if key is None:
        return "its segment is not known here"
    if key in vlans.exhausted or key not in vlans.vlans:
        return "no local VLAN is left for its network"
    vlan = vlans.vlans[key]
    if key.network_type in TUNNEL_TYPES:
        if not plugged.patch_tun:
            return f"this host has no tunnels for {key.network_type} networks"
        return LocalNetwork(key, vlan, plugged.patch_tun)
    if key.network_type == "local":
        return LocalNetwork(key, vlan)
    for uplink in plugged.uplinks:
        if uplink.physical_network == key.physical_network:
            return LocalNetwork(key, vlan, uplink.integration_ofport)
    return f"no bridge is mapped to physical network {key.physical_network}"


# These are asked anew in every round, with the same arguments for all ports but those that have changed.


@lru_cache(maxsize=2048)
def _local_port(
    port: state.Port, ofport: int, vlan: int, held: tuple[state.SecurityGroup, ...], options: FlowOptions
) -> LocalPort:
    trusted = port.device_owner.startswith("network:")
    secured = port.port_security_enabled and not trusted
    return LocalPort(
        id=port.id,
        ofport=ofport,
        vlan=vlan,
        mac=port.mac_address.lower(),
        secured=secured,
        hybrid=port.hybrid_plug or not options.filters,
        trusted=trusted,
        copy=port.copy,
        replicated=port.replicated,
        sources=allowed_sources(port) if secured else frozenset(),
        rules=_rules_of(held) if secured else frozenset(),
        stateful=any(group.stateful for group in held),
    )


@lru_cache(maxsize=2048)
def allowed_sources(port: state.Port) -> frozenset[tuple[str, str]]:
    """The (MAC, prefix) pairs that a port may send from, the link-local addresses of its MACs included."""
    mac = port.mac_address.lower()
    pairs = {(mac, str(ip_network(fixed.ip_address))) for fixed in port.fixed_ips}
    for pair in port.allowed_address_pairs:
        pairs.add((pair.mac_address.lower() or mac, str(ip_network(pair.ip_address, strict=False))))
    macs = {mac, *(address for address, _ in pairs)}
    return frozenset(pairs | {(address, f"{link_local(address)}/128") for address in macs})


@lru_cache(maxsize=256)
def _rules_of(held: tuple[state.SecurityGroup, ...]) -> frozenset[EffectiveRule]:
    return frozenset(_effective(rule, group.stateful) for group in held for rule in group.rules)


def _effective(rule: state.Rule, stateful: bool) -> EffectiveRule:
    remote = None
    if rule.remote_group_id is not None:
        remote = f"group:{rule.remote_group_id}"
    elif rule.remote_address_group_id is not None:
        remote = f"addresses:{rule.remote_address_group_id}"
    prefix = str(ip_network(rule.remote_ip_prefix, strict=False)) if rule.remote_ip_prefix else None
    return EffectiveRule(
        direction=rule.direction,
        family=6 if rule.ethertype == "IPv6" else 4,
        protocol=rule.protocol,
        port_min=rule.port_min,
        port_max=rule.port_max,
        prefix=prefix,
        remote=remote,
        stateful=stateful,
    )


def _remotes(ports: list[LocalPort], host_state: HostState) -> dict[str, frozenset[str]]:
    named = {rule.remote for port in ports for rule in port.rules if rule.remote is not None}
    remotes: dict[str, frozenset[str]] = {}
    for name in named:
        kind, _, object_id = name.partition(":")
        if kind == "group":
            members = host_state.group_members.get(object_id)
            addresses = {member.ip_address for member in members.members} if members else set()
        else:
            group = host_state.address_groups.get(object_id)
            addresses = set(group.addresses) if group else set()
        remotes[name] = frozenset(addresses)
    return remotes
