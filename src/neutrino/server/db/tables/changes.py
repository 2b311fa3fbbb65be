"""What the server owes to others: the change log for the hosts, the journal for drivers."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, Json, Serial, table

# Appended to in the transaction that makes the change; read by the feed. Ids may be committed in another order than they
# were given: a row's place is its position, which the feed gives to rows that it sees committed.
changes = table(
    "changes",
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("object_id", Id, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("deleted", sa.Boolean, nullable=False, default=False),
    sa.Column("at", sa.String(20), nullable=False),
    sa.Column("position", sa.BigInteger, nullable=True),
    sa.Index("uq_changes_position", "position", unique=True),
)

# One row: the position given last, and the last one whose row was removed. The identity tells databases apart.
change_head = table(
    "change_head",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("identity", Id, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("removed", sa.BigInteger, nullable=False),
)

# A postcommit that is still to run: written with the change, taken away after it ran, replayed after a crash.
journal = table(
    "journal",
    sa.Column("id", Id, primary_key=True),
    sa.Column("operation", sa.String(64), nullable=False),
    sa.Column("object_id", Id, nullable=False),
    sa.Column("before", Json, nullable=True),
    sa.Column("after", Json, nullable=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("owner", sa.String(64), nullable=False),
)
