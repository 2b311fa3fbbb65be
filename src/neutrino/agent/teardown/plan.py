"""What is removed from a host that stops being one, in the order of the removal. Pure.

Everything is known by a mark, so that an agent's lost records do not matter, and nothing of others is touched:

* daemons by their environment; those that were adopted from Neutron's agents by a record;
* namespaces by a record, by a switch port that names them, or by a daemon of ours inside;
* switch ports and bridges by their `external_ids`, flows by their cookie, meters by the range of their numbers;
* iptables chains and sets by their names;
* virtual functions of SR-IOV cards, and forwarding entries, by a record.

Daemons are first, as they would keep namespaces alive; keepalived's end lets another host take over its router. Bridges
are last, as ports of namespaces are on them.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from neutrino.agent.dhcp.network import NAMESPACE_KIND
from neutrino.agent.dhcp.render import MARK_KIND as DHCP_MARK
from neutrino.agent.l2.bridges import SECURE, plan_contributions
from neutrino.agent.l2.controllers import has_controller
from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.hybrid.firewall import HybridPlan
from neutrino.agent.l2.plan import Rendered
from neutrino.agent.l2.trunks import TRUNK, plan_trunks
from neutrino.agent.l3.names import FIP_KIND, ROUTER_KIND, SNAT_KIND
from neutrino.agent.runtime.namespaces import SERVICE
from neutrino.agent.sriov.teardown import CardChange
from neutrino.dataplane.openflow.api import Flow
from neutrino.dataplane.ovsdb.api import (
    MARK,
    NAMESPACE,
    OWNER,
    Bridge,
    Change,
    DeleteBridge,
    DeletePort,
    Interface,
    SetBridge,
    Snapshot,
)
from neutrino.dataplane.process.api import Process
from neutrino.model.roles import BGP, DHCP, L2, L3, METADATA, ROLES, SRIOV

KINDS = {NAMESPACE_KIND: DHCP, ROUTER_KIND: L3, SNAT_KIND: L3, FIP_KIND: L3}
STANDALONE = "standalone"
OWN_BRIDGE = "bridge"
_BETWEEN_BRIDGES = ("patch", "tunnel")
_NOTHING = Rendered({}, {}, {}, {}, {}, {})
_MOVE = (
    "move them to other hosts first, or give --keep-ports (they stay, without a network) or --all-ports (those of switches "
    "are removed)"
)
_DAEMON = re.compile(r"[\w-]+")
_ROLE_OF_DAEMON = {"dnsmasq": DHCP, "metadata": METADATA, "bgpd": BGP}  # all others are of routers


@dataclasses.dataclass(frozen=True)
class BridgeFlows:
    """What a bridge has of ours, and whether it has anything of others."""

    ours: frozenset[Flow] = frozenset()
    meters: tuple[int, ...] = ()
    others: int = 0  # flows of another agent, by the guard of the start
    staying: int = 0  # all that are not ours, such as the operator's; without the one of a new bridge


@dataclasses.dataclass(frozen=True)
class Facts:
    """What was read from the host."""

    owner: str  # the agent's state path
    daemons: tuple[Process, ...] = ()
    namespaces: Mapping[str, str] = dataclasses.field(default_factory=dict)  # name, to why it stays; empty: it may go
    recorded: frozenset[str] = frozenset()  # namespaces that the agent has created or was about to create
    inhabited: frozenset[str] = frozenset()  # namespaces with daemons of ours
    snapshot: Snapshot = dataclasses.field(default_factory=Snapshot)
    flows: Mapping[str, BridgeFlows] = dataclasses.field(default_factory=dict)
    rules: HybridPlan = dataclasses.field(default_factory=HybridPlan)
    cards: tuple[CardChange, ...] = ()  # of SR-IOV
    used_functions: tuple[str, ...] = ()  # of these cards: those that instances have
    lost_functions: tuple[str, ...] = ()  # recorded, and of no card that is there
    files: tuple[tuple[str, Path], ...] = ()  # with the role that they are of; empty: of the agent


@dataclasses.dataclass(frozen=True)
class Selection:
    """What the operator wants removed."""

    roles: frozenset[str]
    keep_ports: bool = False  # ports of others on our bridges stay, without networks
    all_ports: bool = False  # they are removed with the bridges

    @property
    def is_despite_ports(self) -> bool:
        return self.keep_ports or self.all_ports

    @property
    def is_whole(self) -> bool:
        return self.roles >= {*ROLES}

    @property
    def needs_switch(self) -> bool:
        """Of the other roles there are daemons and files alone, also on a host without Open vSwitch."""
        return bool(self.roles & {L2, DHCP, L3})


# --- removals ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class EndDaemon:
    role: str
    process: Process
    kind = "daemon"

    @property
    def name(self) -> str:
        return self.process.name

    def text(self) -> str:
        return f"end {self.process.name} ({self.process.pid})"


@dataclasses.dataclass(frozen=True)
class RemoveNamespace:
    role: str
    name: str
    kind = "namespace"

    def text(self) -> str:
        return f"remove namespace {self.name} with its devices"


@dataclasses.dataclass(frozen=True)
class Unplug:
    """A switch port of a service, and its device, whose namespace is gone."""

    role: str
    name: str
    kind = "port"

    def text(self) -> str:
        return f"unplug {self.name}"


@dataclasses.dataclass(frozen=True)
class RemoveRules:
    """iptables chains and ipsets of hybrid ports."""

    plan: HybridPlan
    role: str = L2
    kind = "rules"
    name = "hybrid firewall"

    def text(self) -> str:
        return self.plan.text()


@dataclasses.dataclass(frozen=True)
class ClearBridge:
    """Our flows and meters on a bridge that stays. `forwards`: it becomes the switch that a new bridge is."""

    name: str
    flows: frozenset[Flow]
    meters: tuple[int, ...] = ()
    forwards: bool = False
    role: str = L2
    kind = "flows"

    def text(self) -> str:
        parts = [f"{len(self.flows)} flows", *([f"{len(self.meters)} meters"] if self.meters else [])]
        return f"remove {' and '.join(parts)} of {self.name}" + (
            ", which forwards by MAC then" if self.forwards else ""
        )


@dataclasses.dataclass(frozen=True)
class ChangeSwitch:
    """A change of the switch's configuration."""

    change: Change
    role: str = L2
    kind = "switch"

    @property
    def name(self) -> str:
        return getattr(self.change, "name", "")

    def text(self) -> str:
        return self.change.text()


@dataclasses.dataclass(frozen=True)
class ResetCard:
    """A setting of a virtual function, or a forwarding entry, of an SR-IOV card."""

    change: CardChange
    role: str = SRIOV
    kind = "card"

    @property
    def name(self) -> str:
        return self.change.device

    def text(self) -> str:
        return self.change.text()


@dataclasses.dataclass(frozen=True)
class RemoveFile:
    role: str
    path: Path
    kind = "file"

    @property
    def name(self) -> str:
        return str(self.path)

    def text(self) -> str:
        return f"remove {self.path}"


Removal = EndDaemon | RemoveNamespace | Unplug | RemoveRules | ClearBridge | ChangeSwitch | ResetCard | RemoveFile


@dataclasses.dataclass(frozen=True)
class TeardownPlan:
    removals: tuple[Removal, ...] = ()
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)  # what looks like ours and stays, and why
    obstacles: tuple[str, ...] = ()  # why nothing is removed


def plan_teardown(options: L2Options, facts: Facts, selection: Selection) -> TeardownPlan:
    removals: list[Removal] = [
        EndDaemon(role, each) for each in facts.daemons if (role := _role_of(each)) in selection.roles
    ]
    ours, kept = _namespaces(facts)
    removals += [RemoveNamespace(role, name) for name, role in ours.items() if role in selection.roles]
    going = {name for name, role in ours.items() if role in selection.roles}
    removals += [Unplug(role, name) for name, role in _stale_ports(facts, going) if role in selection.roles]
    obstacles: list[str] = []
    if L2 in selection.roles:
        if facts.rules:
            removals.append(RemoveRules(facts.rules))
        removals += _switch(options, facts, selection)
        obstacles += _obstacles(facts, selection)
    if SRIOV in selection.roles:
        removals += [ResetCard(change) for change in facts.cards]
        kept |= {f"VF {slot}": "no device of physical_device_mappings has it" for slot in facts.lost_functions}
        if facts.used_functions and not selection.is_despite_ports:
            obstacles.append(f"{_listed(facts.used_functions, 'VF')} of instances: {_MOVE}")
    removals += [
        RemoveFile(role, path)
        for role, path in facts.files
        if (role in selection.roles if role else selection.is_whole)
    ]
    return TeardownPlan(tuple(removals), kept, tuple(obstacles))


def _role_of(process: Process) -> str:
    found = _DAEMON.match(process.name)
    return _ROLE_OF_DAEMON.get(found[0] if found else "", L3)


def kind_of(namespace: str) -> tuple[str, str]:
    """The role that a namespace is of, and its router or network; empty for names that agents do not give."""
    return next(((role, key) for kind, role in KINDS.items() if (key := kind.object_id(namespace))), ("", ""))


def _namespaces(facts: Facts) -> tuple[dict[str, str], dict[str, str]]:
    """Those that are removed with their roles, and those that stay with the reason."""
    ports = (each for _, _, each in facts.snapshot.interfaces().values() if _is_of(each, facts.owner))
    named = {_namespace_of(each) for each in ports}
    marked = facts.recorded | facts.inhabited | named
    ours, kept = dict[str, str](), dict[str, str]()
    for name, obstacle in sorted(facts.namespaces.items()):
        role, _ = kind_of(name)
        if not role:
            continue
        if name not in marked:
            kept[f"namespace {name}"] = "nothing marks it as this agent's"
        elif obstacle:
            kept[f"namespace {name}"] = obstacle
        else:
            ours[name] = role
    return ours, kept


def _is_of(interface: Interface, owner: str) -> bool:
    """Whether a service of this agent has plugged the port."""
    return _service_of(interface) != "" and interface.external_ids.get(OWNER, owner) == owner


def _service_of(interface: Interface) -> str:
    mark = interface.external_ids.get(MARK, "")
    return DHCP if mark.partition(":")[0] == DHCP_MARK else L3 if mark == SERVICE else ""


def _namespace_of(interface: Interface) -> str:
    ids = interface.external_ids
    network = ids.get(MARK, "").partition(":")[2]
    return f"{NAMESPACE_KIND.prefix}{network}" if _service_of(interface) == DHCP else ids.get(NAMESPACE, "")


def _stale_ports(facts: Facts, going: Collection[str]) -> Iterator[tuple[str, str]]:
    """Ports of services whose namespaces do not exist; others go with their namespace."""
    for name, (_, _, each) in sorted(facts.snapshot.interfaces().items()):
        there = _namespace_of(each)
        if _is_of(each, facts.owner) and there not in going and there not in facts.namespaces:
            yield name, _service_of(each)


# --- the switch -------------------------------------------------------------------------------------------------------


def _obstacles(facts: Facts, selection: Selection) -> Iterator[str]:
    for bridge in _bridges(facts, OWN_BRIDGE):
        if number := facts.flows.get(bridge.name, BridgeFlows()).others:
            yield f"bridge {bridge.name} has {number} flows of others: it is not this agent's alone"
        left = [each.name for each in _ports(bridge) if _service_of(each) and not _is_selected(each, facts, selection)]
        if left:
            yield (
                f"{_listed(left)} on {bridge.name} of another neutrino agent, or of a role that is not named: name its "
                "role too, or leave out l2"
            )
    others = [each for bridge in _bridges(facts, OWN_BRIDGE, TRUNK) for each in _others(bridge)]
    if others and not selection.is_despite_ports:
        yield f"{_listed(others)} of instances or of others on this agent's bridges: {_MOVE}"


def _is_selected(interface: Interface, facts: Facts, selection: Selection) -> bool:
    return _is_of(interface, facts.owner) and _service_of(interface) in selection.roles


def _listed(names: Sequence[str], what: str = "port", most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"there {f'is {what}' if len(names) == 1 else f'are {what}s'} {', '.join(names[:most])}{rest}"


def _switch(options: L2Options, facts: Facts, selection: Selection) -> Iterator[Removal]:
    snapshot = facts.snapshot
    own = {each.name for each in _bridges(facts, OWN_BRIDGE)}
    going = [each.name for each in _bridges(facts, OWN_BRIDGE) if selection.all_ports or not _others(each)]
    if selection.all_ports:
        going += [each.name for each in _bridges(facts, TRUNK)]
    # With the queues of ports, whose rows nothing else collects, before the ports.
    changes: list[Change] = [*plan_contributions(_NOTHING, snapshot, complete=True).changes]
    changes += plan_trunks(options, {}, snapshot, complete=True).changes
    for bridge in snapshot.bridges.values():
        found = facts.flows.get(bridge.name, BridgeFlows())
        marked = [each.name for each in _ports(bridge) if each.external_ids.get(MARK) in _BETWEEN_BRIDGES]
        if bridge.name in going or not (marked or found.ours or found.meters):
            continue
        is_plain = bridge.name not in own and not found.staying
        if found.ours or found.meters:
            yield ClearBridge(bridge.name, found.ours, found.meters, forwards=is_plain)
        changes += [DeletePort(bridge.name, name) for name in marked]
        # Else the bridge of a physical network would drop everything after a restart of the switch, packets of the host
        # itself among them. With other flows in it, `secure` may be meant, and the switch would delete them.
        if is_plain and bridge.fail_mode == SECURE and not has_controller(bridge):
            changes.append(SetBridge(bridge.name, datapath_type=bridge.datapath_type, fail_mode=STANDALONE))
    for change in changes:
        if isinstance(change, DeleteBridge):
            going.append(change.name)
        elif not (isinstance(change, DeletePort) and change.bridge in going):
            yield ChangeSwitch(change)
    yield from (ChangeSwitch(DeleteBridge(name)) for name in dict.fromkeys(going))


def _bridges(facts: Facts, *marks: str) -> list[Bridge]:
    return [each for each in facts.snapshot.bridges.values() if each.external_ids.get(MARK) in marks]


def _ports(bridge: Bridge) -> Iterable[Interface]:
    return (interface for port in bridge.ports.values() for interface in port.interfaces)


def _others(bridge: Bridge) -> list[str]:
    """Ports that others have plugged, as those of instances."""
    return sorted(each.name for each in _ports(bridge) if MARK not in each.external_ids and each.name != bridge.name)
