"""Types of SQLAlchemy as the server uses them, by what they are for."""

from collections.abc import Iterator
from typing import Any, Protocol

import sqlalchemy as sa

Condition = sa.ColumnElement[bool]
Expression = sa.ColumnElement[Any]  # the value of a column, or computed from some
Selection = sa.Select[*tuple[Any, ...]]  # of whichever columns


class NamedRow(Protocol):
    """A row that was read: its columns by their names, or in their order."""

    def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, index: int, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...
