"""QoS policies as hosts get them: each with its rules, from one row."""

from collections.abc import Iterable, Iterator

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.tables import qos_policies
from neutrino.model import qos as m
from neutrino.model.kinds import KINDS
from neutrino.model.routing import Router
from neutrino.model.state import Network, Port
from neutrino.server.feed.declarations import Feed, Reference
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.readers.rows import Ids, read_rows

_POLICIES = sa.select(qos_policies.c.id, qos_policies.c.rules)


class _Rule(msgspec.Struct):
    """A rule as the policy's row has it: the parameters of its type, the others at these defaults."""

    type: str
    direction: str = "egress"
    max_kbps: int = 0
    max_burst_kbps: int = 0
    min_kbps: int = 0
    max_kpps: int = 0
    max_burst_kpps: int = 0
    dscp_mark: int | None = None


_rules = msgspec.json.Decoder(list[_Rule])


def read_policies(connection: Connection, ids: Ids) -> Iterator[tuple[str, m.QosPolicy]]:
    for row in read_rows(connection, _POLICIES, qos_policies.c.id, ids):
        yield row.id, policy(row.id, row.rules)


def policy(policy_id: str, rules: str) -> m.QosPolicy:
    """A policy as hosts get it; minimum packet rates are left out, because no host enforces them."""
    by_type: dict[str, list[_Rule]] = {}
    for rule in _rules.decode(rules):
        by_type.setdefault(rule.type, []).append(rule)
    marks = by_type.get("dscp_marking", ())
    return m.QosPolicy(
        id=policy_id,
        bandwidth_limits=tuple(
            m.BandwidthLimit(direction=each.direction, max_kbps=each.max_kbps, max_burst_kbps=each.max_burst_kbps)
            for each in by_type.get("bandwidth_limit", ())
        ),
        packet_rate_limits=tuple(
            m.PacketRateLimit(direction=each.direction, max_kpps=each.max_kpps, max_burst_kpps=each.max_burst_kpps)
            for each in by_type.get("packet_rate_limit", ())
        ),
        minimum_bandwidths=tuple(
            m.MinimumBandwidth(direction=each.direction, min_kbps=each.min_kbps)
            for each in by_type.get("minimum_bandwidth", ())
        ),
        dscp_mark=marks[0].dscp_mark if marks else None,
    )


def _of_holder(holder: Network | Port) -> Iterable[str]:
    return (holder.qos_policy_id,) if holder.qos_policy_id else ()


def policies_of_router(router: Router) -> Iterable[str]:
    floating = (floating_ip.qos_policy_id for floating_ip in router.floating_ips)
    forwarded = (port_forwarding.qos_policy_id for port_forwarding in router.port_forwardings)
    return filter(None, (router.gateway_qos_policy_id, *floating, *forwarded))


FEED = Feed(
    kinds=(ServedKind(KINDS["qos_policy"], SharedObjects, source="qos_policy", read=read_policies),),
    references=(
        Reference("qos_policy", "network", _of_holder),
        Reference("qos_policy", "port", _of_holder),
        Reference("qos_policy", "router", policies_of_router),
    ),
)
