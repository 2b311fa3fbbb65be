"""Packet traces: the packet, the question to a host, the answer of its dataplane, verdicts and causes.

A trace follows one packet. The server computes the path from its data; each host on the path answers what its dataplane
would do with the packet now. Both sides use these values, so that their answers can be compared.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from neutrino.model import fields

QUERY: Final = "trace"  # kind of the query to a host


class Verdict(StrEnum):
    DELIVERED = "delivered"
    DROPPED = "dropped"
    UNKNOWN = "unknown"  # a host on the path does not answer, and the server's data does not decide it


class Cause(StrEnum):
    """Why a packet is dropped, or why that is unknown. Part of the API: values are never renamed."""

    NONE = ""
    # the sending and the receiving port
    PORT_ADMIN_DOWN = "port-admin-down"
    NETWORK_ADMIN_DOWN = "network-admin-down"
    PORT_UNBOUND = "port-unbound"
    BINDING_FAILED = "binding-failed"
    PORT_NOT_WIRED = "port-not-wired"  # bound, and the host has not wired it
    NO_DEVICE = "no-device"  # the switch of the host has no device of the port
    ADDRESS_SPOOFED = "address-spoofed"  # source MAC or IP address not allowed on the port
    DHCP_SERVER_GUARD = "dhcp-server-guard"  # an instance sends DHCP replies
    RA_GUARD = "ra-guard"  # an instance sends router advertisements
    SECURITY_GROUP_EGRESS = "security-group-egress"  # no rule allows it
    SECURITY_GROUP_INGRESS = "security-group-ingress"
    FIREWALL_GROUP = "firewall-group"  # of an instance port or a router
    PACKET_TOO_BIG = "packet-too-big"
    NO_LOCAL_IP = "no-local-ip"  # a local IP, and the sender's host has no port that is associated with it
    # switching
    NO_SUCH_ADDRESS = "no-such-address"  # no port of the network has the address
    NO_TUNNEL = "no-tunnel"  # no tunnel from one host to the other
    NO_PHYSICAL_NETWORK = "no-physical-network"  # the host has no bridge for it
    NETWORK_LOCAL = "network-local"  # of type local: its packets do not leave their host
    LINK_DOWN = "link-down"  # a device on the way is down or has no carrier
    NO_NEIGHBOUR = (
        "no-neighbour"  # a machine of an external network that does not answer ARP or neighbour solicitations
    )
    # routing
    NO_ROUTER = "no-router"  # no gateway in the source's subnet leads there
    NO_ROUTE = "no-route"
    ROUTER_ADMIN_DOWN = "router-admin-down"
    ROUTER_NOT_SCHEDULED = "router-not-scheduled"  # no L3 agent serves it
    ROUTER_NOT_ACTIVE = "router-not-active"  # HA: no host is active
    ADDRESS_SCOPE = "address-scope"
    NO_FLOATING_IP = "no-floating-ip"  # from outside, and no floating IP or port forwarding leads to the port
    FLOATING_IP_DOWN = "floating-ip-down"
    NO_NDP_PROXY = "no-ndp-proxy"  # from outside to a router with NDP proxies, and none is for the address
    VPN_DOWN = "vpn-down"  # to a subnet of a VPN connection that has no tunnel: it is not sent in clear
    TTL_EXPIRED = "ttl-expired"  # a routing loop
    NOT_REACHED = "not-reached"  # it leaves to the outside, or reaches another port that has the same address
    # what nobody here knows: the verdict is unknown
    NEXT_HOP = "next-hop"  # an instance has to forward it
    NO_ROUTE_BACK = "no-route-back"  # the source is not translated, and the outside may have no route to it
    # hosts
    HOST_DOWN = "host-down"  # its agents do not report
    DATAPLANE_DOWN = "dataplane-down"  # its agent reports that Open vSwitch is down
    HOST_TIMEOUT = "host-timeout"  # no answer in time
    DRIFT = "drift"  # the dataplane drops it without a cause that the desired state knows
    LAG = "lag"  # the host has not applied the newest changes
    OTHER = "other"


class Packet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A packet at one point of its way."""

    eth_src: fields.Mac
    eth_dst: fields.Mac
    source: fields.Ip
    destination: fields.Ip
    protocol: Annotated[int, fields.within(0, 255)]  # number of the IP protocol
    source_port: fields.L4Port = 0
    destination_port: fields.L4Port = 0  # of ICMP: the type
    icmp_code: Annotated[int, fields.within(0, 255)] = 0
    ttl: Annotated[int, fields.within(0, 255)] = 64
    size: fields.Mtu = 84  # bytes of the IP packet
    reply: bool = False  # belongs to a connection that the other side opened


class PointKind(StrEnum):
    PORT = "port"
    TUNNEL = "tunnel"
    PHYSICAL = "physical"


class Point(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a packet enters or leaves a host: at a port, by a tunnel from or to a peer, or by a physical network."""

    kind: PointKind
    port_id: fields.WordOrEmpty = ""
    peer: fields.IpOrEmpty = ""  # tunnel address of the other host
    network_type: str = ""  # of a tunnel
    physical_network: str = ""
    segmentation_id: Annotated[int | None, fields.within(0, 2**32 - 1)] = None  # VNI, or VLAN id; None: untagged


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a host is asked: a packet that enters it here."""

    point: Point
    packet: Packet
    flows: bool = False  # answer with the texts of flows and rules


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that the dataplane does with the packet, in order."""

    source: str  # "openflow", "route", "neighbour", "nft", "iptables", "conntrack", "device"
    where: str  # bridge or namespace
    effect: str  # what happens: "forward", "drop", "nat", "meter", "output" …
    owner_kind: str = ""  # the object of the API for which the flow or rule exists, if known
    owner_id: str = ""
    table: Annotated[int | None, fields.within(0, 255)] = None  # of a flow
    text: str = ""  # the flow or rule; only if asked for
    note: str = ""  # in words, for people


class Exit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the packet, or one copy of it, ends on a host: it leaves at a point, or is dropped for a cause."""

    packet: Packet
    point: Point | None = None  # None: dropped, or consumed by the host
    cause: Cause = Cause.NONE
    note: str = ""
    at: Annotated[int, fields.within(0, 2**31)] = 0  # number of observations before it


class HostAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the dataplane of a host does with a packet now."""

    observations: tuple[Observation, ...] = ()
    exits: tuple[Exit, ...] = ()
    position: fields.Revision = 0  # of the change log, that the host has applied
    drift: tuple[str, ...] = ()  # differences from the desired state of objects on the way, as planned changes
    problems: dict[str, str] = msgspec.field(default_factory=dict)  # objects that the host could not apply
