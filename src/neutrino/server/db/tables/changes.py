"""The change log."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import Serial, flags, optional_ids, table, text

# Appended to in the transaction of the change; read by the feed. Transactions may commit in another order than their ids
# were given, so the order of rows is `position`, which the feed assigns to rows that it sees committed.
changes = table(
    "changes",
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    text(32, "kind"),
    optional_ids("object_id", nullable=False),
    flags("deleted", default=False),
    flags("created", default=False, server_default=sa.false()),
    text(20, "at"),
    text(255, "project_id", nullable=True),  # of the object; unknown: only administrators see the row
    text(64, "request_id", nullable=True),  # of the API request that made the change; none: a host's report, a sweep
    sa.Column("position", sa.BigInteger, nullable=True),
    sa.Index("uq_changes_position", "position", unique=True),
    sa.Index("ix_changes_object_id", "object_id"),
    sa.Index("ix_changes_project_id_position", "project_id", "position"),
)

# One row: the highest position assigned and the highest one removed. The identity tells databases apart.
change_head = table(
    "change_head",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    optional_ids("identity", nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("removed", sa.BigInteger, nullable=False),
)
