"""Records: the objects that the feed process holds in memory, as readers take them from the database. Frozen."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from neutrino.model.dhcp import OWNER, DhcpNetwork, DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import DvrMac, Forwarding, Host, Member, Network, Port

RouterRecord = dict[str, Router]  # host → the router as that host gets it
TUNNEL_TYPES = frozenset({"gre", "vxlan", "geneve"})
# By source (the kind of the change-log rows that name a record) and id; None: the object is not in the database.
Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PortRecord:
    """A port in the form that each kind of recipient gets."""

    id: str
    network_id: str
    bound: dict[str, Port] = field(default_factory=dict)  # host → the port as that host gets it
    forwarding: Forwarding | None = None  # only for a port that is reached through a tunnel
    groups: frozenset[str] = frozenset()
    members: Collection[Member] = ()  # the addresses that it adds to its security groups, each once
    dhcp: DhcpPort | None = None  # for hosts that serve DHCP or a router on its network

    @property
    def is_dhcp_server(self) -> bool:
        """Whether it is the port of a DHCP server, not of a client."""
        return self.dhcp is not None and self.dhcp.device_owner == OWNER


def migrating(record: PortRecord, hosts: Collection[str]) -> PortRecord:
    """During a live migration: the source knows of it, and other hosts send to the target too, if it is one of these."""
    if len(record.bound) < 2:
        return record
    target = next((port.host for port in record.bound.values() if not port.active and port.host in hosts), None)
    active = next((port for port in record.bound.values() if port.active), None)
    if target is None or active is None:
        return record
    bound = record.bound | {active.host: msgspec.structs.replace(active, migrating=True)}
    entry = record.forwarding and msgspec.structs.replace(record.forwarding, migrates_to=target)
    return replace(record, bound=bound, forwarding=entry)


@dataclass(frozen=True, slots=True)
class NetworkRecord:
    network: Network
    dhcp: DhcpNetwork | None = None  # None: scheduled to no DHCP agent
    dhcp_agents: frozenset[str] = frozenset()  # ids of the agents it is scheduled to


@dataclass(frozen=True, slots=True)
class DhcpAgent:
    host: str
    admin_state_up: bool = True
    distributed: bool = False  # it serves the ports of its host, whichever agent their network is scheduled to


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The parts of an agent that other hosts depend on; which are set depends on the agent's type."""

    host: Host | None = None  # tunnel endpoint; None also for a host without a tunnel address
    dvr_mac: DvrMac | None = None
    dhcp: DhcpAgent | None = None
