"""Imports from a database of Neutron."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import flags, json, primary_id, table, text

# One row per run: a database with such a row is a copy of Neutron's, so that what Neutron has deleted is deleted here.
takeovers = table(
    "takeovers",
    primary_id(),
    text(255, "source"),  # Neutron's database, without credentials
    text(16, "release"),
    text(20, "started_at"),
    text(20, "finished_at", nullable=True),
    flags("final", default=False, server_default=sa.false()),
    json("counts", empty="{}"),
)
