"""DHCP of routed networks: each segment with DHCP subnets has agents of its own, on hosts of that segment.

A DHCP request does not leave its segment, so an agent serves the subnets of the segment that its host is on, and a network
needs `dhcp_agents_per_network` agents for each. A host whose switch has not reported yet may be on any segment.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Values
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, read, scalars
from neutrino.server.ml2.ports.host_subnets import SWITCHES, reached_segments
from neutrino.server.ml2.segments import read_segments
from neutrino.server.scheduling.placements import Candidate, choose, lacking

_SWITCHES = sa.select(t.agents.c.host, t.agents.c.configurations).where(
    t.agents.c.agent_type.in_(SWITCHES), t.agents.c.host.in_(sa.bindparam("hosts", expanding=True))
)
_other = t.subnets.alias().c  # an alias, so that SQLAlchemy does not correlate it with the outer statement
_DHCP_SEGMENTS = Lookup(
    sa.select(_other.segment_id).where(
        _other.network_id == sa.bindparam("network"), _other.enable_dhcp, _other.segment_id.is_not(None)
    ),
    scalars,
)


def agents_wanted(network_id: sa.ColumnElement[str], per_segment: int) -> sa.ColumnElement[int]:
    """How many agents a network should have, as a part of a statement on networks."""
    counted = sa.select(sa.func.count(sa.distinct(_other.segment_id)))  # 0 if it is not a routed one
    count = counted.where(_other.network_id == network_id, _other.enable_dhcp).scalar_subquery()
    return sa.case((count == 0, 1), else_=count) * per_segment


@dataclass(frozen=True)
class SegmentHosts:
    """The segments of a network that need DHCP agents, and the segment of each host."""

    segments: tuple[str, ...] = ()  # none: the network is not a routed one
    of_host: Mapping[str, str | None] = field(default_factory=dict)  # None: on none or several; missing: unknown

    @property
    def is_routed(self) -> bool:
        return bool(self.segments)

    def groups(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """The agents that can serve each segment, or all of them for a network that is not routed."""
        if not self.segments:
            return [list(candidates)]
        return [[c for c in candidates if self.of_host.get(c.host, segment) == segment] for segment in self.segments]

    def lacking(self, candidates: Sequence[Candidate], wanted: int, hosted: Collection[str]) -> int:
        return sum(lacking(group, wanted, hosted) for group in self.groups(candidates))

    def choose(
        self, candidates: Sequence[Candidate], wanted: int, hints: Sequence[str], hosted: Collection[str]
    ) -> list[str]:
        """The agents to add, so that each segment has as many as wanted; `placements.choose` for each."""
        chosen: list[str] = []
        for group in self.groups(candidates):
            chosen += choose(group, wanted, hints, [*hosted, *chosen])
        return chosen

    def unknown(self, candidates: Sequence[Candidate]) -> set[str]:
        """Agents on hosts whose segment is not known yet: of a routed network they are the last choice."""
        return {c.id for c in candidates if c.host not in self.of_host} if self.segments else set()

    def subnets_of(self, subnets: Sequence[Values], host: str) -> list[Values]:
        """The subnets that an agent on the host serves."""
        if not self.segments:
            return list(subnets)
        here = self.of_host.get(host)
        return [subnet for subnet in subnets if here is not None and subnet["segment_id"] == here]


NOT_ROUTED = SegmentHosts()


def has_dhcp_segments(connection: Connection, network_id: str) -> bool:
    return bool(read(connection, _DHCP_SEGMENTS(network=network_id)))


def read_segment_hosts(connection: Connection, network_id: str, hosts: Collection[str]) -> SegmentHosts:
    segments = read(connection, _DHCP_SEGMENTS(network=network_id))
    return segment_hosts(connection, network_id, {s for s in segments if s is not None}, hosts)


def segment_hosts(
    connection: Connection, network_id: str, segments: Collection[str], hosts: Collection[str]
) -> SegmentHosts:
    """`segments`: those that need DHCP."""
    if not segments:
        return NOT_ROUTED
    known = read_segments(connection, [network_id])[network_id]
    reports: defaultdict[str, list[Values]] = defaultdict(list)
    for host, configurations in connection.execute(_SWITCHES, {"hosts": sorted(hosts)}):
        reports[host].append(msgspec.json.decode(configurations))
    of_host: dict[str, str | None] = {}
    for host, configurations in reports.items():
        reached = reached_segments(known, configurations).intersection(segments)
        of_host[host] = next(iter(reached)) if len(reached) == 1 else None
    return SegmentHosts(tuple(sorted(segments)), of_host)
