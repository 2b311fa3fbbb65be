"""QoS policies in a trace: limits drop packets only beyond their rate, so they are named and do not decide the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.feed import policies_of_router, policy
from neutrino.features.qos.tables import qos_policies
from neutrino.model.qos import EGRESS, INGRESS, QosPolicy, effective_policy_id
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.trace.feature_part import Reached, TracePart, Translator
from neutrino.server.trace.steps.parts import Part
from neutrino.server.trace.steps.walk import Subject, Walk
from neutrino.server.trace.values import Snapshot, TracedPort

_POLICIES = sa.select(qos_policies.c.id, qos_policies.c.name, qos_policies.c.project_id, qos_policies.c.rules)


@dataclass(frozen=True)
class TracedQos(TracePart):
    policies: Mapping[str, tuple[Subject, QosPolicy]] = field(default_factory=dict)

    def with_rules(self, connection: Connection, snapshot: Snapshot) -> "TracedQos":
        ids = {port.port.qos_policy_id for port in snapshot.ports.values() if not port.router_id}
        ids |= {network.qos_policy_id for network in snapshot.networks.values()}
        ids |= {key for router in snapshot.routers.values() for key in policies_of_router(router.router)}
        rows = read_rows(connection, _POLICIES, qos_policies.c.id, sorted(ids - {""}))
        return TracedQos(
            {
                row.id: (
                    Subject("qos_policy", row.id, row.name, row.project_id, "QoS policy"),
                    policy(row.id, row.rules),
                )
                for row in rows
            }
        )

    def sent_past_filters(self, walk: Walk, port: TracedPort) -> None:
        self._inform_of_port(walk, port, EGRESS)

    def received_by_port(self, walk: Walk, port: TracedPort) -> None:
        self._inform_of_port(walk, port, INGRESS)

    def translated_by_router(self, walk: Walk, part: Part, by: Translator, direction: str) -> None:
        policy_id = part.router.router.gateway_qos_policy_id if by is None else by.qos_policy_id
        self._inform(walk, policy_id, direction)

    def _inform_of_port(self, walk: Walk, port: TracedPort, direction: str) -> None:
        policy_id = effective_policy_id(port.port, walk.snapshot.networks.get(port.port.network_id))
        self._inform(walk, policy_id, direction)

    def _inform(self, walk: Walk, policy_id: str, direction: str) -> None:
        if policy_id not in self.policies:
            return
        subject, limiting = self.policies[policy_id]
        if limits := _limits(limiting, direction):
            walk.informs("qos", subject, f"{subject.title}: {', '.join(limits)}.")


def read_part(connection: Connection, reached: Reached) -> TracedQos:
    """Nothing yet: which policies there are depends on the ports."""
    return TracedQos()


def _limits(limiting: QosPolicy, direction: str) -> list[str]:
    found = [f"at most {e.max_kbps} kbit/s" for e in limiting.bandwidth_limits if e.direction == direction]
    found += [f"at most {e.max_kpps} kpacket/s" for e in limiting.packet_rate_limits if e.direction == direction]
    found += [f"at least {e.min_kbps} kbit/s" for e in limiting.minimum_bandwidths if e.direction == direction]
    if direction == EGRESS and limiting.dscp_mark is not None:
        found.append(f"DSCP mark {limiting.dscp_mark}")
    return found
