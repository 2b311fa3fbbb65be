"""Limits of what hosts get as parts of one object, where quotas are unlimited by default, as in Neutron.

An object is one message to a host: without limits, a project could make one that no host can take, and cut hosts off that
serve others too. Requests at the same moment may exceed a limit by what they create.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db.sql import Column

PER_OBJECT: Final = 100


def check_number(
    connection: Connection,
    column: Column,
    ids: Iterable[str],
    kind: str,
    what: str,
    most: int = PER_OBJECT,
    rows: sa.FromClause | None = None,
) -> None:
    """Refuse new rows of which one object would have more than `most`.

    `ids`: the object of each of them, in `column`. `rows`: what is counted, if it is not the column's table.
    """
    new = Counter(ids)
    found = sa.select(column.label("id"), sa.func.count().label("number")).select_from(
        column.table if rows is None else rows
    )
    found = found.where(column.in_(new)).group_by(column)
    numbers = new + Counter({row.id: row.number for row in connection.execute(found)})
    for key, number in numbers.items():
        check_most(kind, key, number, what, most)


def check_most(kind: str, key: str, number: int, what: str, most: int) -> None:
    """Refuse an object that would have more than `most` parts."""
    if number > most:
        raise errors.TooManyOfObject(kind=kind, id=key, most=most, what=what)
