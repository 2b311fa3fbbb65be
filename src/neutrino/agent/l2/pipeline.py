"""The OpenFlow tables of the three kinds of bridges, as data.

The numbers are those that operators of OpenStack know from their bridges; code and tests use the names. A table lists its
possible next tables, and a flow to any other table cannot be rendered. Every table resubmits to higher numbers only, or to
itself after conntrack, so no packet loops.

Registers on the integration bridge: REG_PORT holds the ofport whose security groups apply (the sender's up to
ACCEPT_OR_INGRESS, the receiver's after it), REG_NET the local VLAN, which is also the conntrack zone, REG_TRACKED whether
the sender's firewall tracks the connection, REG_GUARDED whether a fragment was checked as part of its reassembled packet,
REG_COPIES whether the packet is one of several copies (see `enter_ingress`), REG_LOGGED whether the packet was logged as
accepted, from its sender (bit 0) and to its receiver (bit 1), REG_TAG the VLAN tag of an instance while ONE_TAG looks for
a second one. `extensions.firewall_groups` has reg10 and reg11.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from neutrino.dataplane.openflow.api import Flow, flow

REG_PORT = "reg5"
REG_NET = "reg6"
REG_TRACKED = "reg7"
REG_GUARDED = "reg8"
REG_COPIES = "reg9"
REG_LOGGED = "reg12"
REG_TAG = "NXM_NX_REG13[0..15]"
ZONE = "zone=NXM_NX_REG6[0..15]"  # one conntrack zone for each network: addresses of two networks may overlap
OUTPUT_TO_PORT = "output:NXM_NX_REG5[]"
DEAD_VLAN = 4095  # of ports that must not talk
PLAIN = 77  # priority of a security group's rule that is one flow
MARK_INVALID = 1  # ct_mark of a connection that no rule allows any more
EXTENSION_TABLES = range(50, 60)
INGRESS_TABLES = range(100, 110)


class Bridge(enum.Enum):
    INTEGRATION = "integration"
    TUNNEL = "tunnel"
    PHYSICAL = "physical"


class PipelineError(Exception):
    """A flow would send packets to a table that its own table does not lead to."""


@dataclasses.dataclass(frozen=True)
class Table:
    bridge: Bridge
    name: str
    number: int
    miss: str  # the name of the next table, or actions: drop, NORMAL, output
    next: tuple[str, ...] = ()

    def flow(self, priority: int, match: str, *actions: str, then: Table | None = None) -> Flow:
        """A flow of this table that resubmits to `then`, or ends with its actions."""
        parts = [*actions, self.goto(then)] if then is not None else [*actions]
        return flow(self.number, priority, match, ",".join(parts))

    def goto(self, target: Table) -> str:
        self._check(target)
        return f"resubmit(,{target.number})"

    def track(self, target: Table) -> str:
        """Send the packet through conntrack and resubmit it to a table that sees the connection's state."""
        self._check(target)
        return f"ct(table={target.number},{ZONE})"

    def _check(self, target: Table) -> None:
        allowed = (*self.next, self.miss)
        group = EXTENSIONS if target.number in EXTENSION_TABLES else INGRESS if target.number in INGRESS_TABLES else ""
        if target.bridge != self.bridge or (target.name not in allowed and group not in allowed):
            raise PipelineError(f"{self.bridge.value} table {self.name} does not lead to {target.name}")


EXTENSIONS = "EXTENSIONS"
"""As a next table: any table of an extension for packets from ports."""
INGRESS = "INGRESS"
"""As a next table: any table of an extension for packets to ports."""

_INT, _TUN, _PHY = Bridge.INTEGRATION, Bridge.TUNNEL, Bridge.PHYSICAL

LOCAL_SWITCHING = Table(
    *(_INT, "LOCAL_SWITCHING", 0, "drop"),
    ("DVR_TO_SRC_MAC", "DVR_TO_SRC_MAC_PHYSICAL", "ONE_TAG", "ARP_SPOOFING", "MAC_SPOOFING", EXTENSIONS, "TRANSIENT"),
)
DVR_TO_SRC_MAC = Table(_INT, "DVR_TO_SRC_MAC", 1, "TRANSIENT")
DVR_TO_SRC_MAC_PHYSICAL = Table(_INT, "DVR_TO_SRC_MAC_PHYSICAL", 2, "drop", ("TRANSIENT",))  # other segments
ONE_TAG = Table(_INT, "ONE_TAG", 20, "drop", ("ARP_SPOOFING", "MAC_SPOOFING", EXTENSIONS, "TRANSIENT"))
CANARY = Table(_INT, "CANARY", 23, "drop")  # operators' tools look at it: empty, the switch was restarted
ARP_SPOOFING = Table(_INT, "ARP_SPOOFING", 24, "drop", ("MAC_SPOOFING",))
MAC_SPOOFING = Table(_INT, "MAC_SPOOFING", 25, "drop", (EXTENSIONS, "TRANSIENT"))
TRANSIENT = Table(
    *(_INT, "TRANSIENT", 60, "drop"),
    ("BASE_EGRESS", "ACCEPT_OR_INGRESS", "BASE_INGRESS", "ACCEPTED_EGRESS_NORMAL", INGRESS),
)
BASE_EGRESS = Table(_INT, "BASE_EGRESS", 71, "DROPPED", ("BASE_EGRESS", "RULES_EGRESS", "ACCEPT_OR_INGRESS"))
RULES_EGRESS = Table(_INT, "RULES_EGRESS", 72, "DROPPED", ("RULES_EGRESS", "ACCEPT_OR_INGRESS"))
ACCEPT_OR_INGRESS = Table(
    *(_INT, "ACCEPT_OR_INGRESS", 73, "ACCEPTED_EGRESS"), ("ACCEPT_OR_INGRESS", "BASE_INGRESS", INGRESS)
)
BASE_INGRESS = Table(_INT, "BASE_INGRESS", 81, "DROPPED", ("RULES_INGRESS", "ACCEPTED_INGRESS"))
RULES_INGRESS = Table(_INT, "RULES_INGRESS", 82, "DROPPED", ("RULES_INGRESS", "ACCEPTED_INGRESS"))
ACCEPTED_EGRESS = Table(_INT, "ACCEPTED_EGRESS", 91, "ACCEPTED_EGRESS_NORMAL")
ACCEPTED_INGRESS = Table(_INT, "ACCEPTED_INGRESS", 92, OUTPUT_TO_PORT, ("ACCEPTED_INGRESS", INGRESS))
DROPPED = Table(_INT, "DROPPED", 93, "drop")
ACCEPTED_EGRESS_NORMAL = Table(_INT, "ACCEPTED_EGRESS_NORMAL", 94, "drop", ("LEARNED", "TO_LEARNED", INGRESS))
LEARNED = Table(_INT, "LEARNED", 95, "drop")  # the place of a MAC into REG_PORT; of an unknown one it stays 0
TO_LEARNED = Table(_INT, "TO_LEARNED", 96, "drop", (INGRESS,))
DELIVERY = Table(_INT, "DELIVERY", 110, OUTPUT_TO_PORT)  # after the extensions' tables for packets to ports

TUNNEL_ENTRY = Table(
    *(_TUN, "TUNNEL_ENTRY", 0, "drop"), ("DVR_PROCESS", "PATCH", "FROM_GRE", "FROM_VXLAN", "FROM_GENEVE")
)
DVR_PROCESS = Table(_TUN, "DVR_PROCESS", 1, "PATCH")
PATCH = Table(_TUN, "PATCH", 2, "drop", ("UNICAST", "RESPONDER", "FLOOD"))
FROM_TUNNEL = {
    kind: Table(_TUN, f"FROM_{kind.upper()}", number, "drop", ("DVR_NOT_LEARN", "LEARN"))
    for kind, number in (("gre", 3), ("vxlan", 4), ("geneve", 6))
}
DVR_NOT_LEARN = Table(_TUN, "DVR_NOT_LEARN", 9, "LEARN")
LEARN = Table(_TUN, "LEARN", 10, "drop")
UNICAST = Table(_TUN, "UNICAST", 20, "FLOOD")
RESPONDER = Table(_TUN, "RESPONDER", 21, "FLOOD", ("RESPONDER",))
FLOOD = Table(_TUN, "FLOOD", 22, "drop")

PHYSICAL_ENTRY = Table(
    *(_PHY, "PHYSICAL_ENTRY", 0, "NORMAL"), ("DVR_PROCESS_PHYSICAL", "VLAN_TRANSLATION", "DVR_NOT_LEARN_PHYSICAL")
)
DVR_PROCESS_PHYSICAL = Table(_PHY, "DVR_PROCESS_PHYSICAL", 1, "VLAN_TRANSLATION")
VLAN_TRANSLATION = Table(_PHY, "VLAN_TRANSLATION", 2, "drop")
DVR_NOT_LEARN_PHYSICAL = Table(_PHY, "DVR_NOT_LEARN_PHYSICAL", 3, "NORMAL")

TABLES: tuple[Table, ...] = (
    *(LOCAL_SWITCHING, DVR_TO_SRC_MAC, DVR_TO_SRC_MAC_PHYSICAL, ONE_TAG, CANARY, ARP_SPOOFING, MAC_SPOOFING, TRANSIENT),
    *(BASE_EGRESS, RULES_EGRESS, ACCEPT_OR_INGRESS, BASE_INGRESS, RULES_INGRESS),
    *(ACCEPTED_EGRESS, ACCEPTED_INGRESS, DROPPED, ACCEPTED_EGRESS_NORMAL, LEARNED, TO_LEARNED, DELIVERY),
    *(TUNNEL_ENTRY, DVR_PROCESS, PATCH, *FROM_TUNNEL.values(), DVR_NOT_LEARN, LEARN, UNICAST, RESPONDER, FLOOD),
    *(PHYSICAL_ENTRY, DVR_PROCESS_PHYSICAL, VLAN_TRANSLATION, DVR_NOT_LEARN_PHYSICAL),
)


def extension_tables(names: Sequence[str]) -> tuple[Table, ...]:
    """One table for each extension, in order: a port's packets pass them after the spoofing checks, before TRANSIENT."""
    return _tables_of(names, EXTENSION_TABLES, "TRANSIENT", EXTENSIONS)


def ingress_tables(names: Sequence[str]) -> tuple[Table, ...]:
    """One table for each extension, in order: packets to a port pass them after its firewall, before DELIVERY."""
    return _tables_of(names, INGRESS_TABLES, DELIVERY.name, INGRESS)


def _tables_of(names: Sequence[str], numbers: range, miss: str, group: str) -> tuple[Table, ...]:
    if len(names) > len(numbers):
        raise PipelineError(f"there is no table left for extension {names[-1]}")
    return tuple(Table(_INT, name, number, miss, (group,)) for name, number in zip(names, numbers, strict=False))


def enter_ingress(here: Table, first: Table, *before: str) -> str:
    """Pass a copy of the packet through the extensions' tables for packets to ports, to the port in REG_PORT.

    In a clone: what an extension changes in the packet is not seen by other receivers. Without connection state: it is the
    sender's, or that of the receiver's security groups, if there is any.

    A packet with several receivers has REG_COPIES set, by one of the actions `before` or in an earlier table. The switch
    runs all copies as one list of actions, also those in clones, and a meter ends the list: a copy dropped by one port's
    meter would be missing at the ports after it. So meters are only for packets with REG_COPIES=0.
    """
    return f"clone({','.join(('ct_clear', *before, here.goto(first)))})"


def miss_flows(bridge: Bridge) -> tuple[Flow, ...]:
    """What every table does with a packet that no other flow of it matches."""
    by_name = {table.name: table for table in TABLES if table.bridge is bridge}
    return tuple(
        table.flow(0, "", then=by_name[table.miss]) if table.miss in by_name else table.flow(0, "", table.miss)
        for table in by_name.values()
    )
