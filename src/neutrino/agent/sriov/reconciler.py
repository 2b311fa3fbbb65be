"""Reconciles the functions of this host's cards: read → assign → plan → apply. Blocking.

A refusal stays with its function and its setting: what can be set is set, and other ports are not affected. Functions
of ports that are gone come first, so that an instance whose port was deleted loses its network also where a later step
fails.

The kernel notifies of each setting, also of one that a card's driver accepts and does not keep, or does not tell. Such a
setting is made once, and again by the resync, or every notification of its own would be followed by the next.
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping

from neutrino.agent.sriov import fdb
from neutrino.agent.sriov.assign import Assignment, Left, Place, assign, left
from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.desired import HostState, Wanted
from neutrino.agent.sriov.plan import ESSENTIAL, cut, lacking, plan, released
from neutrino.agent.sriov.record import Entry, RecordFile
from neutrino.dataplane.sriov.api import Card, LinkState, SetFunction, Setting, Settings, Sriov, SriovError

LOG = logging.getLogger(__name__)
UNSUPPORTED = "its driver cannot set it"
NOT_KEPT = "its driver has accepted it, and shows another value"


class NotKept(SriovError):
    """A setting that was accepted, and is not shown."""


# The last change of each setting that is not shown yet, with what was shown before, by PCI slot.
Unseen = dict[str, dict[Setting, tuple[SetFunction, object]]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a round has brought about."""

    wired: Mapping[str, int] = dataclasses.field(default_factory=dict)  # ports, with the revision in force
    silent: Mapping[str, str] = dataclasses.field(default_factory=dict)  # ports without a link, with the reason
    waiting: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # ports without an instance: MAC of the function
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of ports
    faults: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of cards, by device
    functions: int = 0  # that instances have
    changes: int = 0
    drift: int = 0  # those of them that undo what others have set


@dataclasses.dataclass
class _Round:
    state: HostState
    complete: bool
    assignment: Assignment
    cards: Mapping[str, Card]
    faults: dict[str, str]
    changes: int = 0
    drift: int = 0
    unseen: Unseen = dataclasses.field(default_factory=dict)  # of the round before
    tries_again: bool = False


class Reconciler:
    """Used by one thread at a time."""

    def __init__(self, sriov: Sriov, file: RecordFile, options: SriovOptions) -> None:
        self.sriov = sriov
        self._file = file
        self._options = options
        self._record = file.read()
        self._record.unsupported.clear()  # tried again: drivers are updated
        self._before = dict(self._record.functions)  # set by an earlier run
        self._in_force: dict[str, tuple[str, Settings]] = {}  # port and settings by PCI slot, as this run has set them
        self._unseen: Unseen = {}
        self._tries_again = False

    def try_again(self) -> None:
        """In the next round, make settings again that were accepted and are not shown. From any thread."""
        self._tries_again = True

    def reconcile(self, state: HostState, *, complete: bool) -> Outcome:
        """`complete`: the state is the server's. Before that, the cache may have ports that have left this host."""
        now = self._look(state, complete)
        now.unseen, self._unseen = self._unseen, {}  # it keeps those of functions that are still set
        now.tries_again, self._tries_again = self._tries_again, False
        self._note(now)
        for gone in left(self._record.functions, state, now.assignment) if complete else ():
            self._leave(gone, now)
        problems = dict(now.assignment.problems)
        up: set[str] = set()
        for port_id, (wanted, place) in now.assignment.wanted.items():
            problem, is_essential = self._apply(wanted, place, now)
            if problem:
                problems[port_id] = problem
            if not is_essential:
                up.add(port_id)
        self._forward(now)
        self._file.write(self._record)
        ports = {port_id: wanted for port_id, (wanted, _) in now.assignment.wanted.items()}
        return Outcome(
            {key: one.port.revision for key, one in ports.items() if key in up and not one.silent},
            {key: one.silent for key, one in ports.items() if one.silent},
            {key: place.function.instance_mac for key, place in now.assignment.waiting.items()},
            problems,
            now.faults,
            sum(bool(place.function.instance_mac) for place in now.assignment.places.values()),
            now.changes,
            now.drift,
        )

    def find(self, state: HostState, *, complete: bool) -> tuple[list[str], dict[str, str]]:
        """Lines of what a round would change, and problems that remain. Nothing is changed; an agent may run beside."""
        self._record = self._file.read()
        now = self._look(state, complete)
        lines = []
        for gone in left(self._record.functions, state, now.assignment) if complete else ():
            lines += self._changes(gone.place, _target(gone))
        for wanted, place in now.assignment.wanted.values():
            lines += self._changes(place, wanted.settings)
        entries = [fdb.text(device, mac, is_new=new) for device, mac, new in self._entries(now)]
        return [*(change.text() for change in lines), *entries], {**now.assignment.problems, **now.faults}

    # --- a round ----------------------------------------------------------------------------------------------------

    def _look(self, state: HostState, complete: bool) -> _Round:
        cards = self.sriov.read(self._options.devices)
        assignment = assign(state, cards, self._options)
        return _Round(state, complete, assignment, cards, dict(assignment.missing))

    def _note(self, now: _Round) -> None:
        """Record functions before the first of them is set: the agent may be killed between any two steps."""
        functions = self._record.functions
        if now.complete and all(device in now.cards for device in self._options.devices):
            for slot in functions.keys() - now.assignment.places.keys():  # removed: a new one has no settings of ours
                del functions[slot]
        for port_id, (wanted, place) in now.assignment.wanted.items():
            slot = place.function.pci_slot
            if now.complete or slot not in functions:
                functions[slot] = Entry(port_id, wanted.mac)
        self._file.write(self._record)

    def _leave(self, gone: Left, now: _Round) -> None:
        """Cut a function whose instance has it without a port; reset one that is free again, and forget it."""
        slot = gone.place.function.pci_slot
        refused = self._set(gone.place, _target(gone), now)
        self._in_force.pop(slot, None)
        if not gone.is_in_use:
            del self._unseen[slot]  # the next instance's driver may begin with other settings
        if gone.is_in_use and (failed := _essential(refused, is_cut=True)):
            now.faults[gone.place.device] = f"{gone.place.text()}, of a port that is gone, is not cut: {_text(failed)}"
        elif not gone.is_in_use:
            del self._record.functions[slot]

    def _apply(self, wanted: Wanted, place: Place, now: _Round) -> tuple[str, bool]:
        """Set the function of a port: what is wrong with it, and whether that keeps the port down."""
        slot, port_id = place.function.pci_slot, wanted.port.id
        if not now.complete and self._before.get(slot) == Entry(port_id, wanted.mac):
            return "", False  # an earlier run has set it, perhaps for a newer state than the cache has
        in_force = self._in_force.get(slot) == (port_id, wanted.settings)
        before = now.changes
        refused = self._set(place, wanted.settings, now)
        if now.changes > before:
            LOG.info("port %s: %s is set", port_id, place.text())
            now.drift += now.changes - before if in_force else 0
        failed = _essential(refused)
        if not failed:
            self._in_force[slot] = port_id, wanted.settings
        texts = dict.fromkeys(lacking(wanted.settings, place.function.settings, self._unsupported(place)), UNSUPPORTED)
        texts |= {setting: str(error) for setting, error in refused.items() if not error.is_unsupported}
        return (f"{place.text()}: {_joined(texts)}" if texts else ""), bool(failed)

    # --- settings ---------------------------------------------------------------------------------------------------

    def _set(self, place: Place, settings: Settings, now: _Round) -> dict[Setting, SriovError]:
        """Change what differs; by setting why it was refused."""
        refused: dict[Setting, SriovError] = {}
        earlier = now.unseen.get(place.function.pci_slot, {})
        unseen = self._unseen.setdefault(place.function.pci_slot, {})
        is_planned_again = True
        while is_planned_again:  # at most twice: a refused setting is not tried a second time
            is_planned_again = False
            for change in self._changes(place, settings):
                if change.setting in refused:
                    continue
                shown = _shown(place.function.settings, change.setting)
                if earlier.get(change.setting) == (change, shown):
                    unseen[change.setting] = change, shown
                    if shown is not None:  # also if it is made again: whether it is kept shows in the next round
                        refused[change.setting] = NotKept(f"{change.text()}: {NOT_KEPT}")
                    if not now.tries_again:
                        continue
                try:
                    self.sriov.set(change)
                    now.changes += 1
                    unseen[change.setting] = change, shown
                except SriovError as error:
                    refused[change.setting] = error
                    if error.is_unsupported:
                        self._record.unsupported.setdefault(place.device, set()).add(change.setting)
                        if change.setting is Setting.LINK_STATE and settings.link_state is LinkState.DISABLE:
                            is_planned_again = True  # nothing else has been set yet: the VLAN has to cut it
                            break
        return refused

    def _changes(self, place: Place, settings: Settings) -> list[SetFunction]:
        function = place.function
        return plan(place.device, function.index, settings, function.settings, self._unsupported(place))

    def _unsupported(self, place: Place) -> frozenset[Setting]:
        return frozenset(self._record.unsupported.get(place.device, ()))

    # --- forwarding entries -----------------------------------------------------------------------------------------

    def _forward(self, now: _Round) -> None:
        for device, mac, is_new in self._entries(now):
            added = self._record.forwarded.setdefault(device, set())
            try:
                if is_new:
                    added.add(mac)
                    self._file.write(self._record)
                    self.sriov.forward(device, mac)
                else:
                    self.sriov.unforward(device, mac)
                    added.discard(mac)
                now.changes += 1
            except SriovError as error:
                now.faults[device] = str(error)

    def _entries(self, now: _Round) -> Iterator[tuple[str, str, bool]]:
        for device, macs in fdb.wanted(now.state, self._options.shared).items():
            try:
                there = self.sriov.forwarded(device)
            except SriovError as error:
                now.faults[device] = str(error)
                continue
            added = set(self._record.forwarded.get(device, ()))
            for mac, is_new in fdb.changes(macs, there, added, complete=now.complete):
                yield device, mac, is_new


def _target(gone: Left) -> Settings:
    actual = gone.place.function.settings
    return cut(actual) if gone.is_in_use else released(actual)


def _essential(refused: Mapping[Setting, SriovError], *, is_cut: bool = False) -> dict[Setting, SriovError]:
    """Refusals that keep a port down. A driver without a setting is as Neutron's agent takes it, but for VLANs.

    Some drivers do not show the link state; where a function has to be cut, that is a fault.
    """
    return {
        setting: error
        for setting, error in refused.items()
        if setting is Setting.VLAN
        or (
            setting in ESSENTIAL
            and not error.is_unsupported
            and (is_cut or setting is not Setting.LINK_STATE or not isinstance(error, NotKept))
        )
    }


def _shown(settings: Settings, setting: Setting) -> object:
    """What a driver shows of one setting; None: nothing."""
    match setting:
        case Setting.LINK_STATE:
            return settings.link_state
        case Setting.VLAN:
            return settings.vlan
        case Setting.SPOOF_CHECK:
            return settings.spoof_check
        case Setting.TRUST:
            return settings.trust
        case Setting.MAX_RATE:
            return settings.max_rate
        case Setting.MIN_RATE:
            return settings.min_rate


def _text(refused: Mapping[Setting, SriovError]) -> str:
    return _joined({setting: str(error) for setting, error in refused.items()})


def _joined(texts: Mapping[Setting, str]) -> str:
    return "; ".join(f"{setting}: {text}" for setting, text in sorted(texts.items()))
