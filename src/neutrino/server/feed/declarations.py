"""What the core and each feature declare for the feed, and how it is put together. Pure.

`Feed` is one declaration: object kinds, parts of objects of other kinds, references between them, and which records a
change affects. `Sources` is all of them together, in the order in which records are read and sent.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import TopologicalSorter
from itertools import chain
from typing import Any

from sqlalchemy.engine import Connection

from neutrino.model.objects import Values
from neutrino.server.feed.fanout import Reader, ServedKind
from neutrino.server.feed.reports.rules import Statuses

Ids = Sequence[str] | None  # None: all


@dataclass(frozen=True, kw_only=True)
class Part:
    """Fields of another feature's objects, such as the local IPs of ports."""

    of: str  # the source whose reader takes it
    defaults: Values  # the fields, for objects without a value
    read: Callable[[Connection, Ids], Mapping[str, Values]]  # fields by the id of the object


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A rule on which hosts records are, where that depends on a feature.

    Such as the hosts of a distributed router's ports.
    """

    of: str  # the source whose reader takes it
    # Returns a function of a record and of its object without a host: the record as it is on these hosts.
    read: Callable[[Connection, Ids], Callable[[Any, Any], Any]]


@dataclass(frozen=True, kw_only=True)
class Inner:
    """Fields of objects inside another feature's object, such as those of a router's interfaces."""

    of: str  # the source whose reader takes it
    # Returns a function of an object without a host: the object with these fields.
    read: Callable[[Connection, Ids], Callable[[Any], Any]]


@dataclass(frozen=True)
class Added:
    """What features add to some records."""

    defaults: Values
    parts: Sequence[Mapping[str, Values]]
    inner: Sequence[Callable[[Any], Any]]
    placed: Sequence[Callable[[Any, Any], Any]]

    def fields(self, key: str) -> Values:
        """The added fields of the object with this id."""
        own = [part[key] for part in self.parts if key in part]  # as a rule of few objects
        return {**self.defaults, **{k: v for part in own for k, v in part.items()}} if own else self.defaults

    def complete(self, base: object) -> Any:
        """The object with the added fields of objects inside it."""
        for add in self.inner:
            base = add(base)
        return base

    def place(self, record: object, base: object) -> Any:
        """The record as it is on the hosts that features place it on."""
        for place in self.placed:
            record = place(record, base)
        return record


@dataclass(frozen=True)
class Additions:
    """What features add to the records of one source."""

    parts: Sequence[Part] = ()
    inner: Sequence[Inner] = ()
    placed: Sequence[Placed] = ()

    def read(self, connection: Connection, ids: Ids) -> Added:
        """Read them for these records."""
        return Added(
            {name: value for part in self.parts for name, value in part.defaults.items()},
            [part.read(connection, ids) for part in self.parts],
            [inner.read(connection, ids) for inner in self.inner],
            [placed.read(connection, ids) for placed in self.placed],
        )


NO_ADDITIONS = Additions()


@dataclass(frozen=True)
class Reference:
    """A scope rule: hosts that receive objects of one kind receive those of another that these refer to."""

    kind: str  # what is referred to
    by: str  # the kind of the referring object
    keys: Callable[[Any], Iterable[str]]  # of topics, from the referring object
    sent_first: bool = True  # what is referred to is sent before the referring object


@dataclass(frozen=True)
class Changed:
    """Ids of records by source: those that change-log rows name, and all that are affected so far."""

    named_ids: Mapping[str, Sequence[str]]
    affected_ids: Mapping[str, Sequence[str]]
    last_networks: Sequence[str] = ()  # of the named ports as they were, also of deleted ones

    def named(self, kind: str) -> Sequence[str]:
        return self.named_ids.get(kind, ())

    def affected(self, source: str) -> Sequence[str]:
        return self.affected_ids.get(source, ())


@dataclass(frozen=True, kw_only=True)
class Affects:
    """Which further records a change affects, because their content is derived from the changed objects."""

    records: str  # the source of the affected records
    named: Sequence[str] = ()  # change-log kinds whose named ids it starts from
    affected: Sequence[str] = ()  # sources whose affected ids it starts from: rules that add to them come before
    find: Callable[[Connection, Changed], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """What the core or one feature declares for the feed."""

    kinds: Sequence[ServedKind] = ()
    parts: Sequence[Part] = ()
    inner: Sequence[Inner] = ()
    placed: Sequence[Placed] = ()
    references: Sequence[Reference] = ()
    affects: Sequence[Affects] = ()
    statuses: Statuses = field(default_factory=dict)  # that hosts report, by kind


@dataclass(frozen=True)
class Sources:
    """All declarations together."""

    kinds: Sequence[ServedKind]  # in message order: an object comes after those that it refers to
    readers: Mapping[str, Reader]  # by source
    additions: Mapping[str, Additions]  # of features to the records of others, by source
    affects: Sequence[Affects]  # in the order of their use
    statuses: Statuses


def assemble(feeds: Iterable[Feed]) -> Sources:
    feeds = tuple(feeds)
    references = list(chain.from_iterable(feed.references for feed in feeds))
    kinds = _in_message_order(_with_references(feeds, references), references)
    additions = {kind.source: _additions(feeds, kind.source) for kind in kinds if kind.takes_additions}
    readers = {
        kind.source: partial(kind.read, additions=additions[kind.source]) if kind.takes_additions else kind.read
        for kind in kinds
        if kind.read is not None
    }
    affects = _in_order(list(chain.from_iterable(feed.affects for feed in feeds)))
    statuses = {kind: status for feed in feeds for kind, status in feed.statuses.items()}
    return Sources(kinds, readers, additions, affects, statuses)


def _additions(feeds: Sequence[Feed], source: str) -> Additions:
    return Additions(
        [part for feed in feeds for part in feed.parts if part.of == source],
        [inner for feed in feeds for inner in feed.inner if inner.of == source],
        [placed for feed in feeds for placed in feed.placed if placed.of == source],
    )


def _with_references(feeds: Sequence[Feed], references: Sequence[Reference]) -> list[ServedKind]:
    keys: defaultdict[str, defaultdict[str, list[Callable[[Any], Iterable[str]]]]]
    keys = defaultdict(lambda: defaultdict(list))
    for one in references:
        keys[one.kind][one.by].append(one.keys)
    return [
        replace(kind, referenced_by={by: _together(several) for by, several in keys[kind.name].items()})
        for feed in feeds
        for kind in feed.kinds
    ]


def _together(several: Sequence[Callable[[Any], Iterable[str]]]) -> Callable[[Any], Iterable[str]]:
    if len(several) == 1:
        return several[0]
    return lambda value: chain.from_iterable(keys(value) for keys in several)


def _in_message_order(kinds: Sequence[ServedKind], references: Sequence[Reference]) -> list[ServedKind]:
    """Sort kinds by their references. Objects that refer to each other in a circle would keep each other subscribed
    for ever: graphlib.CycleError."""
    by_name = {kind.name: kind for kind in kinds}
    TopologicalSorter({name: kind.referenced_by.keys() for name, kind in by_name.items()}).prepare()
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(by_name, ()))
    for one in references:
        first, second = (one.kind, one.by) if one.sent_first else (one.by, one.kind)
        sorter.add(second, first)
    return [by_name[name] for name in sorter.static_order()]


def _in_order(rules: Sequence[Affects]) -> list[Affects]:
    """Sort rules so that each comes after those that add to what it starts from."""
    before = {
        number: [other for other, rule in enumerate(rules) if rule.records in one.affected]
        for number, one in enumerate(rules)
    }
    return [rules[number] for number in TopologicalSorter(before).static_order()]
