"""The `resource_request` of ports: what Nova asks Placement for, so that an instance gets a host with its minimum rates.

A port whose policy has minimum rules requests one group of resources for bandwidth and one for packets. The id of a group
is the same as long as port and rules are: Nova writes it into the binding profile, as the key of the allocation.
"""

import uuid
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.rule_checks import MINIMUM_BANDWIDTH, MINIMUM_PACKET_RATE
from neutrino.features.qos.tables import qos_policies
from neutrino.model.objects import Object, Values
from neutrino.model.qos import ANY, EGRESS, INGRESS
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode
from neutrino.server.placement import TUNNEL_TRAIT, physical_network_trait, vnic_type_trait

Rules = Sequence[Values]
NAME = "resource_request"
NEEDS = ("id", "network_id", "binding:vnic_type", "qos_policy_id", "qos_network_policy_id")
_RESOURCES = {
    MINIMUM_BANDWIDTH: {INGRESS: "NET_BW_IGR_KILOBIT_PER_SEC", EGRESS: "NET_BW_EGR_KILOBIT_PER_SEC"},
    MINIMUM_PACKET_RATE: {
        INGRESS: "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
        EGRESS: "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        ANY: "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    },
}
RESOURCES = frozenset(name for names in _RESOURCES.values() for name in names.values())
_AMOUNTS = {MINIMUM_BANDWIDTH: "min_kbps", MINIMUM_PACKET_RATE: "min_kpps"}
_RULES = sa.select(qos_policies.c.id, qos_policies.c.rules).where(
    qos_policies.c.id.in_(sa.bindparam("ids", expanding=True))
)
_SEGMENTS = (
    sa.select(t.network_segments.c.network_id, t.network_segments.c.physical_network)
    .where(t.network_segments.c.network_id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(t.network_segments.c.position.desc())  # the first segment last: it stays in the dictionary
)


def resource_request(port_id: str, vnic_type: str, rules: Rules, physical_network: str | None) -> Object | None:
    """The request of a port whose policy has these rules; `physical_network` of the network's first segment."""
    network = TUNNEL_TRAIT if physical_network is None else physical_network_trait(physical_network)
    vnic = vnic_type_trait(vnic_type)
    # Packets are counted by the switch of the host, whichever network they are on.
    required = {MINIMUM_BANDWIDTH: [network, vnic], MINIMUM_PACKET_RATE: [vnic]}
    groups = [
        {"id": group.id, "required": required[type_], "resources": group.resources}
        for type_, group in groups_of(port_id, rules).items()
    ]
    if not groups:
        return None
    return {"request_groups": groups, "same_subtree": [group["id"] for group in groups]}


class Group(NamedTuple):
    """What a port needs of one resource provider."""

    id: str
    resources: dict[str, int]


def groups_of(port_id: str, rules: Rules) -> dict[str, Group]:
    """The groups of a port's minimums by the type of their rules; bandwidth first."""
    found = {}
    for type_, amount in _AMOUNTS.items():
        minimums = [rule for rule in rules if rule["type"] == type_]
        if minimums:
            key = uuid.uuid5(uuid.UUID(port_id), ":".join(rule["id"] for rule in minimums))
            resources = {_RESOURCES[type_][rule["direction"]]: rule[amount] for rule in minimums}
            found[type_] = Group(str(key), resources)
    return found


# --- rows -------------------------------------------------------------------------------------------------------------


def complete(connection: Connection, ports: Sequence[Object]) -> None:
    """Give ports their request if that attribute was read; two queries for ports with policies among them, else none."""
    limited = [port for port in ports if NAME in port and _policy(port)] if NAME in ports[0] else []
    if not limited:
        return
    found = connection.execute(_RULES, {"ids": sorted({_policy(port) for port in limited})})
    rules = {row.id: decode(row.rules) for row in found if '"minimum_' in row.rules}
    placed = [port for port in limited if _policy(port) in rules]
    if not placed:
        return
    segments = connection.execute(_SEGMENTS, {"ids": sorted({port["network_id"] for port in placed})})
    physical = {row.network_id: row.physical_network for row in segments}
    for port in placed:
        about = port["id"], port["binding:vnic_type"], rules[_policy(port)], physical.get(port["network_id"])
        port[NAME] = resource_request(*about)


def _policy(port: Values) -> str:
    return port["qos_policy_id"] or port["qos_network_policy_id"] or ""
