"""Rules and address sets as values, and the driver of iptables and ipset.

Rules are changed by texts for `iptables-restore --noflush`: a chain that a text declares is created, or emptied if it
exists; what a text does not name stays. A text changes one table in one transaction. Sets are changed by texts for `ipset
restore`, line by line.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Protocol

from neutrino.caches import cached

SETTINGS = ("net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables")
"""The sysctls that send packets across a Linux bridge through iptables; each network namespace has its own."""

_COMMENT = re.compile(r'--comment (?:"([^"]*)"|(\S+))')  # iptables-save quotes where it has to
_NEUTRON = re.compile(r"^:neutron-|^-A neutron-|^-A .*(-j|-g) neutron-")
_SCOPE_RULE = re.compile(r"^-A (neutron-\S+-scope) ", re.MULTILINE)
_TARGET = re.compile(r"(?:^| )(?:-j|-g|--jump|--goto) (\S+)")


class IptablesError(Exception):
    """The kernel rejected a change, or a program could not be run."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule without its `-A chain`, as rendered or as iptables-save prints it."""

    text: str

    @property
    def comment(self) -> str:
        found = _COMMENT.search(self.text)
        return (found[1] or found[2] or "") if found else ""

    @property
    def target(self) -> str:
        """The verdict, or the chain that the rule jumps to."""
        found = _TARGET.search(self.text)
        return found[1] if found else ""


Chains = Mapping[str, tuple[Rule, ...]]
Tables = Mapping[str, Chains]
"""Table, to its chains by name."""


@dataclasses.dataclass(frozen=True)
class SavedRules:
    """All rules of one variant of iptables: both may be in use, and packets pass the rules of both."""

    variant: str  # "legacy", or "nft": these are nft tables too
    tables: Tables
    policies: Mapping[str, Mapping[str, str]]  # of the kernel's chains, by table


@dataclasses.dataclass(frozen=True)
class AddressSet:
    """A set of addresses and prefixes of one family."""

    name: str
    family: int
    members: frozenset[str] = frozenset()
    kind: str = "hash:net"  # takes prefixes and addresses
    capacity: int = 65536  # ipset's default


class Iptables(Protocol):
    def read_rules(self, family: int) -> Tables:
        """The chains of all tables, those of other programs included."""
        ...

    def restore_rules(self, family: int, text: str) -> None: ...

    def read_sets(self) -> Mapping[str, AddressSet]: ...

    def restore_sets(self, text: str) -> None:
        """Adding an existing member or removing a missing one is no error. Lines after a rejected one are not applied."""
        ...

    def read_settings(self) -> Mapping[str, bool]:
        """Whether each of SETTINGS is on; an error if the kernel has no br_netfilter."""
        ...

    def enable(self, settings: Iterable[str]) -> None: ...


def parse_rules(saved: str) -> dict[str, dict[str, tuple[Rule, ...]]]:
    """The output of `iptables-save`."""
    tables: dict[str, dict[str, list[Rule]]] = {}
    chains: dict[str, list[Rule]] = {}
    for line in saved.splitlines():
        if line.startswith("*"):
            chains = tables.setdefault(line[1:].strip(), {})
        elif line.startswith(":"):  # a chain, also one without rules
            chains.setdefault(line[1:].split()[0], [])
        elif line.startswith("-A "):
            _, chain, *rest = line.split(" ", 2)
            chains.setdefault(chain, []).append(Rule(rest[0] if rest else ""))
    return {table: {name: tuple(rules) for name, rules in held.items()} for table, held in tables.items()}


def parse_policies(saved: str) -> dict[str, dict[str, str]]:
    """The policies of the kernel's own chains, by table, in the output of `iptables-save`."""
    policies: dict[str, dict[str, str]] = {}
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith(":") and (words := line[1:].split())[1:2] not in ([], ["-"]):
            policies.setdefault(table, {})[words[0]] = words[1]
    return policies


def without_neutron(saved: str) -> str:
    """The output of `iptables-save` without the chains of Neutron's agents and the rules that lead to them.

    Empty if there are none. For `iptables-restore`, which replaces the tables as a whole.
    """
    lines = saved.splitlines()
    kept = [line for line in lines if not _NEUTRON.search(line)]
    return "".join(f"{line}\n" for line in kept) if len(kept) < len(lines) else ""


def scope_chains(saved: str) -> list[str]:
    """The chains of address scopes of Neutron's L3 agent that have rules, in the output of `iptables-save`."""
    return sorted({match[1] for match in _SCOPE_RULE.finditer(saved)})


def parse_sets(saved: str) -> dict[str, AddressSet]:
    """The output of `ipset save`, without sets of other types than addresses and prefixes."""
    found: dict[str, AddressSet] = {}
    members: defaultdict[str, set[str]] = defaultdict(set)
    for line in saved.splitlines():
        match line.split():
            case ["create", name, ("hash:net" | "hash:ip") as kind, *rest]:
                options = dict(zip(rest[::2], rest[1::2], strict=False))
                family, capacity = 6 if options.get("family") == "inet6" else 4, int(options.get("maxelem", "65536"))
                found[name] = AddressSet(name, family, kind=kind, capacity=capacity)
            case ["add", name, member, *_] if name in found:
                members[name].add(canonical_member(member))
    return {name: dataclasses.replace(entry, members=frozenset(members[name])) for name, entry in found.items()}


@cached(maxsize=65536)
def canonical_member(text: str) -> str:
    """The canonical text of an address or prefix: a single address has no length."""
    network = ip_network(text, strict=False)
    return str(network.network_address if network.prefixlen == network.max_prefixlen else network)
