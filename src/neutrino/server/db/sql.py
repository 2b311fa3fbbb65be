"""Types of SQLAlchemy as the server uses them, by what they are for."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypedDict

import sqlalchemy as sa

from neutrino.model.objects import Values

Condition = sa.ColumnElement[bool]
Column = sa.Column[Any]
Columns = list[Column]
ColumnType = sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]]
Expression = sa.ColumnElement[Any]  # the value of a column, or computed from some
Selection = sa.Select[*tuple[Any, ...]]  # of whichever columns
Row = tuple[Any, ...]
Parameters = Values | Sequence[Values]  # of a statement: of one execution, or of several
DriverParameters = Values | tuple[object, ...] | None  # of one execution, in the style of the driver


class ColumnOptions(TypedDict, total=False):
    """Options of a column that tables here use."""

    nullable: bool
    default: object
    index: bool
    unique: bool
    primary_key: bool
    autoincrement: bool
    server_default: str | sa.TextClause | sa.ColumnElement[bool]


class NamedRow(Protocol):
    """A row that was read: its columns by their names, or in their order."""

    def __getattr__(self, name: str) -> Any: ...

    def __getitem__(self, index: int, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...
