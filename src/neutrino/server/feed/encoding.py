"""Objects as they are sent: encoded once, however many hosts get them, with a digest by which a host says what it has.

A set's digest is the sum of its members' numbers, so that it follows a member that comes or goes without counting again,
and does not depend on any order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from neutrino.feed.messages import MOST_MEMBERS, Gone, Members, Put, encode_one
from neutrino.model.state import GroupMembers, Member, Object

_MODULUS: Final = 1 << 64


def number(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def digest(value: int) -> str:
    return f"{value % _MODULUS:016x}"


class Item:
    """One object with what it is sent as."""

    __slots__ = ("_digest", "_encoded", "_number", "kind", "object")

    def __init__(self, kind: str, value: Object) -> None:
        self.kind = kind
        self.object = value
        self._encoded: bytes | None = None
        self._number: int | None = None
        self._digest: str | None = None

    @property
    def number(self) -> int:
        if self._number is None:
            self._number = number(encode_one(self.object))
        return self._number

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = digest(self.number)
        return self._digest

    def encoded(self) -> bytes:
        """The message that puts it."""
        if self._encoded is None:
            raw = encode_one(self.object)
            self._number = number(raw)
            self._encoded = put(self.kind, raw, self.digest)
        return self._encoded


def put(kind: str, raw: bytes, digest: str) -> bytes:
    return encode_one(Put(kind=kind, object=msgspec.Raw(raw), digest=digest))


def gone(kind: str, key: str) -> bytes:
    return encode_one(Gone(kind=kind, id=key))


class MemberSet:
    """The members of one group: each as often as ports bring it."""

    __slots__ = ("_counts", "_number")

    def __init__(self) -> None:
        self._counts: Counter[Member] = Counter()
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._counts)

    def change(self, added: Iterable[Member], removed: Iterable[Member]) -> tuple[set[Member], set[Member]]:
        """Bring and take these; which of them are new to the group, and which it has no longer."""
        came: set[Member] = set()
        went: set[Member] = set()
        for member in added:
            self._counts[member] += 1
            if self._counts[member] == 1:
                came.add(member)
        for member in removed:
            self._counts[member] -= 1
            if not self._counts[member]:
                del self._counts[member]
                went.add(member)
        self._number += sum(map(_member_number, came)) - sum(map(_member_number, went))
        return came, went

    @property
    def digest(self) -> str:
        return digest(self._number)

    @property
    def members(self) -> frozenset[Member]:
        return frozenset(self._counts)

    def encoded(self, key: str) -> list[bytes]:
        """The messages that put the whole group."""
        everything = sorted(self._counts, key=lambda m: (m.ip_address, m.mac_address))
        first = GroupMembers(id=key, members=frozenset(everything[:MOST_MEMBERS]))
        parts = [everything[i : i + MOST_MEMBERS] for i in range(MOST_MEMBERS, len(everything), MOST_MEMBERS)]
        out = [put("group_members", msgspec.json.encode(first), "" if parts else self.digest)]
        for i, part in enumerate(parts, 1):
            whole = self.digest if i == len(parts) else ""  # only with the last one the host has what the digest says
            out.append(encode_one(Members(id=key, added=tuple(part), digest=whole)))
        return out


def _member_number(member: Member) -> int:
    return number(f"{member.ip_address} {member.mac_address}".encode())
