"""Whether Neutron's database may be read as a whole.

MariaDB hides tables and columns that a user may not read, as if a release did not have them: the import would take them for
empty, and go on.
"""

from collections.abc import Collection, Iterator
from typing import Final

import sqlalchemy as sa

from neutrino.server.db.failures import mysql_number
from neutrino.takeover.source import Source, SourceError

_DENIED: Final = (1142, 1143)  # a table, a column
_SHOWN: Final = 5  # tables that the message names
_OF_POSTGRESQL: Final = sa.text(
    "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace "
    "AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY c.relname"
)


def check_rights(source: Source, known: Collection[str]) -> None:
    """Refuse a user who may not read some table; `known`: tables that are read if a release has them."""
    denied = list(_denied(source, known))
    if not denied:
        return
    more = f" and {len(denied) - _SHOWN} more" if len(denied) > _SHOWN else ""
    raise SourceError(
        f"Neutron's database {source.name} cannot be read: its user has no right to SELECT from "
        f"{', '.join(denied[:_SHOWN])}{more}. {_remedy(source)}"
    )


def _denied(source: Source, known: Collection[str]) -> Iterator[str]:
    match source.connection.dialect.name:
        case "postgresql":
            yield from source.connection.execute(_OF_POSTGRESQL).scalars()
        case "mysql" | "mariadb":
            for name in sorted({*known, *source.tables}):
                try:
                    source.connection.execute(sa.select(sa.text("*")).select_from(sa.table(name)).limit(0)).close()
                except sa.exc.DBAPIError as error:
                    if mysql_number(error) in _DENIED:
                        yield name


def _remedy(source: Source) -> str:
    """The statement that helps, for a user with the right to give it."""
    preparer = source.connection.dialect.identifier_preparer
    if source.connection.dialect.name == "postgresql":
        schema, user = source.connection.execute(sa.text("SELECT current_schema(), current_user")).one()
        return f"GRANT SELECT ON ALL TABLES IN SCHEMA {preparer.quote(schema)} TO {preparer.quote(user)}"
    database, account = source.connection.execute(sa.text("SELECT DATABASE(), CURRENT_USER()")).one()
    user, _, host = account.rpartition("@")
    return f"GRANT SELECT ON {preparer.quote(database)}.* TO '{user}'@'{host}'"
