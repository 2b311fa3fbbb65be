"""Which hosts follow what, and how often: a network is followed by each of a host's ports on it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Set

_NOTHING: Set[str] = frozenset()


class Follow:
    """A relation between hosts and ids that counts: both directions are one look-up."""

    def __init__(self) -> None:
        self._ids: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._hosts: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, host: str, key: str) -> bool:
        """One reason more; whether it is the first."""
        counts = self._ids[host]
        counts[key] += 1
        if counts[key] > 1:
            return False
        self._hosts[key].add(host)
        return True

    def remove(self, host: str, key: str) -> bool:
        """One reason less; whether it was the last."""
        counts = self._ids[host]
        counts[key] -= 1
        if counts[key] > 0:
            return False
        del counts[key]
        if not counts:
            del self._ids[host]
        self._hosts[key].discard(host)
        if not self._hosts[key]:
            del self._hosts[key]
        return True

    def has(self, host: str, key: str) -> bool:
        return host in self._hosts.get(key, _NOTHING)

    def hosts(self, key: str) -> Set[str]:
        return self._hosts.get(key, _NOTHING)

    def ids(self, host: str) -> Set[str]:
        return self._ids[host].keys() if host in self._ids else _NOTHING
