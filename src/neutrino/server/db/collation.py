"""Collation of MariaDB's tables: texts are equal byte for byte, as on the other databases.

MariaDB's default ignores case, accents and trailing spaces: two tags, or two names of hosts, would be one. Earlier releases
created tables with that default if the URL begins with `mariadb`. An upgrade converts them before its migrations, whose new
tables could not reference the old ones otherwise. What was unique by the default is unique by bytes as well.

MariaDB changes no column of a foreign key, so the keys are dropped before and created again after. Every statement is
committed at once: the keys are kept in a table meanwhile, from which an upgrade that was interrupted creates them.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db.tables import metadata

LOG = logging.getLogger(__name__)
BYTEWISE: Final = "utf8mb4_nopad_bin"
_OTHERS = sa.text(
    "SELECT DISTINCT table_name FROM information_schema.columns"
    " WHERE table_schema = database() AND collation_name <> :collation ORDER BY table_name"
)
# Not a table of the schema: it exists during a conversion only.
_KEYS = sa.Table(
    "dropped_foreign_keys",
    sa.MetaData(),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(64), nullable=False),
    sa.Column("definition", sa.Text, nullable=False),
)


def convert(connection: Connection, collation: str = BYTEWISE) -> list[str]:
    """Convert the tables that compare otherwise, each of which is written anew; gives their names."""
    if connection.dialect.name not in ("mysql", "mariadb"):
        return []
    found = connection.execute(_OTHERS, {"collation": collation}).scalars()
    names = [name for name in found if name in metadata.tables]
    if names and not sa.inspect(connection).has_table(_KEYS.name):
        LOG.info("converting the collation of %d tables to %s", len(names), collation)
        keys = list(_foreign_keys(connection, names))
        _KEYS.create(connection)
        if keys:
            connection.execute(sa.insert(_KEYS), keys)
        connection.commit()
    if not sa.inspect(connection).has_table(_KEYS.name):
        return []
    keys = [dict(row) for row in connection.execute(sa.select(_KEYS).order_by(_KEYS.c.name)).mappings()]
    for key in keys:
        if key["name"] in _existing(connection, key["table_name"]):
            connection.exec_driver_sql(f"ALTER TABLE `{key['table_name']}` DROP FOREIGN KEY `{key['name']}`")
    for name in names:
        connection.exec_driver_sql(f"ALTER TABLE `{name}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}")
    for key in keys:
        if key["name"] not in _existing(connection, key["table_name"]):
            connection.exec_driver_sql(f"ALTER TABLE `{key['table_name']}` ADD {key['definition']}")
    _KEYS.drop(connection)
    connection.commit()
    return names


def _existing(connection: Connection, table: str) -> set[str | None]:
    return {key["name"] for key in sa.inspect(connection).get_foreign_keys(table)}


def _foreign_keys(connection: Connection, tables: Collection[str]) -> Iterator[dict[str, str]]:
    """The foreign keys from and to these tables."""
    inspector = sa.inspect(connection)
    for table in inspector.get_table_names():
        for key in inspector.get_foreign_keys(table):
            if table in tables or key["referred_table"] in tables:
                definition = (
                    f"CONSTRAINT `{key['name']}` FOREIGN KEY ({_names(key['constrained_columns'])})"
                    f" REFERENCES `{key['referred_table']}` ({_names(key['referred_columns'])})"
                )
                if on_delete := key["options"].get("ondelete"):
                    definition += f" ON DELETE {on_delete}"
                yield {"name": str(key["name"]), "table_name": table, "definition": definition}


def _names(columns: Collection[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)
