"""Subscription index: which hosts need which objects, reference-counted and with the cause of each reference. Pure.

A topic is what a host subscribes to: a kind and a key, which is the id of one object or of what a set of objects belongs to
(all ports of a network). A host refers to topics because of a cause, such as one of its ports. A topic may itself
refer to others (a security group to its remote groups): every host subscribed to it is then subscribed to those.

Causes are replaced as a whole, so callers pass the current references and never pair an addition with a removal.
"""

from collections import defaultdict
from collections.abc import Callable, Set

Topic = tuple[str, str]  # kind, key
NO_TOPICS: frozenset[Topic] = frozenset()
_EMPTY: Set[str] = frozenset()


class Subscriptions:
    def __init__(self, notify: Callable[[str, str, str], None]) -> None:
        """`notify(host, kind, key)` is called when a host gains or loses a topic."""
        self._notify = notify
        self._hosts: dict[Topic, set[str]] = {}
        self._counts: dict[Topic, dict[str, int]] = {}  # (host, kind) → key → number of causes
        self._causes: defaultdict[str, dict[Topic, frozenset[Topic]]] = defaultdict(dict)  # host → cause → topics
        self._references: dict[Topic, frozenset[Topic]] = {}  # topic → topics

    def has(self, host: str, kind: str, key: str) -> bool:
        return host in self._hosts.get((kind, key), _EMPTY)

    def hosts(self, kind: str, key: str) -> Set[str]:
        return self._hosts.get((kind, key), _EMPTY)

    def keys(self, host: str, kind: str) -> Set[str]:
        counts = self._counts.get((host, kind))
        return _EMPTY if counts is None else counts.keys()

    def refer(self, host: str, cause: Topic, topics: frozenset[Topic]) -> None:
        """Set the topics that a host needs because of a cause."""
        causes = self._causes[host]
        before = causes.get(cause, NO_TOPICS)
        if before == topics:
            return
        if topics:
            causes[cause] = topics
        else:
            del causes[cause]
        for topic in topics - before if before else topics:
            self._add(host, topic)
        # Removals last: a topic that stays needed through a new reference is not lost and gained again in between.
        for topic in before - topics:
            self._remove(host, topic)

    def link(self, topic: Topic, topics: frozenset[Topic]) -> None:
        """Set the topics that a topic refers to."""
        if topics:
            self._references[topic] = topics
        else:
            self._references.pop(topic, None)
        for host in tuple(self.hosts(*topic)):
            self.refer(host, topic, topics)

    def _add(self, host: str, topic: Topic) -> None:
        kind, key = topic
        counts = self._counts.get((host, kind))
        if counts is None:
            counts = self._counts[host, kind] = {}
        # Counted: ten ports on a network are ten causes, and the host loses the network only with the last of them.
        count = counts.get(key, 0)
        counts[key] = count + 1
        if not count:
            self._hosts.setdefault(topic, set()).add(host)
            self._notify(host, kind, key)
            self.refer(host, topic, self._references.get(topic, NO_TOPICS))

    def _remove(self, host: str, topic: Topic) -> None:
        kind, key = topic
        counts = self._counts[host, kind]
        counts[key] -= 1
        if counts[key]:
            return
        del counts[key]
        if not counts:
            del self._counts[host, kind]
        self._hosts[topic].discard(host)
        if not self._hosts[topic]:
            del self._hosts[topic]
        self._notify(host, kind, key)
        # What the host had only through this topic goes with it, recursively: groups that a lost group refers to.
        self.refer(host, topic, NO_TOPICS)
