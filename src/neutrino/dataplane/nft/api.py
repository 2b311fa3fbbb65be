"""Tables of nftables as values, their actual state, changes of them, and the driver's protocol.

A table is rendered whole and replaces the actual one in one transaction. What changes often (floating IPs, members of
groups) are elements of sets and maps, which are also added and removed one by one. `plan_tables` of
`agent/runtime/service_namespaces.py` compares a rendered table with the actual one.
"""

import dataclasses
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from neutrino.dataplane.nft.elements import canonical_element

TABLE = "neutrino"
"""The name of our tables, one for each family. Others in the namespace are not touched."""

METERING = "neutrino_metering"
"""The name of a table with counters, by itself: the counters outlive changes of all other rules."""

NAMES = frozenset({TABLE, METERING})

RENDERED = "rendered"
"""An empty set in each table; its comment is the digest of the rendered table."""


class NftError(Exception):
    """nft refused a change or could not be run; nothing of the change is in force."""


@dataclasses.dataclass(frozen=True)
class Hook:
    """Makes a chain a base chain: where in the kernel packets enter it."""

    type: str  # filter, nat, route
    hook: str  # prerouting, input, forward, output, postrouting
    priority: int
    policy: str = "accept"

    def text(self) -> str:
        return f"type {self.type} hook {self.hook} priority {self.priority}; policy {self.policy};"


@dataclasses.dataclass(frozen=True)
class Chain:
    """Rules in nft's language, without comments: each gets its checksum as one."""

    name: str
    rules: tuple[str, ...] = ()
    hook: Hook | None = None

    def __post_init__(self) -> None:
        for rule in self.rules:
            if ' comment "' in rule or "\n" in rule:  # the comment is for the checksum
                raise ValueError(f"chain {self.name}: a rule is one line without a comment: {rule}")

    def marks(self) -> tuple[str, ...]:
        """The checksum of each rule, in order."""
        return tuple(f"{zlib.crc32(rule.encode()):08x}" for rule in self.rules)

    def text(self) -> str:
        lines = [self.hook.text()] if self.hook else []
        lines += [f'{rule} comment "{mark}"' for rule, mark in zip(self.rules, self.marks(), strict=True)]
        return _block(f"chain {self.name}", lines)


@dataclasses.dataclass(frozen=True)
class Set:
    """A set, or with a type such as `ipv4_addr : ipv4_addr` a map. Elements are written `key` or `key : value`, what is
    concatenated ` . `, with the blanks; make it with `nft_set`.
    """

    name: str
    type: str
    flags: tuple[str, ...] = ()
    elements: frozenset[str] = frozenset()
    limit: str = ""  # of elements that have none of their own; nft requires it where elements have limits

    @property
    def is_map(self) -> bool:
        return " : " in self.type

    def text(self, *, elements: bool = True) -> str:
        lines = [f"type {self.type};"]
        if self.flags:
            lines.append(f"flags {', '.join(self.flags)};")
        if self.limit:
            lines.append(f"{self.limit};")
        if self.elements and elements:
            lines.append(f"elements = {{ {', '.join(sorted(self.elements))} }}")
        return _block(f"{'map' if self.is_map else 'set'} {self.name}", lines)


def nft_set(name: str, type_: str, elements: Iterable[str] = (), *, flags: Iterable[str] = (), limit: str = "") -> Set:
    return Set(name, type_, tuple(flags), frozenset(canonical_element(element, type_) for element in elements), limit)


@dataclasses.dataclass(frozen=True)
class Table:
    """`declarations` are blocks in nft's language, for what is neither chain nor set, such as a conntrack helper.

    `counters` are names of counters that rules refer to. They keep their values when the table is replaced. A table
    with counters has nothing else but chains.
    """

    chains: tuple[Chain, ...] = ()
    sets: tuple[Set, ...] = ()
    declarations: tuple[str, ...] = ()
    family: str = "inet"
    name: str = TABLE
    counters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.counters and (self.sets or self.declarations):
            raise ValueError(f"table {self.path} with counters has sets or declarations, which would not be replaced")

    @property
    def path(self) -> str:
        return f"{self.family} {self.name}"

    def digest(self) -> str:
        """Return the digest of everything but the elements, which are compared one by one."""
        declared = (*self.declarations, *map(_counter, self.counters))
        parts = (*declared, *(each.text(elements=False) for each in self.sets), *map(Chain.text, self.chains))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def text(self, actual: "TableState | None" = None) -> str:
        """The transaction that replaces the actual table, or all of it but its counters where it is given."""
        rendered = _block(f"set {RENDERED}", ["type mark;", f'comment "{self.digest()}"'])
        blocks = [rendered, *self.declarations, *map(_counter, self.counters)]
        blocks += [*(each.text() for each in self.sets), *map(Chain.text, self.chains)]
        # Declaring the table first makes its deletion succeed where there is none.
        removal = [f"table {self.path}", *(_emptying(self, actual) if actual else (f"delete table {self.path}",))]
        return "\n".join((*removal, _block(f"table {self.path}", blocks), ""))


def _counter(name: str) -> str:
    return _block(f"counter {name}", ())


def _emptying(table: Table, actual: "TableState") -> Iterator[str]:
    """Remove all but the counters that stay: one that is declared again keeps its value."""
    yield f"flush table {table.path}"  # of rules: chains and counters are unused then
    yield from (f"delete chain {table.path} {name}" for name in sorted(actual.chains))
    yield from (f"delete set {table.path} {name}" for name in sorted(actual.elements))
    yield from (f"delete counter {table.path} {name}" for name in sorted(actual.counters.keys() - {*table.counters}))


def _block(head: str, lines: Iterable[str]) -> str:
    """A block of lines; nft requires a line break before the closing brace."""
    return "\n".join((f"{head} {{", *lines, "}"))


@dataclasses.dataclass(frozen=True)
class ChainState:
    hook: Hook | None = None
    marks: tuple[str, ...] = ()
    """The comment of each rule, in order; empty for a rule that was added by hand."""


class Count(NamedTuple):
    """The value of a counter."""

    packets: int = 0
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class TableState:
    """The part of a table that can be read back and compared."""

    digest: str = ""
    chains: Mapping[str, ChainState] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    elements: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    """By the name of the set or map, in canonical form."""
    counters: Mapping[str, Count] = dataclasses.field(default_factory=lambda: MappingProxyType({}), compare=False)


@dataclasses.dataclass(frozen=True)
class ElementChange:
    """Elements of one set or map to add and remove; one that is so already is no error."""

    set: str
    add: frozenset[str] = frozenset()
    remove: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)

    def text(self) -> str:
        lines = [f"remove element {self.set} {each}" for each in sorted(self.remove)]
        return "\n".join([*lines, *(f"add element {self.set} {each}" for each in sorted(self.add))])


@dataclasses.dataclass(frozen=True)
class TablePlan:
    """Changes of one table: replace it whole, for a reason, or delete it, or change elements, or nothing."""

    path: str
    table: Table | None = None
    reason: str = ""
    elements: tuple[ElementChange, ...] = ()
    delete: bool = False
    counted: TableState | None = None  # the actual table, if its counters stay

    def __bool__(self) -> bool:
        return self.table is not None or self.delete or bool(self.elements)

    def text(self) -> str:
        if self.table is not None:
            return f"replace table {self.path}: {self.reason}"
        if self.delete:
            return f"delete table {self.path}"
        return "\n".join(change.text() for change in self.elements)


class Nft(Protocol):
    """Namespaces are given by name, `""` for the agent's own. All calls block."""

    def read(self, namespace: str) -> Mapping[str, TableState]:
        """All tables of ours by `Table.path`, in one run of nft."""
        ...

    def foreign_drops(self, namespace: str) -> tuple[str, ...]:
        """The paths of tables that are not ours and drop packets, or some of them; sorted."""
        ...

    def apply(self, namespace: str, plan: TablePlan) -> None:
        """Apply a plan in one transaction.

        Deleting a missing table is no error; a new value for a key replaces the old one.
        """
        ...
