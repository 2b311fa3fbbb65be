"""Values of the server's part of a trace: the objects that it needs, as frozen values, and the path that follows from them.

A `Snapshot` is what `snapshot.py` reads for one trace. A `Path` is what `path.py` computes from it. No I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from neutrino.model.routing import Router, RouterInterface
from neutrino.model.state import Member, Network, Port, SecurityGroup
from neutrino.model.trace import Cause, Packet, Point, Verdict
from neutrino.server.ml2.driver_api import VIF_HW, VIF_UNBOUND
from neutrino.server.trace.feature_part import TracePart

# --- the objects that a trace needs -----------------------------------------------------------------------------------


class Named(msgspec.Struct, frozen=True):
    """Name and project of an object that hosts get without them."""

    name: str = ""
    project_id: str = ""


class TracedPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port with the binding that is active, also if it is bound to no host."""

    port: Port
    name: str = ""
    project_id: str = ""
    status: str = "ACTIVE"
    blocks: frozenset[str] = frozenset()  # components that it waits for
    router_id: str = ""  # of a router's port

    @property
    def id(self) -> str:
        return self.port.id

    @property
    def trusted(self) -> bool:
        """Ports of routers and DHCP servers are not filtered on the switch."""
        return self.port.device_owner.startswith("network:")

    @property
    def switched(self) -> bool:
        """Whether it is on Open vSwitch: a virtual function of a network card is not."""
        return self.port.vif_type != VIF_HW

    @property
    def bound(self) -> bool:
        return bool(self.port.host) and self.port.vif_type != VIF_UNBOUND

    @property
    def unfiltered(self) -> str:
        """Why the switch does not filter it; empty if it does."""
        if self.trusted:
            return "it is a port of a router or DHCP server"
        if not self.switched:
            return "it is not on Open vSwitch"
        return "" if self.port.port_security_enabled else "port security is off"


class Placement(msgspec.Struct, frozen=True):
    """An L3 agent that a router is scheduled to."""

    host: str
    ha_state: str | None = None


class TracedRouter(msgspec.Struct, frozen=True, kw_only=True):
    """A router, scheduled or not."""

    router: Router
    is_ha: bool = False
    placements: tuple[Placement, ...] = ()
    disabled_hosts: tuple[str, ...] = ()  # that it is scheduled to, and whose L3 agents are disabled
    local_hosts: frozenset[str] = frozenset()  # of a distributed router: hosts with ports on its subnets
    agent_gateways: Mapping[str, RouterInterface] = msgspec.field(default_factory=dict)  # by host

    @property
    def id(self) -> str:
        return self.router.id


class TracedFloatingIp(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    project_id: str = ""
    floating_network_id: str
    floating_ip_address: str
    router_id: str = ""
    port_id: str = ""
    fixed_ip_address: str = ""
    status: str = "ACTIVE"


class TracedForwarding(NamedTuple):
    """A port forwarding; the router has the rest of it."""

    floating_ip_id: str
    internal_ip_address: str


class TracedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host by what its agents have reported."""

    name: str
    alive: bool = True  # its L2 agent reports
    l3_alive: bool = True
    l3_disabled: bool = False  # admin_state_up of its L3 agent is false
    last_report: str = ""
    tunneling_ip: str = ""
    tunnel_types: tuple[str, ...] = ()
    physical_networks: tuple[str, ...] = ()
    agent_mode: str = ""  # of its L3 agent
    dataplane: str = "up"
    behind: int = 0  # changes that it has not applied yet


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The objects of one trace, by id."""

    ports: Mapping[str, TracedPort] = field(default_factory=dict)
    networks: Mapping[str, Network] = field(default_factory=dict)
    security_groups: Mapping[str, SecurityGroup] = field(default_factory=dict)
    members: Mapping[str, frozenset[Member]] = field(default_factory=dict)  # of remote groups
    routers: Mapping[str, TracedRouter] = field(default_factory=dict)
    floating_ips: Mapping[str, TracedFloatingIp] = field(default_factory=dict)
    forwardings: Mapping[str, TracedForwarding] = field(default_factory=dict)
    parts: tuple[TracePart, ...] = ()  # of features
    hosts: Mapping[str, TracedHost] = field(default_factory=dict)
    named: Mapping[str, Named] = field(default_factory=dict)  # of objects whose values have no name

    def name(self, object_id: str) -> Named:
        return self.named.get(object_id, Named())


# --- the path ---------------------------------------------------------------------------------------------------------

PASS: Final = "pass"  # noqa: S105
DROP: Final = "drop"
CHANGE: Final = "change"
INFO: Final = "info"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happens to the packet, by the object of the API that decides it.

    Members see neither hosts nor segments: a text that names them has a public one with it.
    """

    kind: str
    result: str
    text: str
    public: str = ""  # the text for members, if the other one names hosts or segments
    host: str = ""
    resource_type: str = ""
    resource_id: str = ""
    resource_name: str = ""
    project_id: str = ""  # of the object: members see steps of other projects reduced
    packet: Packet | None = None
    cause: Cause = Cause.NONE
    flows: tuple[str, ...] = ()
    hides: bool = False  # of another project: from here on the packet has addresses that are not the caller's to see


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """A host that the packet passes, with the points where it enters and leaves."""

    host: str
    packet: Packet
    entry: Point | None = None
    exit: Point | None = None
    resumes: bool = False  # it comes out of a tunnel here that hosts do not show: the packet is asked about anew


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What a router has translated: replies are translated back by the same router."""

    router_id: str
    part: str  # "router" or "snat": the namespace
    kind: str  # "dnat" or "snat"
    before: Packet
    after: Packet
    resource_type: str
    resource_id: str
    resource_name: str = ""
    project_id: str = ""


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection's first packet has left behind: what its replies depend on."""

    tracked: frozenset[str] = frozenset()  # ports whose stateful security groups track the connection
    allowed: frozenset[tuple[str, str]] = frozenset()  # filters of features that track it: kind of step, and port
    translations: tuple[Translation, ...] = ()
    sender_id: str = ""  # the port that has sent it: of several that may have its source, the one that gets the reply


NOTHING: Final = Passed()


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """A packet's way by the server's data."""

    steps: tuple[Step, ...]
    verdict: Verdict
    cause: Cause = Cause.NONE
    doubts: tuple[Cause, ...] = ()  # what leaves the verdict open
    packet: Packet  # as it arrives, or as it was dropped
    hops: tuple[Hop, ...] = ()
    end_port_id: str = ""  # the port that it is delivered to; empty: outside, or a router itself
    end_network_id: str = ""  # the network at whose outside it ends
    end_router_id: str = ""  # a router that answers itself
    passed: Passed = NOTHING
