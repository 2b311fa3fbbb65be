"""The tables and columns of Neutron 2026.2 that families read (`neutron_schema.json`), by the migrations that create them.

Of the releases that are known, older ones lack some, which read as empty. A release that is not known must have all.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import msgspec

FILE: Final = "neutron_schema.json"
Columns = Mapping[str, frozenset[str]]  # by table


class Schema(msgspec.Struct, frozen=True):
    core: Columns
    plugins: Mapping[str, Columns]  # by the table of versions of their branch
    unread: Columns  # columns of these tables that the import does not need


@cache
def _schema() -> Schema:
    return msgspec.json.decode((resources.files(__package__) / FILE).read_bytes(), type=Schema)


def required(tables: frozenset[str]) -> dict[str, frozenset[str]]:
    """The columns that the import reads, by table: those of Neutron, and of plugins whose branch the database has."""
    schema = _schema()
    found = dict(schema.core)
    for branch, of_plugin in schema.plugins.items():
        if branch in tables:
            found |= of_plugin
    return found


def unread(table: str) -> frozenset[str]:
    """Columns of a table that are known, and not needed."""
    return _schema().unread.get(table, frozenset())
