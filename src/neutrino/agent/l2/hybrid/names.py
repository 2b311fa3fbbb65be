"""Names of chains, sets and devices; by these, and nothing else, an agent without memory knows what is ours.

They are those that operators of OpenStack know from hosts with hybrid ports. A chain or a set is ours by the beginning of
its name, and a rule in a chain of others by the mark in its comment. The mark is also how a rule is compared: iptables
prints rules in another form than it takes them, so each carries a checksum of its own text.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from neutrino.dataplane.iptables.api import Rule

PREFIX = "neutron-openvswi-"
FORWARD = f"{PREFIX}FORWARD"
INPUT = f"{PREFIX}INPUT"
PREROUTING = f"{PREFIX}PREROUTING"
GROUPS = f"{PREFIX}sg-chain"
FALLBACK = f"{PREFIX}sg-fallback"
STATE = f"{PREFIX}state"

_MARK = "neutrino:"
_SET = re.compile(r"^NIPv[46]")
_SET_LENGTH = 31
_CHAIN_ID, _DEVICE_ID = 10, 11  # how much of a port's id fits into a name


def into(port_id: str) -> str:
    """The chain of what goes into a port."""
    return f"{PREFIX}i{port_id[:_CHAIN_ID]}"


def out_of(port_id: str) -> str:
    return f"{PREFIX}o{port_id[:_CHAIN_ID]}"


def sources(port_id: str) -> str:
    """The chain of the addresses that a port may send from."""
    return f"{PREFIX}s{port_id[:_CHAIN_ID]}"


def tap(port_id: str) -> str:
    """The instance's end of the bridge."""
    return f"tap{port_id[:_DEVICE_ID]}"


def veth(port_id: str) -> str:
    """The network's end of the bridge."""
    return f"qvb{port_id[:_DEVICE_ID]}"


def address_set(remote: str, family: int) -> str:
    """The set of the members of a remote, which is named with its kind: `group:<id>` or `addresses:<id>`."""
    return f"NIPv{family}{remote.partition(':')[2]}"[:_SET_LENGTH]


def replacement(name: str) -> str:
    """A set that is filled to take the place of another."""
    return f"NIPv{name[4:5]}new-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def is_our_chain(name: str) -> bool:
    return name.startswith(PREFIX)


def is_our_set(name: str) -> bool:
    return _SET.match(name) is not None


@lru_cache(maxsize=65536)
def marked(chain: str, match: str, target: str) -> Rule:
    """A rule with our mark."""
    checksum = hashlib.blake2b(f"{chain} {match} {target}".encode(), digest_size=6).hexdigest()
    return Rule(" ".join(filter(None, [match, f"-m comment --comment {_MARK}{checksum}", f"-j {target}"])))


def mark_of(rule: Rule) -> str:
    """The checksum that a rule carries; empty if it is not ours."""
    return rule.comment.removeprefix(_MARK) if rule.comment.startswith(_MARK) else ""
