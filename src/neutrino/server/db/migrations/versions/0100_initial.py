"""The first schema. New databases are created from the declared tables (`schema.py`), not by migrations."""

revision = "0100"
down_revision = None


def upgrade() -> None:
    """Nothing: no database has an earlier version."""
