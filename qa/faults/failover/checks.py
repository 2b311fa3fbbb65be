"""What must hold in the database after a fault, when the load has ended and all nodes are members again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from qa.faults.failover.ledger import Entry, Found, violations
from tests.faults import integrity

_TABLES = {"port": t.ports, "network": t.networks}
# What each process or host writes at any time: equal at the same moment only.
_VOLATILE = frozenset({"agents", "server_processes", "changes", "change_head", "host_queries"})


def found(db: Database) -> list[Found]:
    """The objects of the writers."""
    rows = []
    with db.read() as connection:
        for kind, table in _TABLES.items():
            wanted = sa.select(table.c.description, table.c.name).where(table.c.description != "")
            rows += [Found(kind, row.description, row.name) for row in connection.execute(wanted)]
    return rows


def check(db: Database, entries: Sequence[Entry], where: str) -> list[str]:
    """All violations that this node shows."""
    wrong = [f"{where}: {one}" for one in (*violations(entries, found(db)), *log_order(db))]
    try:
        integrity.check(db)
    except AssertionError as error:
        wrong.append(f"{where}: {error}")
    return wrong


def log_order(db: Database) -> list[str]:
    """Positions of the change log are without gap, and none was given twice."""
    c, h = t.changes.c, t.change_head.c
    with db.read() as connection:
        head, removed = connection.execute(sa.select(h.position, h.removed).where(h.id == 1)).one()
        positions = list(
            connection.execute(sa.select(c.position).where(c.position.is_not(None)).order_by(c.position)).scalars()
        )
    wrong = []
    if positions and positions[-1] > head:
        wrong.append(f"position {positions[-1]} is beyond the head {head} of the change log")
    wanted = set(range(removed + 1, head + 1))
    if missing := sorted(wanted - set(positions)):
        wrong.append(f"{len(missing)} positions of the change log are missing, such as {missing[:5]}")
    if len(positions) != len(set(positions)):
        wrong.append("a position of the change log was given twice")
    return wrong


def unfinished_ports(db: Database) -> list[str]:
    """Ports that are bound to a connected host, and not ACTIVE."""
    p, b = t.ports.c, t.provisioning_blocks.c
    columns = (p.id, p.status, p.host, p.vif_type, p.revision_number)
    with db.read() as connection:
        rows = connection.execute(sa.select(*columns).where(p.host != "", p.status != "ACTIVE")).all()
        blocks = connection.execute(sa.select(b.port_id, b.component)).all()
    return [
        f"port {row.id} of host {row.host} is {row.status}: vif_type {row.vif_type}, revision {row.revision_number}, "
        f"blocks {[block.component for block in blocks if block.port_id == row.id]}"
        for row in rows
    ]


def contents(db: Database) -> dict[str, str]:
    """A digest of each table, to compare nodes."""
    made = {}
    with db.read() as connection:
        for table in t.metadata.sorted_tables:
            if table.name not in _VOLATILE:
                rows = connection.execute(sa.select(table).order_by(*table.primary_key.columns)).all()
                made[table.name] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return made
