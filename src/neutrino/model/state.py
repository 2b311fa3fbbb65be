"""Objects of the feed: the desired state that the server sends and roles render into a dataplane.

Frozen values, the same on both sides and on the wire; names are the API's. A field that a later release adds has a default,
so that server and host may be one release apart.
"""

from typing import Annotated

import msgspec

from neutrino.model import fields, sriov
from neutrino.model.taps import Taps


def _is_route(value: tuple[str, str]) -> bool:
    return fields.is_prefix(value[0]) and fields.is_address(value[1])


class Object(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all kinds; an object is identified by its kind and id."""

    id: fields.Id
    revision: fields.Revision = 0


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: fields.Id
    network_type: fields.Word
    physical_network: Annotated[str | None, fields.optional(fields.is_word)] = None
    segmentation_id: Annotated[int | None, fields.within(0, 2**32 - 1)] = None


class Subnet(Object, frozen=True, kw_only=True, omit_defaults=True):
    network_id: fields.Id
    ip_version: fields.IpVersion
    cidr: fields.Prefix
    gateway_ip: fields.OptionalIp = None
    enable_dhcp: bool = True
    ipv6_ra_mode: fields.AddressMode = None
    ipv6_address_mode: fields.AddressMode = None
    dns_nameservers: fields.Ips = ()
    host_routes: Annotated[tuple[tuple[str, str], ...], fields.every(_is_route)] = ()  # destination, next hop
    segment_id: str = ""  # of a routed network: the subnet's addresses work on this segment alone


class Network(Object, frozen=True, kw_only=True, omit_defaults=True):
    name: str = ""
    project_id: str = ""
    mtu: fields.Mtu = 1500
    admin_state_up: bool = True
    external: bool = False
    # Either of them: it carries the VLAN tags of instances; with `qinq` its own tag is that of 802.1ad.
    vlan_transparent: bool = False
    qinq: bool = False
    qos_policy_id: str = ""
    segments: tuple[Segment, ...] = ()
    subnets: tuple[Subnet, ...] = ()


class FixedIp(msgspec.Struct, frozen=True):
    subnet_id: str
    ip_address: fields.Ip


class AddressPair(msgspec.Struct, frozen=True):
    mac_address: fields.MacOrEmpty
    ip_address: fields.Prefix  # an address or a CIDR


class LocalIp(msgspec.Struct, frozen=True):
    """An address that the port's host translates to the port's own (`translate`), or delivers to it (`passthrough`)."""

    local_ip_address: fields.Ip
    fixed_ip: fields.Ip
    ip_mode: Annotated[str, fields.one_of("translate", "passthrough")] = "translate"
    network_id: str = ""  # of the address: hosts apply it there only


class VirtualFunction(msgspec.Struct, frozen=True, omit_defaults=True):
    """The function of an SR-IOV card that a port is bound to, and what it may do."""

    pci_slot: Annotated[str, fields.optional(sriov.is_pci_slot)] = ""  # as 0000:3b:02.1; empty: the binding has none
    trusted: bool = False  # it may change its MAC and be promiscuous
    propagate_uplink_status: bool = True  # its link follows that of the card


class Port(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A port as a host that it is bound to gets it."""

    network_id: fields.Id
    mac_address: fields.Mac
    host: fields.WordOrEmpty
    active: bool = True  # False: the inactive binding of a live migration
    migrating: bool = False  # active here, while another host has an inactive binding
    segment_id: str = ""  # the segment of the binding
    admin_state_up: bool = True
    device_id: str = ""
    device_owner: str = ""
    fixed_ips: tuple[FixedIp, ...] = ()
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    port_security_enabled: bool = True
    security_groups: tuple[str, ...] = ()
    qos_policy_id: str = ""  # its own, not its network's: model/qos.py has the rule which of the two applies
    firewall_group_id: str = ""
    function: VirtualFunction | None = None  # of a port whose VIF type is hw_veb or hostdev_physical
    tx_steering: Annotated[str, fields.one_of("", "thread", "hash")] = ""  # the hint for Open vSwitch
    local_ips: tuple[LocalIp, ...] = ()
    taps: Taps | None = None
    vif_type: str = ""
    vnic_type: str = "normal"
    hybrid_plug: bool = False
    copy: bool = False  # a copy of another host's DHCP port, which serves the ports of this host alone
    distributed: bool = False  # of a distributed router: all its hosts have the port, with the same MAC
    replicated: bool = False  # of an HA router: all its hosts wire the port, the active one sends from it
    trunk_id: str = ""  # the trunk that it is the parent or a subport of
    trunk_vlan: Annotated[int, fields.within(0, 4094)] = (
        0  # of a subport's packets in the instance; 0: it is the parent
    )


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of a security group."""

    id: fields.WordOrEmpty
    direction: Annotated[str, fields.one_of("ingress", "egress")]
    ethertype: Annotated[str, fields.one_of("IPv4", "IPv6")]
    protocol: Annotated[int | None, fields.within(0, 255)] = None  # by number; None is any
    port_min: fields.OptionalL4Port = None  # or the ICMP type
    port_max: fields.OptionalL4Port = None  # or the ICMP code
    remote_ip_prefix: fields.OptionalPrefix = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None


class SecurityGroup(Object, frozen=True, kw_only=True, omit_defaults=True):
    project_id: str = ""
    stateful: bool = True
    rules: tuple[Rule, ...] = ()


class Member(msgspec.Struct, frozen=True):
    """An address of a port in a security group, with its MAC."""

    ip_address: fields.Prefix  # an address, or a CIDR of an allowed address pair
    mac_address: fields.MacOrEmpty


class GroupMembers(Object, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses of a remote security group; `id` is the group's. Large, so changes are sent as differences."""

    members: frozenset[Member] = frozenset()


class AddressGroup(Object, frozen=True, kw_only=True, omit_defaults=True):
    addresses: Annotated[frozenset[str], fields.every(fields.is_prefix)] = frozenset()


class Host(Object, frozen=True, kw_only=True, omit_defaults=True):
    """Tunnel endpoint: another host on a tunnelled network; `id` is its name."""

    tunneling_ip: fields.IpOrEmpty = ""
    tunnel_types: Annotated[tuple[str, ...], fields.every(fields.is_word)] = ()


class Forwarding(Object, frozen=True, kw_only=True, omit_defaults=True):
    """Forwarding entry: the host of a port on a tunnelled network; `id` is the port's."""

    network_id: fields.Id
    host: str
    mac_address: fields.Mac
    ip_addresses: fields.Ips = ()
    migrates_to: fields.WordOrEmpty = ""  # the target of its live migration, which gets a copy of each packet


class DvrMac(Object, frozen=True, kw_only=True, omit_defaults=True):
    """The source MAC of packets that distributed routers on a host have routed; `id` is the host's name."""

    mac_address: fields.Mac
