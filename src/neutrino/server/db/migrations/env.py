"""Alembic's environment: migrations run on the connection that `schema.py` passes."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
