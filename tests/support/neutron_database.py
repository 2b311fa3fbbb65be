"""The recorded database of a real Neutron (tests/data/takeover), loaded into any kind of database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

DATA = Path(__file__).parents[1] / "data" / "takeover"
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "boolean": sa.Boolean(),
    "datetime": sa.DateTime(),
    "integer": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "float": sa.Float(),
    "text": sa.Text(),
    "binary": sa.LargeBinary(),
    "string": sa.String(255),
}
_COUNTED = "standardattributes"  # its ids are given by the database
_LONG = sa.Text()  # MariaDB limits the length of a row


@cache
def recorded_tables(directory: Path = DATA) -> tuple[dict[str, Any], ...]:
    """The tables as recorded: name, columns, key, rows."""
    return tuple(json.loads(line) for line in (directory / "database.jsonl").read_text(encoding="utf-8").splitlines())


@cache
def recorded_answers(directory: Path = DATA) -> dict[str, list[dict[str, Any]]]:
    """The collections as Neutron's API showed them to an administrator."""
    answers: dict[str, list[dict[str, Any]]] = json.loads((directory / "answers.json").read_text(encoding="utf-8"))
    return answers


def load(url: sa.URL | str, directory: Path = DATA) -> None:
    """Create the recorded tables, without constraints but their keys, and insert their rows."""
    engine = sa.create_engine(url)
    metadata = sa.MetaData()
    rows: list[tuple[sa.Table, list[dict[str, Any]]]] = []
    for recorded in recorded_tables(directory):
        columns = [
            sa.Column(
                name,
                _type(kind, name in recorded["key"]),
                primary_key=name in recorded["key"],
                autoincrement=recorded["table"] == _COUNTED,
            )
            for name, kind in recorded["columns"].items()
        ]
        table = sa.Table(recorded["table"], metadata, *columns)
        names = list(recorded["columns"])
        kinds = list(recorded["columns"].values())
        rows.append(
            (
                table,
                [
                    {n: recorded_value(v, k) for n, k, v in zip(names, kinds, row, strict=True)}
                    for row in recorded["rows"]
                ],
            )
        )
    with engine.begin() as connection:
        metadata.create_all(connection)
        for table, some in rows:
            if some:
                connection.execute(sa.insert(table), some)
        if engine.dialect.name == "postgresql":
            last = f"SELECT setval('{_COUNTED}_id_seq', (SELECT MAX(id) FROM {_COUNTED}))"
            connection.execute(sa.text(last))
    engine.dispose()


def _type(kind: str, is_key: bool) -> sa.types.TypeEngine[Any]:
    return _LONG if kind == "string" and not is_key else _TYPES[kind]


def recorded_value(value: Any, kind: str) -> Any:
    """A value of a row as the database takes it."""
    if value is None:
        return None
    if kind == "datetime":
        return datetime.fromisoformat(value)
    return bool(value) if kind == "boolean" else value
