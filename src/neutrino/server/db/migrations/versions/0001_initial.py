"""The first schema: the base of the migrations. New databases are created from `db/tables/`, not by migrations."""

revision = "0001"
down_revision = None
