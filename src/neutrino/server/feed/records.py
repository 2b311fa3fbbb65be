"""What the feed keeps of the database: by kind and id, what hosts may have to be told. Frozen, without I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from neutrino.model.state import AddressGroup, Forwarding, Host, Member, Network, Port, SecurityGroup

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
    credentials: bool = False  # whether some host's credential changed


def is_tunnelled(network: Network | None) -> bool:
    return network is not None and any(s.network_type in TUNNELS for s in network.segments)
