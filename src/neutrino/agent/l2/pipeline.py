"""The OpenFlow tables of the three kinds of bridges, as data.

The numbers are those that operators of OpenStack know from their bridges; code and tests say the names. A table lists
where a packet may go from it, and a flow that goes elsewhere cannot be rendered. Since every table sends packets on to
higher numbers only, or to itself after conntrack, no packet goes round in circles.

Registers on the integration bridge: REG_PORT holds the ofport that the packet is judged for (its sender up to
ACCEPT_OR_INGRESS, its receiver after), REG_NET the local VLAN, which is also the conntrack zone, REG_TRACKED whether the
sender's firewall follows the connection, REG_GUARDED whether a fragment has been looked at as the whole that it is of.
"""

from __future__ import annotations

import dataclasses
import enum

from neutrino.dataplane.openflow.api import Flow, flow

REG_PORT = "reg5"
REG_NET = "reg6"
REG_TRACKED = "reg7"
REG_GUARDED = "reg8"
ZONE = "zone=NXM_NX_REG6[0..15]"
OUTPUT_TO_PORT = "output:NXM_NX_REG5[]"
DEAD_VLAN = 4095
MARK_INVALID = 1  # ct_mark of a connection that no rule allows any more


class Bridge(enum.Enum):
    INTEGRATION = "integration"
    TUNNEL = "tunnel"
    PHYSICAL = "physical"


class Stage(enum.Enum):
    """What tables are for, in a packet's order."""

    ENTRY = "entry"
    ROUTED = "routed on one of many hosts"
    HEALTH = "health"
    SPOOFING = "spoofing"
    SWITCHING = "switching"
    EGRESS = "egress firewall"
    INGRESS = "ingress firewall"
    VERDICT = "verdict"
    TRANSLATION = "translation"
    FORWARDING = "forwarding"


class PipelineError(Exception):
    """A flow would send packets where its table may not."""


@dataclasses.dataclass(frozen=True)
class Table:
    bridge: Bridge
    name: str
    number: int
    stage: Stage
    miss: str  # the name of the next table, or actions: drop, NORMAL, output
    next: tuple[str, ...] = ()

    def flow(self, priority: int, match: str, *actions: str, then: Table | None = None) -> Flow:
        """A flow of this table that ends in `then`, or where its actions leave the packet."""
        parts = [*actions, self.goto(then)] if then is not None else [*actions]
        return flow(self.number, priority, match, ",".join(parts))

    def goto(self, target: Table) -> str:
        self._check(target)
        return f"resubmit(,{target.number})"

    def track(self, target: Table) -> str:
        """Ask conntrack, and go on in a table that sees the answer."""
        self._check(target)
        return f"ct(table={target.number},{ZONE})"

    def miss_flow(self) -> Flow:
        onward = _BY_NAME.get((self.bridge, self.miss))
        return self.flow(0, "", then=onward) if onward is not None else self.flow(0, "", self.miss)

    def _check(self, target: Table) -> None:
        if target.bridge != self.bridge or target.name not in (*self.next, self.miss):
            raise PipelineError(f"{self.bridge.value} table {self.name} does not lead to {target.name}")


def _tables(bridge: Bridge, *rows: tuple[int, str, Stage, str, tuple[str, ...]]) -> tuple[Table, ...]:
    return tuple(Table(bridge, name, number, stage, miss, onward) for number, name, stage, miss, onward in rows)


_INTEGRATION = _tables(
    Bridge.INTEGRATION,
    (
        *(0, "LOCAL_SWITCHING", Stage.ENTRY, "drop"),
        ("DVR_TO_SRC_MAC", "DVR_TO_SRC_MAC_PHYSICAL", "ARP_SPOOFING", "MAC_SPOOFING", "TRANSIENT"),
    ),
    (1, "DVR_TO_SRC_MAC", Stage.ROUTED, "TRANSIENT", ()),
    (2, "DVR_TO_SRC_MAC_PHYSICAL", Stage.ROUTED, "drop", ("TRANSIENT",)),
    (23, "CANARY", Stage.HEALTH, "drop", ()),
    (24, "ARP_SPOOFING", Stage.SPOOFING, "drop", ("MAC_SPOOFING",)),
    (25, "MAC_SPOOFING", Stage.SPOOFING, "drop", ("TRANSIENT",)),
    (
        *(60, "TRANSIENT", Stage.SWITCHING, "drop"),
        ("BASE_EGRESS", "ACCEPT_OR_INGRESS", "BASE_INGRESS", "ACCEPTED_EGRESS_NORMAL"),
    ),
    (71, "BASE_EGRESS", Stage.EGRESS, "DROPPED", ("BASE_EGRESS", "RULES_EGRESS", "ACCEPT_OR_INGRESS")),
    (72, "RULES_EGRESS", Stage.EGRESS, "DROPPED", ("RULES_EGRESS", "ACCEPT_OR_INGRESS")),
    (73, "ACCEPT_OR_INGRESS", Stage.EGRESS, "ACCEPTED_EGRESS", ("BASE_INGRESS",)),
    (81, "BASE_INGRESS", Stage.INGRESS, "DROPPED", ("RULES_INGRESS", "ACCEPTED_INGRESS")),
    (82, "RULES_INGRESS", Stage.INGRESS, "DROPPED", ("RULES_INGRESS", "ACCEPTED_INGRESS")),
    (91, "ACCEPTED_EGRESS", Stage.VERDICT, "ACCEPTED_EGRESS_NORMAL", ()),
    (92, "ACCEPTED_INGRESS", Stage.VERDICT, OUTPUT_TO_PORT, ()),
    (93, "DROPPED", Stage.VERDICT, "drop", ()),
    (94, "ACCEPTED_EGRESS_NORMAL", Stage.VERDICT, "drop", ()),
)

_TUNNEL = _tables(
    Bridge.TUNNEL,
    (0, "TUNNEL_ENTRY", Stage.ENTRY, "drop", ("DVR_PROCESS", "PATCH", "FROM_GRE", "FROM_VXLAN", "FROM_GENEVE")),
    (1, "DVR_PROCESS", Stage.ROUTED, "PATCH", ()),
    (2, "PATCH", Stage.FORWARDING, "drop", ("UNICAST", "RESPONDER", "FLOOD")),
    (3, "FROM_GRE", Stage.TRANSLATION, "drop", ("DVR_NOT_LEARN", "LEARN")),
    (4, "FROM_VXLAN", Stage.TRANSLATION, "drop", ("DVR_NOT_LEARN", "LEARN")),
    (6, "FROM_GENEVE", Stage.TRANSLATION, "drop", ("DVR_NOT_LEARN", "LEARN")),
    (9, "DVR_NOT_LEARN", Stage.ROUTED, "LEARN", ()),
    (10, "LEARN", Stage.FORWARDING, "drop", ()),
    (20, "UNICAST", Stage.FORWARDING, "FLOOD", ()),
    (21, "RESPONDER", Stage.FORWARDING, "FLOOD", ("RESPONDER",)),
    (22, "FLOOD", Stage.FORWARDING, "drop", ()),
)

_PHYSICAL = _tables(
    Bridge.PHYSICAL,
    (
        *(0, "PHYSICAL_ENTRY", Stage.ENTRY, "NORMAL"),
        ("DVR_PROCESS_PHYSICAL", "VLAN_TRANSLATION", "DVR_NOT_LEARN_PHYSICAL"),
    ),
    (1, "DVR_PROCESS_PHYSICAL", Stage.ROUTED, "VLAN_TRANSLATION", ()),
    (2, "VLAN_TRANSLATION", Stage.TRANSLATION, "drop", ()),
    (3, "DVR_NOT_LEARN_PHYSICAL", Stage.ROUTED, "NORMAL", ()),
)

TABLES: tuple[Table, ...] = (*_INTEGRATION, *_TUNNEL, *_PHYSICAL)
_BY_NAME = {(entry.bridge, entry.name): entry for entry in TABLES}


def table(bridge: Bridge, name: str) -> Table:
    try:
        return _BY_NAME[bridge, name]
    except KeyError:
        raise PipelineError(f"the {bridge.value} bridge has no table {name}") from None


def tables_of(bridge: Bridge) -> tuple[Table, ...]:
    return tuple(entry for entry in TABLES if entry.bridge == bridge)


def miss_flows(bridge: Bridge) -> tuple[Flow, ...]:
    """What every table does with a packet that no other flow of it matches. The canary's is there to be missed."""
    return tuple(entry.miss_flow() for entry in tables_of(bridge))


LOCAL_SWITCHING = table(Bridge.INTEGRATION, "LOCAL_SWITCHING")
DVR_TO_SRC_MAC = table(Bridge.INTEGRATION, "DVR_TO_SRC_MAC")
DVR_TO_SRC_MAC_PHYSICAL = table(Bridge.INTEGRATION, "DVR_TO_SRC_MAC_PHYSICAL")
CANARY = table(Bridge.INTEGRATION, "CANARY")
ARP_SPOOFING = table(Bridge.INTEGRATION, "ARP_SPOOFING")
MAC_SPOOFING = table(Bridge.INTEGRATION, "MAC_SPOOFING")
TRANSIENT = table(Bridge.INTEGRATION, "TRANSIENT")
BASE_EGRESS = table(Bridge.INTEGRATION, "BASE_EGRESS")
RULES_EGRESS = table(Bridge.INTEGRATION, "RULES_EGRESS")
ACCEPT_OR_INGRESS = table(Bridge.INTEGRATION, "ACCEPT_OR_INGRESS")
BASE_INGRESS = table(Bridge.INTEGRATION, "BASE_INGRESS")
RULES_INGRESS = table(Bridge.INTEGRATION, "RULES_INGRESS")
ACCEPTED_EGRESS = table(Bridge.INTEGRATION, "ACCEPTED_EGRESS")
ACCEPTED_INGRESS = table(Bridge.INTEGRATION, "ACCEPTED_INGRESS")
DROPPED = table(Bridge.INTEGRATION, "DROPPED")
ACCEPTED_EGRESS_NORMAL = table(Bridge.INTEGRATION, "ACCEPTED_EGRESS_NORMAL")

TUNNEL_ENTRY = table(Bridge.TUNNEL, "TUNNEL_ENTRY")
DVR_PROCESS = table(Bridge.TUNNEL, "DVR_PROCESS")
DVR_NOT_LEARN = table(Bridge.TUNNEL, "DVR_NOT_LEARN")
PATCH = table(Bridge.TUNNEL, "PATCH")
LEARN = table(Bridge.TUNNEL, "LEARN")
UNICAST = table(Bridge.TUNNEL, "UNICAST")
RESPONDER = table(Bridge.TUNNEL, "RESPONDER")
FLOOD = table(Bridge.TUNNEL, "FLOOD")
FROM_TUNNEL = {
    "gre": table(Bridge.TUNNEL, "FROM_GRE"),
    "vxlan": table(Bridge.TUNNEL, "FROM_VXLAN"),
    "geneve": table(Bridge.TUNNEL, "FROM_GENEVE"),
}

PHYSICAL_ENTRY = table(Bridge.PHYSICAL, "PHYSICAL_ENTRY")
DVR_PROCESS_PHYSICAL = table(Bridge.PHYSICAL, "DVR_PROCESS_PHYSICAL")
DVR_NOT_LEARN_PHYSICAL = table(Bridge.PHYSICAL, "DVR_NOT_LEARN_PHYSICAL")
VLAN_TRANSLATION = table(Bridge.PHYSICAL, "VLAN_TRANSLATION")
