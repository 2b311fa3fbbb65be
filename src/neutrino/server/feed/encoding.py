"""Objects in the form that is sent: encoded once for all hosts that receive them, with a digest. Pure.

A host reports the digests that it was sent, so the server finds the difference without a copy of what the host has. The
digest of a set is the sum of its members' hashes: adding or removing one member needs no other, and order has no effect.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from neutrino.feed.digests import number_of, text_of
from neutrino.feed.messages import MAX_MEMBERS, Gone, Members, Put, encode_one
from neutrino.model.state import GroupMembers, Member, Object

_hash, digest = number_of, text_of


@dataclass(slots=True, eq=False)
class Item:
    """An object with its `put` message and digest, both made on first use, and kept if several hosts get the message."""

    kind: str
    object: Object
    is_shared: bool = True
    _encoded: bytes | None = None
    _number: int | None = None
    _digest: str | None = None

    @property
    def number(self) -> int:
        if self._number is None:
            self._number = _hash(encode_one(self.object))
        return self._number

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = digest(self.number)
        return self._digest

    def encoded(self) -> bytes:
        if self._encoded is not None:
            return self._encoded
        raw = encode_one(self.object)
        self._number = _hash(raw)
        encoded = _put(self.kind, raw, self.digest)
        if self.is_shared:
            self._encoded = encoded
        return encoded


def _put(kind: str, raw: bytes, digest: str) -> bytes:
    return encode_one(Put(kind=kind, object=msgspec.Raw(raw), digest=digest))


def with_request_id(encoded: bytes, request_id: str) -> bytes:
    """An encoded message with the request that caused it. Added here, as the encoding is shared by hosts and requests."""
    return b'%b,"request_id":%b}' % (encoded[:-1], encode_one(request_id))


def gone(kind: str, key: str) -> bytes:
    return encode_one(Gone(kind=kind, id=key))


@dataclass(slots=True, eq=False)
class MemberSet:
    """The members of one security group, each counted as often as ports bring it."""

    _counts: Counter[Member] = field(default_factory=Counter)
    _number: int = 0
    _encoded: list[bytes] | None = None  # made once for all hosts that need the whole group

    def __bool__(self) -> bool:
        return bool(self._counts)

    def change(self, added: Iterable[Member], removed: Iterable[Member]) -> tuple[set[Member], set[Member]]:
        """Count these; returns the members that are new in the group and those that left it."""
        new: set[Member] = set()
        lost: set[Member] = set()
        for member in added:
            self._counts[member] += 1
            if self._counts[member] == 1:
                new.add(member)
        for member in removed:
            self._counts[member] -= 1
            if not self._counts[member]:
                del self._counts[member]
                lost.add(member)
        if new or lost:
            self._number += sum(map(_member_hash, new)) - sum(map(_member_hash, lost))
            self._encoded = None
        return new, lost

    @property
    def digest(self) -> str:
        return digest(self._number)

    @property
    def members(self) -> frozenset[Member]:
        return frozenset(self._counts)

    def encoded(self, key: str) -> list[bytes]:
        """The messages that put the whole group, split by the bound on one message."""
        if not self._counts:  # not kept: all empty groups are one object
            return self._encode(key)
        if self._encoded is None:
            self._encoded = self._encode(key)
        return self._encoded

    def _encode(self, key: str) -> list[bytes]:
        members = sorted(self._counts, key=lambda m: (m.ip_address, m.mac_address))
        first = GroupMembers(id=key, members=frozenset(members[:MAX_MEMBERS]))
        parts = [members[i : i + MAX_MEMBERS] for i in range(MAX_MEMBERS, len(members), MAX_MEMBERS)]
        out = [_put("group_members", msgspec.json.encode(first), "" if parts else self.digest)]
        for i, part in enumerate(parts, 1):
            # Only the last part carries the digest: a connection lost before it must not leave a partial set as complete.
            whole = self.digest if i == len(parts) else ""
            out.append(encode_one(Members(id=key, added=tuple(part), digest=whole)))
        return out


def _member_hash(member: Member) -> int:
    return _hash(f"{member.ip_address} {member.mac_address}".encode())
