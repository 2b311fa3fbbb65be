"""Reads records from the database: all of them once, then those that change-log rows affect, each in few queries."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from sqlalchemy.engine import Connection

from neutrino.server.feed.change_log import Row
from neutrino.server.feed.declarations import Changed, Sources
from neutrino.server.feed.records import Records


def read_all(connection: Connection, sources: Sources) -> Records:
    return {source: dict(read(connection, None)) for source, read in sources.readers.items()}


def read_changed(
    connection: Connection,
    sources: Sources,
    rows: Iterable[Row],
    last_networks: Callable[[Collection[str]], Collection[str]] = lambda port_ids: (),
) -> Records:
    """The records that change-log rows affect, as they are now: at least as new as the rows.

    `last_networks` gives the networks of ports that may have been deleted meanwhile.
    """
    # The ids of records by source, as an ordered set: those named, and those whose content is derived from them.
    ids: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        ids[row.kind][row.object_id] = None
    named = {kind: list(some) for kind, some in ids.items()}
    lost = list(last_networks(named.get("port", ())))
    for rule in sources.affects:
        if any(named.get(kind) for kind in rule.named) or any(ids[source] for source in rule.affected):
            changed = Changed(named, {source: list(some) for source, some in ids.items()}, lost)
            ids[rule.records] |= dict.fromkeys(rule.find(connection, changed))
    return {
        source: {**dict.fromkeys(ids[source]), **dict(read(connection, list(ids[source])))}  # None: deleted
        for source, read in sources.readers.items()
        if ids[source]
    }
