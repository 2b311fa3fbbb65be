"""Writing objects: what inserts, updates and deletes have in common."""

import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.changed_values import changed_values
from neutrino.server.db.transaction import Transaction, now


def new_id() -> str:
    return str(uuid.uuid4())


def fresh(values: Values, revision: int = 1) -> Object:
    """A new object: the given values with an id, timestamps and a first revision."""
    at = now()
    return {
        "id": new_id(),
        "tenant_id": values["project_id"],
        "description": "",
        "tags": [],
        "created_at": at,
        "updated_at": at,
        "revision_number": revision,
        **values,
    }


def as_row(table: sa.Table, values: Values, renamed: Mapping[str, str] | None = None) -> Object:
    """The row of an object: its columns under their names, lists and dictionaries as JSON text."""
    columns = _columns(table)
    if not renamed:
        return {name: encode(value) if columns[name] else value for name, value in values.items() if name in columns}
    row: Object = {}
    for name, value in values.items():
        column = renamed.get(name, name)
        is_json = columns.get(column)
        if is_json is not None:
            row[column] = encode(value) if is_json else value
    return row


@cache
def _columns(table: sa.Table) -> dict[str, bool]:
    """The columns of a table, and whether each is JSON."""
    return {column.name: isinstance(column.type, sa.Text) for column in table.c}


_encoder = msgspec.json.Encoder()


def encode(value: object) -> str:
    return _encoder.encode(value).decode()


def decode(text: str) -> Any:
    return msgspec.json.decode(text)


def exists(connection: Connection, *conditions: sa.ColumnElement[bool]) -> bool:
    """Whether some row meets the conditions, which name its table."""
    return connection.execute(sa.select(sa.literal(1)).where(*conditions).limit(1)).first() is not None


def check_revision(before: Values, revision: int | None) -> None:
    """Check the client's `If-Match` again on the object that is read for the change."""
    if revision is not None and before["revision_number"] != revision:
        raise errors.RevisionNumberConstraintFailed(expected=revision, current=before["revision_number"])


def changed(before: Values, values: Values, bump: int = 1) -> Object:
    """An object after a change: with the values, the next revision and the current time."""
    return {**before, **values, "updated_at": now(), "revision_number": before["revision_number"] + bump}


def update_row(
    tx: Transaction,
    table: sa.Table,
    before: Values,
    values: Values,
    *,
    renamed: Mapping[str, str] | None = None,
    bump: int = 1,
) -> Object:
    """Update an object if it has not changed since `before` was read; returns its new revision and time.

    Values from `changed` keep their revision. An object without a revision is updated if it exists.
    """
    stamp: Object = {}
    if "revision_number" in table.c:
        stamp = {"updated_at": now(), "revision_number": before["revision_number"] + bump}
        # Mechanism drivers have been given the object with that revision: it has to be the stored one.
        if values.get("revision_number", 0) > before["revision_number"]:
            stamp = {name: values[name] for name in stamp}
    row = as_row(table, {**values, **stamp}, renamed)
    if row:
        tx.change(_update(table), row | _key(table, before))
    history = t.history_of(table)
    if history is not None:
        tx.log(table, before, changed=changed_values(before, values, history.secrets))
    return stamp


def delete_row(tx: Transaction, table: sa.Table, before: Values) -> None:
    """Delete an object if it has not changed since `before` was read; it does not count against a quota any more."""
    tx.change(_delete(table), _key(table, before))
    tx.log(table, before, deleted=True)
    if quota := t.quota_of(table):
        tx.use(quota, before["project_id"], -1)


def _as_read(table: sa.Table) -> sa.ColumnElement[bool]:
    """The condition of optimistic writes: if the object has changed since, no row matches and the write is Stale."""
    same = table.c.id == sa.bindparam("as_read", type_=sa.String)
    if "revision_number" not in table.c:
        return same
    return sa.and_(same, table.c.revision_number == sa.bindparam("revision_as_read", type_=sa.Integer))


def _key(table: sa.Table, before: Values) -> Object:
    """The parameters of `_as_read`."""
    if "revision_number" not in table.c:
        return {"as_read": before["id"]}
    return {"as_read": before["id"], "revision_as_read": before["revision_number"]}


@cache
def _update(table: sa.Table) -> sa.Update:
    return sa.update(table).where(_as_read(table))


@cache
def _delete(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(_as_read(table))
