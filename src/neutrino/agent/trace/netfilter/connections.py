"""Connections of packets that were traced before: a reply is translated back as its first packet was translated.

A question about a reply follows one about the first packet, and no real packet was sent in between, so the kernel's
connection tracker does not know the connection. The number of remembered connections is limited.
"""

from collections import OrderedDict
from collections.abc import Iterable

from neutrino.dataplane.inspection.api import TrackedConnection, Tuple5

LIMIT = 512


class TracedConnections:
    """May be used from any thread that holds the tracer's lock."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Tuple5], TrackedConnection] = OrderedDict()  # by namespace and direction

    def remember(self, namespace: str, connection: TrackedConnection) -> None:
        for way in (connection.original, connection.reply):
            self._known.pop((namespace, way), None)
            self._known[namespace, way] = connection
        while len(self._known) > LIMIT:
            self._known.popitem(last=False)

    def find(self, namespace: str, packet: Tuple5) -> TrackedConnection | None:
        return self._known.get((namespace, packet))


def choose(
    actual: Iterable[TrackedConnection], remembered: TrackedConnection | None, packet: Tuple5, *, reply: bool
) -> tuple[TrackedConnection | None, bool]:
    """The connection of a packet, and whether the packet is a reply in it. An actual one counts more than a remembered one.

    `reply`: what the question says. A first packet never takes a remembered connection: rules may have changed since. ICMP
    may have several actual ones, as identifiers are not compared: a reply is of the one that its first packet had.
    """
    several = list(actual)
    if reply and remembered is not None and remembered.reply == packet:
        several.sort(key=lambda each: (each.original, each.reply) != (remembered.original, remembered.reply))
    for connection in several:
        if connection.original == packet:
            return connection, False
        if connection.reply == packet:
            return connection, True
    if remembered is not None and reply and remembered.reply == packet:
        return remembered, True
    return None, reply
