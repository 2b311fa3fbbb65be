"""Alembic's environment: migrations run on the connection that `schema.py` passes."""

from alembic import context

from neutrino.server.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
