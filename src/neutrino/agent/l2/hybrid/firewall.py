"""The hybrid firewall: security groups of ports with a Linux bridge of their own, as iptables rules on that bridge.

Desired rules and sets are compared with the actual ones; a plan consists of the texts that the drivers take.

Each filtered port has a conntrack zone of its own, so that its rules alone decide. With one zone for two ports of a network
on a host, a connection that the sender's rules allow would be established for the receiver before its rules are evaluated.
The kernel's rules are the only record of the zones. Lower numbers are the switch's, which uses local VLANs as zones.

On the userspace datapath the bridge's veth pair has to fill in checksums: a guest leaves those of TCP and UDP to virtio,
the switch reads the packet from the veth before any hardware would compute them, and its conntrack drops it as invalid.
With the offload of the bridge's end off, the kernel computes them when the packet leaves the bridge. A tap that is plugged
directly has no such place: there the guest itself must compute checksums.
"""

import dataclasses
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from neutrino.agent.l2.connections import ended_connections
from neutrino.agent.l2.desired import Desired, LocalPort, Remotes
from neutrino.agent.l2.hybrid import render
from neutrino.agent.l2.local_vlans import allocate
from neutrino.agent.l2.packets import logs_by_port
from neutrino.dataplane.conntrack.api import ConntrackError, ConntrackFlush, MarkingConntrack
from neutrino.dataplane.iptables.api import AddressSet, Chains, Iptables, IptablesError, Rule, Tables
from neutrino.dataplane.netlink.api import Netlink, NetlinkError, SetDevice
from neutrino.dataplane.netlink.values import HOST
from neutrino.model.packet_log import ACCEPT, DROP

LOG = logging.getLogger(__name__)
# Lower ones are local VLANs, which the switch uses as zones; higher ones those of distributed routers, local IPs and
# firewall groups.
ZONES = range(4097, 0x6000)
_HIGH_ZONES = range(0x8000, 0x10000)  # those of firewall groups
_ZONE = re.compile(r"--physdev-in (?P<device>\S+) .*-j CT --zone (?P<zone>\d+)")
SHARED = ("neutron-filter-top", "neutron-postrouting-bottom")  # chains that components of Neutron share
_TOOLS = {4: "iptables", 6: "ip6tables"}


@dataclasses.dataclass(frozen=True)
class HybridPlan:
    """The changes, in the order in which they are applied."""

    settings: tuple[str, ...] = ()  # to be turned on
    sets: str = ""  # new sets, and members that come or go
    rules: Mapping[int, str] = dataclasses.field(default_factory=dict)  # by family
    fresh_zones: tuple[int, ...] = ()  # of new ports: a former port's connections may be left there
    audits: Mapping[int, LocalPort] = dataclasses.field(default_factory=dict)  # by zone: ports that may allow less now
    remotes: Remotes = dataclasses.field(default_factory=dict)  # of the audited ports' rules
    unused_sets: str = ""
    offloading: tuple[str, ...] = ()  # devices that leave checksums to hardware, and must not

    def __bool__(self) -> bool:
        others = self.settings or self.sets or self.audits or self.unused_sets or self.offloading
        return bool(others or any(self.rules.values()))

    def text(self) -> str:
        lines = [f"sysctl {name}=1" for name in self.settings]
        lines += [f"ipset {line}" for line in self.sets.splitlines()]
        for family, text in sorted(self.rules.items()):
            lines += [f"{_TOOLS[family]} {line}" for line in text.splitlines()]
        lines += [f"conntrack empty zone {zone}" for zone in self.fresh_zones]
        lines += [f"conntrack mark connections that no rule of port {port.id} allows" for port in self.audits.values()]
        lines += [f"ipset {line}" for line in self.unused_sets.splitlines()]
        lines += [f"ethtool -K {device} tx off" for device in self.offloading]
        return "\n".join(lines)


class Unfiltered(NamedTuple):
    """Hybrid ports without a filter, which therefore must not talk."""

    ports: frozenset[str]
    reason: str


@dataclasses.dataclass(eq=False)
class HybridFirewall:
    """Blocking, and for one thread at a time.

    The actual state is read until it equals the desired one, and again when the desired one changes, after `forget`, and
    by `drift`. So reconciliations of an unchanged host start no processes, and a host without hybrid ports looks once for
    stale rules.
    """

    iptables: Iptables
    conntrack: MarkingConntrack
    netlink: Netlink | None = None  # on the userspace datapath
    _filtered: frozenset[str] = frozenset()  # ports of the last reconciliation that succeeded
    _settled: object = None  # inputs of the last plan, if it was empty: the actual state is right for them
    _applied: Desired | None = None  # of the last reconciliation that succeeded, if the server had sent everything
    _cannot_log: bool = False  # the kernel has refused rules of logs

    def forget(self) -> None:
        """Read the actual state again before the next plan."""
        self._settled = None

    def reconcile(self, desired: Desired, *, complete: bool) -> Unfiltered | None:
        """Plan and apply; the ports that have no filter, if any."""
        if not (complete or any(port.hybrid for port in desired.ports)):
            return None
        secured = frozenset(port.id for port in desired.ports if port.hybrid and port.secured)
        try:
            # Before `synced`, rules on the host are newer than the feed's cache: they stay, and ports without any wait.
            if not complete and (chains := _our_chains(self.iptables.read_rules(family) for family in render.FAMILIES)):
                self._filtered = frozenset(
                    key for key in secured if {render.port_chain(kind, key) for kind in "io"} <= chains
                )
                missing = secured - self._filtered
                return Unfiltered(missing, "the server has not sent its security groups yet") if missing else None
            self._apply(desired)
        except (IptablesError, ConntrackError, NetlinkError, render.ConflictingPorts) as error:
            self.forget()  # what was applied before the failure is unknown
            # Ports that were filtered keep the filter they have.
            return Unfiltered(secured - self._filtered, str(error))
        self._filtered, self._applied = secured, desired
        return None

    def drift(self) -> int:
        """How many changes the actual state needs to be as it was applied; a host without hybrid ports reads nothing.

        A reload of firewalld, or `iptables -F`, deletes rules of ours: without them ports would be open to everyone.
        """
        if self._applied is None or not any(port.hybrid for port in self._applied.ports):
            return 0
        self.forget()
        try:
            return len(self.plan(self._applied).text().splitlines())
        except (IptablesError, NetlinkError) as error:  # compared again by the next check
            LOG.warning("the rules of hybrid ports cannot be read: %s", error)
            return 0

    def _apply(self, desired: Desired) -> None:
        difference = self.plan(desired)
        if not difference:
            return
        LOG.debug("%s", difference.text())
        try:
            self.apply(difference)
        except IptablesError as error:
            if not self._logging(desired):
                raise
            # Perhaps a kernel without NFLOG: ports are filtered all the same.
            LOG.error("packets of hybrid ports are not logged until the agent is restarted: %s", error)
            self._cannot_log = True
            self.apply(self.plan(desired))

    def _logging(self, desired: Desired) -> render.Logging:
        if self._cannot_log:
            return render.NO_LOGS
        logs = logs_by_port(desired.host_state)
        events = {
            event: frozenset(
                port.id
                for port in desired.ports
                if port.hybrid and port.secured and any(log.covers(event) for log in logs.get(port.id, ()))
            )
            for event in (ACCEPT, DROP)
        }
        return render.Logging(events[ACCEPT], events[DROP], desired.options.log_rate, desired.options.log_burst)

    def plan(self, desired: Desired) -> HybridPlan:
        """The changes from the actual state to the desired one; the actual state is read unless it is known to be right."""
        ports = tuple(port for port in desired.ports if port.hybrid)
        named = {rule.remote for port in ports for rule in port.rules if rule.remote is not None}
        remotes = {name: desired.remotes.get(name, frozenset()) for name in named}
        silent = frozenset(desired.problems)  # plugged ports that must not talk
        logged = self._logging(desired)
        inputs = ports, silent, remotes, logged
        if inputs == self._settled:
            return HybridPlan()
        rules = {family: self.iptables.read_rules(family) for family in render.FAMILIES}
        sets = self.iptables.read_sets()
        # Without hybrid ports and rules, the integration bridge alone blocks the ports that must not talk.
        blocked = silent if ports or _our_chains(rules.values()) else frozenset()
        settings = self.iptables.read_settings() if ports else {}
        by_device = {**read_zones(rules[6]), **read_zones(rules[4])}
        held = {port.id: by_device.get(render.port_device("tap", port.id), 0) for port in ports}
        zones = allocate_zones((port.id for port in ports if render.is_tracked(port)), held, desired)
        kept = {port.id for port in ports if held[port.id] == zones.get(port.id)}
        wanted = render.render(ports, blocked, remotes, zones, logged)
        set_text, unused = plan_sets(wanted.sets, sets)
        difference = HybridPlan(
            settings=tuple(name for name, on in settings.items() if not on),
            sets=set_text,
            rules={family: _plan_rules(wanted.tables[family], wanted.jumps, rules[family]) for family in rules},
            fresh_zones=tuple(sorted(zone for port_id, zone in zones.items() if port_id not in kept)),
            audits={zones[port.id]: port for port in _reduced(ports, wanted, rules, sets) if port.id in kept},
            remotes=remotes,
            unused_sets=unused,
            offloading=self._offloading(ports),
        )
        self._settled = None if difference else inputs
        return difference

    def _offloading(self, ports: Iterable[LocalPort]) -> tuple[str, ...]:
        """The bridges' ends of veth pairs that leave checksums to hardware, on the userspace datapath."""
        if self.netlink is None:
            return ()
        names = (render.port_device("qvb", port.id) for port in ports)
        found = (self.netlink.read_device(HOST, name) for name in names)
        return tuple(device.name for device in found if device is not None and device.tx_checksum)

    def apply(self, plan: HybridPlan) -> None:
        self._settled = None
        # Sets precede the rules that name them; stale ones follow, as the kernel keeps a set that a rule names.
        # Connections are ended after the rules, so that the old rules do not let them in again.
        self.iptables.enable(plan.settings)
        self.iptables.restore_sets(plan.sets)
        for family, text in plan.rules.items():
            self.iptables.restore_rules(family, text)
        self.conntrack.flush(
            ConntrackFlush(zone, family, "ingress", "") for zone in plan.fresh_zones for family in render.FAMILIES
        )
        there = self.conntrack.read(plan.audits)
        self.conntrack.mark(ended_connections(plan.audits, plan.remotes, there), render.ENDED)
        self.iptables.restore_sets(plan.unused_sets)
        if self.netlink is not None and plan.offloading:
            self.netlink.apply(HOST, [SetDevice(name, tx_checksum=False) for name in plan.offloading])


def allocate_zones(wanted: Iterable[str], held: Mapping[str, int], desired: Desired) -> dict[str, int]:
    """A zone for every port: the one it has, or a free one of ours.

    Neutron's driver takes zones up to 65535. A port keeps a high one, and with it its connections, unless ports of this
    host have firewall groups, whose zones are there.
    """
    ports = sorted(set(wanted))
    high: dict[int, str] = {}
    if not any(port.firewall_group_id for port in desired.host_state.ports.values()):
        for port_id in ports:
            if held.get(port_id, 0) in _HIGH_ZONES:
                high.setdefault(held[port_id], port_id)
    kept = {port_id: zone for zone, port_id in high.items()}
    return kept | allocate((port_id for port_id in ports if port_id not in kept), held, numbers=ZONES)


def _our_chains(rules: Iterable[Tables]) -> set[str]:
    return {name for tables in rules for chains in tables.values() for name in chains if render.is_our_chain(name)}


def _plan_rules(wanted: Tables, jumps: Tables, actual: Tables) -> str:
    """The text that changes our chains in all tables of one family; empty if they are as wanted."""
    changed = []
    for table in sorted({*wanted, *actual}):
        lines = _plan_table(wanted.get(table, {}), jumps.get(table, {}), actual.get(table, {}))
        if lines:
            changed += [f"*{table}", *lines, "COMMIT"]
    return _text(changed)


def _plan_table(wanted: Chains, jumps: Chains, actual: Chains) -> list[str]:
    ours = sorted(name for name in actual if render.is_our_chain(name) and name not in wanted)
    stale = [*ours, *(name for name in SHARED if name in actual and _leads_to_ours(actual[name]))]
    differing = _differing(wanted, actual)
    # A declared chain is created or emptied. All of them first, as they jump to each other.
    lines = [f":{name} - [0:0]" for name in (*differing, *stale)]
    lines += [f"-A {name} {rule.text}" for name in differing for rule in wanted[name]]
    for chain, rules in actual.items():
        if not render.is_our_chain(chain) and chain not in stale:
            lines += [f"-D {chain} {rule.text}" for rule in _superfluous(rules, jumps.get(chain, ()), stale)]
    for chain, wanted_here in jumps.items():
        there = _marks(actual.get(chain, ()))
        # In front of other programs' rules, which might accept or drop a packet before we see it.
        lines += [f"-I {chain} 1 {rule.text}" for rule in wanted_here if render.mark_of(rule) not in there]
    return [*lines, *(f"-X {name}" for name in stale)]


def _differing(wanted: Chains, actual: Chains) -> list[str]:
    """The wanted chains that are missing, or have other rules."""
    return [name for name in sorted(wanted) if name not in actual or _marks(actual[name]) != _marks(wanted[name])]


def _marks(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(render.mark_of(rule) for rule in rules)


def _superfluous(there: Iterable[Rule], wanted: Iterable[Rule], stale: list[str]) -> list[Rule]:
    """Rules of ours in a chain of others that are not wanted, or would keep a stale chain from being deleted."""
    expected = {render.mark_of(rule) for rule in wanted}
    found = []
    for rule in there:
        mark = render.mark_of(rule)
        if mark in expected:
            expected.discard(mark)  # a duplicate is superfluous
        elif mark or rule.target in stale or render.is_our_chain(rule.target):  # the last: as Neutron's agent left it
            found.append(rule)
    return found


def _leads_to_ours(rules: Iterable[Rule]) -> bool:
    """Whether a chain that components of Neutron share has no rules but those of its Open vSwitch agent."""
    return all(render.is_our_chain(rule.target) for rule in rules)


def plan_sets(wanted: Mapping[str, AddressSet], actual: Mapping[str, AddressSet]) -> tuple[str, str]:
    """Two texts: the sets that rules need, to be applied before them; stale sets, to be deleted after them."""
    lines: list[str] = []
    passing: set[str] = set()  # temporary sets, deleted at the end of the first text
    for name, entry in sorted(wanted.items()):
        there = actual.get(name)
        if there is None:
            lines += _filled(entry, name)
        elif dataclasses.replace(there, members=entry.members) != entry:
            new = render.temporary_set(name)
            passing.add(new)
            left_behind = [f"destroy {new}"] if new in actual else []  # by an agent that was killed in between
            lines += [*left_behind, *_filled(entry, new), f"swap {new} {name}", f"destroy {new}"]
        else:
            lines += [f"add {name} {member}" for member in sorted(entry.members - there.members)]
            lines += [f"del {name} {member}" for member in sorted(there.members - entry.members)]
    ours = {name for name in actual if render.is_our_set(name)}
    return _text(lines), _text(f"destroy {name}" for name in sorted(ours - wanted.keys() - passing))


def _filled(entry: AddressSet, name: str) -> list[str]:
    family = "inet" if entry.family == 4 else "inet6"
    create = f"create {name} {entry.kind} family {family} maxelem {entry.capacity}"
    return [create, *(f"add {name} {member}" for member in sorted(entry.members))]


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _reduced(
    ports: Iterable[LocalPort], wanted: render.DesiredRules, rules: Mapping[int, Tables], sets: Mapping[str, AddressSet]
) -> Iterator[LocalPort]:
    """The ports whose rules or addresses changed, or that have a rule with a remote group that lost members."""
    changed = {
        name
        for family, tables in wanted.tables.items()
        for table, chains in tables.items()
        for name in _differing(chains, rules[family].get(table, {}))
    }
    losing = {name for name, entry in wanted.sets.items() if name in sets and sets[name].members - entry.members}
    for port in ports:
        chains = {render.port_chain(kind, port.id) for kind in "ios"}
        named = {render.set_name(rule.remote, rule.family) for rule in port.rules if rule.remote is not None}
        if chains & changed or named & losing:
            yield port


def read_zones(tables: Tables) -> dict[str, int]:
    """The zones of taps in the rules of a family."""
    found = (_ZONE.search(rule.text) for rule in tables.get("raw", {}).get(render.PREROUTING, ()))
    return {match["device"]: int(match["zone"]) for match in found if match and match["device"].startswith("tap")}
