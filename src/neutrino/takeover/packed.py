"""Rows of many columns as lists of values.

PyMySQL decodes every value of every row in Python, which is most of the work of an import: so MariaDB gives each row as a
JSON array. Values are those of JSON: a time is text, a boolean a number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import CursorResult

from neutrino.server.db.sql import Selection

_decode: Final = msgspec.json.Decoder(list[Any]).decode
_PLAIN: Final = (sa.String, sa.Integer, sa.Boolean, sa.DateTime)  # types whose values JSON has


@dataclass(frozen=True)
class Packed:
    """A statement, and how its rows become lists of values."""

    statement: Selection
    names: Sequence[str]
    is_packed: bool

    def values(self, result: CursorResult[Any]) -> Iterable[Sequence[Any]]:
        # All at once: to fetch them one by one takes SQLAlchemy longer than to decode them.
        return map(_decode, result.scalars().all()) if self.is_packed else result.all()


def packed(statement: Selection, dialect: sa.Dialect) -> Packed:
    """The statement as a database gives its rows fastest."""
    columns = statement.selected_columns
    names = tuple(columns.keys())
    if dialect.driver != "pymysql" or not all(isinstance(one.type, _PLAIN) for one in columns):
        return Packed(statement, names, is_packed=False)
    array = sa.func.json_array(*columns)
    return Packed(statement.with_only_columns(array, maintain_column_froms=True), names, is_packed=True)
