"""Rows of some objects, or of all: one statement for as many ids as it bears."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

Ids = Sequence[str] | None  # None: all
MOST_IDS = 1000


def read_rows(
    connection: Connection, statement: sa.Select[Any], column: Any, ids: Iterable[str] | None
) -> Iterator[Any]:
    """What the statement finds for these values of a column; None: for all of them."""
    if ids is None:
        for rows in connection.execute(statement).partitions(MOST_IDS):
            yield from rows
        return
    several = list(ids)
    for start in range(0, len(several), MOST_IDS):
        yield from connection.execute(statement.where(column.in_(several[start : start + MOST_IDS])))
