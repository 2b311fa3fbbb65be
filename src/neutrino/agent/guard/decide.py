"""Decides whether an agent may work on its host: what was found in, verdict out. Pure.

An agent that is started on a host of Neutron's agents, or with the database of another cloud, would cut off every instance:
our first flows divert packets from those of Neutron, and ports, routers and networks that the server does not know are
unwired and removed. So there are three causes for which nothing is changed, until they are gone or `[agent]
start_despite` names them:

* `foreign_flows`: bridges that this agent writes flows to have flows that are neither its own nor to be kept;
* `unknown_ports`: more live ports are plugged that the server does not know than a few that were left by accident;
* `other_database`: the server's database is neither the one whose objects the agent has in its cache, nor a restored
  backup of it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, LEARNED_COOKIE, Flow
from neutrino.dataplane.ovsdb.api import Bridge, Snapshot
from neutrino.model.database_identity import is_same_cloud

FOREIGN_FLOWS: Final = "foreign_flows"
UNKNOWN_PORTS: Final = "unknown_ports"
OTHER_DATABASE: Final = "other_database"
CAUSES: Final = (FOREIGN_FLOWS, UNKNOWN_PORTS, OTHER_DATABASE)
SWITCH: Final = "switch"  # its flows cannot be read: no option is for that
SHARE: Final = 0.01  # of the plugged ports that may be unknown; one port always may
LISTED: Final = 3  # examples in a text


class CookieRange(NamedTuple):
    """Cookies that equal `value` under `mask`."""

    value: int
    mask: int

    def __contains__(self, cookie: object) -> bool:
        return isinstance(cookie, int) and cookie & self.mask == self.value & self.mask


OWN: Final = (CookieRange(COOKIE, COOKIE_MASK), CookieRange(LEARNED_COOKIE, COOKIE_MASK))
WHOLE: Final = 2**64 - 1


def parse_cookies(text: str) -> CookieRange:
    """`0x12` or `0x1200/0xff00`; ValueError for anything else."""
    value, slash, mask = text.partition("/")
    found = CookieRange(int(value, 0), int(mask, 0) if slash else WHOLE)
    if not (0 <= found.value <= WHOLE and 0 < found.mask <= WHOLE):
        raise ValueError(text)
    return found


def foreign(flows: Iterable[Flow], kept: Collection[CookieRange] = (), *, physical: bool = False) -> list[Flow]:
    """The flows that another agent has left. `physical`: on the bridge of a physical network, which is the operator's.

    Not the flow that the switch gives to every new bridge. On a physical bridge, flows without a cookie are the
    operator's: agents mark theirs.
    """
    known = (*OWN, *kept, *((CookieRange(0, WHOLE),) if physical else ()))
    return sorted(flow for flow in flows if not any(flow.cookie in one for one in known) and not _is_default(flow))


def _is_default(flow: Flow) -> bool:
    return (flow.table, flow.priority, flow.match, flow.actions, flow.cookie) == (0, 0, "", "NORMAL", 0)


def plugged_ports(snapshot: Snapshot, bridge: str) -> dict[str, str]:
    """The live ports on a bridge by their ids, with the device's name."""
    interfaces = (
        interface for port in snapshot.bridges.get(bridge, Bridge("")).ports.values() for interface in port.interfaces
    )
    live = (interface for interface in interfaces if (interface.ofport or 0) > 0)  # others are rows without a device
    return {port_id: each.name for each in live if (port_id := each.external_ids.get("iface-id"))}


@dataclasses.dataclass(frozen=True)
class Server:
    """What a server has sent that is not accepted yet; complete, as it has sent `synced`."""

    database: str  # its identity; empty: the server does not send it
    ports: frozenset[str]  # of this host


@dataclasses.dataclass(frozen=True)
class Facts:
    foreign: Mapping[str, Sequence[Flow]] = dataclasses.field(default_factory=dict)  # by bridge
    plugged: Mapping[str, str] = dataclasses.field(default_factory=dict)  # id of a live port → its device
    unreadable: str = ""  # why the switch could not be read
    database: str = ""  # whose objects the agent has, of this run or in its cache; empty: of none
    ports: frozenset[str] = frozenset()  # of these objects
    server: Server | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    causes: Mapping[str, str]  # for which nothing is changed, each with the text for the operator
    ignored: Mapping[str, str] = dataclasses.field(default_factory=dict)  # what was found, and the operator has allowed
    # Roles start when the server is accepted, and not from the cache: beside foreign flows that are to be removed, flows
    # that are added before would divert packets; and without a cache, nothing is known of ports that are plugged.
    needs_server: bool = False


def judge(facts: Facts, despite: Collection[str] = ()) -> Verdict:
    texts = {
        FOREIGN_FLOWS: _foreign_flows(facts),
        UNKNOWN_PORTS: _unknown_ports(facts),
        OTHER_DATABASE: _other_database(facts),
    }
    found = {cause: text for cause, text in texts.items() if text}
    causes = {cause: _with_option(cause, text) for cause, text in found.items() if cause not in despite}
    if facts.unreadable:
        causes[SWITCH] = f"the flows of Open vSwitch cannot be read: {facts.unreadable}"
    ignored = {cause: text for cause, text in found.items() if cause in despite}
    is_new_here = bool(facts.plugged) and not facts.database
    return Verdict(causes, ignored, needs_server=FOREIGN_FLOWS in found or is_new_here)


def _with_option(cause: str, text: str) -> str:
    return f"{text}. To proceed nevertheless: [agent] start_despite = {cause}"


def _foreign_flows(facts: Facts) -> str:
    counts = [f"{bridge} has {len(flows)}" for bridge, flows in sorted(facts.foreign.items()) if flows]
    if not counts:
        return ""
    example = next(flows[0] for _, flows in sorted(facts.foreign.items()) if flows)
    return (
        f"flows that are not this agent's are on its bridges: {', '.join(counts)}, such as {example.text()[:200]}. Stop "
        "the agent that adds them, as Neutron's; this agent would remove them. `neutrino takeover host` converts a host of "
        "Neutron's. [ovs] kept_cookies lists those to keep"
    )


def _unknown_ports(facts: Facts) -> str:
    server = facts.server
    if server is None:
        return ""
    # A port that the same database has had before was deleted since: that is no reason to doubt the server. A restored
    # backup may lack ports that are in use.
    deleted = facts.ports if facts.database == server.database else frozenset[str]()
    unknown = sorted(facts.plugged.keys() - server.ports - deleted)
    if len(unknown) <= max(1, SHARE * len(facts.plugged)):
        return ""
    listed = ", ".join(f"{facts.plugged[each]} ({each})" for each in unknown[:LISTED])
    return (
        f"the server knows {len(facts.plugged) - len(unknown)} of the {len(facts.plugged)} ports that are plugged on this "
        f"host; unknown are {listed}{', …' if len(unknown) > LISTED else ''}. This agent would cut them off. Check "
        "[feed] server and the server's database"
    )


def _other_database(facts: Facts) -> str:
    server = facts.server
    if server is None or not facts.database or not server.database or is_same_cloud(server.database, facts.database):
        return ""
    return (
        f"the server has database {server.database}, and this agent has the objects of database {facts.database}. Check "
        "[feed] server and the server's [database] connection"
    )
