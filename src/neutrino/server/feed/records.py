"""What the feed keeps of the database: by kind and id, what hosts may have to be told. Frozen, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import AddressGroup, DvrMac, Forwarding, Host, Member, Network, Port, SecurityGroup

TUNNELS = frozenset({"gre", "vxlan", "geneve"})


@dataclass(frozen=True, slots=True)
class PortRecord:
    """A port, as each of the hosts that it is bound to gets it, and as others hear of it."""

    id: str
    network_id: str
    bound: dict[str, Port] = field(default_factory=dict)  # by host
    forwarding: Forwarding | None = None  # where it is, if it can be reached through a tunnel
    groups: frozenset[str] = frozenset()
    members: frozenset[Member] = frozenset()  # the addresses that it brings to its groups
    dhcp: DhcpPort | None = None  # as hosts that serve DHCP or a router on its network get it


@dataclass(frozen=True, slots=True)
class DhcpAgent:
    host: str
    admin_state_up: bool = True
    distributed: bool = False  # it answers the ports of its host, wherever their network is scheduled


@dataclass(frozen=True, slots=True)
class DhcpRecord:
    """A network that is scheduled to DHCP agents, and to which."""

    network: DhcpNetwork
    agents: frozenset[str] = frozenset()  # by id

    def hosts(self, agents: Mapping[str, DhcpAgent | None]) -> frozenset[str]:
        """The hosts that serve it. An agent that is set down keeps its networks, but does not serve them."""
        known = (agents.get(key) for key in self.agents)
        return frozenset(agent.host for agent in known if agent is not None and agent.admin_state_up)


@dataclass(frozen=True, slots=True)
class RouterRecord:
    """A router, as each of the hosts that serve it gets it."""

    by_host: dict[str, Router]

    @property
    def is_distributed(self) -> bool:
        return any(router.distributed for router in self.by_host.values())

    def networks(self, host: str) -> frozenset[str]:
        """The networks behind the router: a host that serves it answers for their ports' metadata."""
        router = self.by_host.get(host)
        return frozenset(each.network_id for each in router.interfaces) if router is not None else frozenset()


@dataclass(frozen=True)
class GroupRecord:
    group: SecurityGroup

    @cached_property
    def remote_groups(self) -> frozenset[str]:
        return frozenset(r.remote_group_id for r in self.group.rules if r.remote_group_id is not None)

    @cached_property
    def address_groups(self) -> frozenset[str]:
        rules = self.group.rules
        return frozenset(r.remote_address_group_id for r in rules if r.remote_address_group_id is not None)


@dataclass
class Records:
    """Objects by id as the database has them; None: not there. A part of them, or all."""

    networks: dict[str, Network | None] = field(default_factory=dict)
    groups: dict[str, GroupRecord | None] = field(default_factory=dict)
    address_groups: dict[str, AddressGroup | None] = field(default_factory=dict)
    agents: dict[str, Host | None] = field(default_factory=dict)  # by the agent's id
    ports: dict[str, PortRecord | None] = field(default_factory=dict)
    dhcp: dict[str, DhcpRecord | None] = field(default_factory=dict)  # by the network's id
    dhcp_agents: dict[str, DhcpAgent | None] = field(default_factory=dict)
    routers: dict[str, RouterRecord | None] = field(default_factory=dict)
    dvr_macs: dict[str, DvrMac | None] = field(default_factory=dict)  # by the agent's id
    credentials: bool = False  # whether some host's credential changed


def is_tunnelled(network: Network | None) -> bool:
    return network is not None and any(s.network_type in TUNNELS for s in network.segments)
