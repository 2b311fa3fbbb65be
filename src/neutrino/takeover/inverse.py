"""The inverse of a family: rows of ours become rows of Neutron's, for the way back.

A row of a table with standard attributes has them as `standard_…`, as the reader gives them, and may have `tags` and
`blocks`, which belong to the standard attributes in Neutron's schema.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server.db.objects import decode
from neutrino.takeover.deviations import Deviations

BATCH: Final = 500
STANDARD_PREFIX: Final = "standard_"
TAGS: Final = "tags"
BLOCKS: Final = "blocks"  # components that a port waits for


@dataclass(frozen=True)
class Theirs:
    """A table of Neutron's whose rows belong to the objects of a family."""

    table: str
    owner: str = "id"  # the column with the key of the object
    identity: tuple[
        str, ...
    ] = ()  # the columns that tell rows apart, where the primary key is only a number of the row
    once: frozenset[str] = frozenset()  # columns that only a new row gets: hosts or Neutron's server write them later
    numbered: str = ""  # a column that counts the rows of an object


@dataclass
class Parts:
    """Rows of some of our objects, with JSON decoded, and the rows of Neutron's that they become."""

    connection: Connection
    kind: str  # Neutron's table of the objects
    rows: Mapping[sa.Table, Sequence[Object]]
    deviations: Deviations
    decomposed: dict[str, list[Object]] = field(default_factory=dict)

    def of(self, table: sa.Table, owner: str) -> dict[object, list[Object]]:
        """The rows of a table of the family by the object that they belong to."""
        return grouped(self.rows[table], owner)

    def among(self, table: sa.Table, column: str, keys: Collection[object]) -> list[Object]:
        """Rows of any table of ours."""
        return read_rows(self.connection, table, column, keys)

    def add(self, table: str, values: Values) -> None:
        self.decomposed.setdefault(table, []).append(dict(values))

    def refuse(self, object_id: object, reason: str) -> None:
        self.deviations.refuse(self.kind, object_id, reason)


def read_rows(
    connection: Connection, table: sa.Table, column: str, keys: Collection[object] | None = None
) -> list[Object]:
    """Rows of ours, with JSON decoded; without keys all."""
    texts = [one.name for one in table.columns if isinstance(one.type, sa.Text)]
    rows: list[Object] = []
    wanted = [None] if keys is None else sorted({key for key in keys if key is not None}, key=str)
    for start in range(0, len(wanted), BATCH):
        statement = sa.select(table)
        if keys is not None:
            statement = statement.where(table.c[column].in_(wanted[start : start + BATCH]))
        for found in connection.execute(statement).mappings():
            row = dict(found)
            rows.append({**row, **{name: decode(row[name]) for name in texts if row[name] is not None}})
    return rows


def grouped(rows: Sequence[Object], column: str) -> dict[object, list[Object]]:
    out: dict[object, list[Object]] = defaultdict(list)
    for row in rows:
        out[row[column]].append(row)
    return out


def moment(text: str | None) -> datetime | None:
    """A time of the API as the column of Neutron has it."""
    return datetime.fromisoformat(text).replace(tzinfo=None) if text else None


def as_text(value: object) -> str:
    """JSON as Neutron writes it: nothing for an empty value."""
    return json.dumps(value) if value else ""


def standard_columns(row: Values) -> Object:
    """What all objects have: id, project, name, description, times, revision and tags."""
    return {
        "id": row["id"],
        "project_id": row["project_id"],
        "name": row["name"],
        f"{STANDARD_PREFIX}description": row["description"],
        f"{STANDARD_PREFIX}created_at": moment(row["created_at"]),
        f"{STANDARD_PREFIX}updated_at": moment(row["updated_at"]),
        f"{STANDARD_PREFIX}revision_number": row["revision_number"],
        TAGS: row[TAGS],
    }
