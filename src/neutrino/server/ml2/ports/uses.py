"""How a feature depends on ports: one declaration of what happens to it, and what it refuses, when a port changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.context import Context
from neutrino.server.db.reads import Lookup, Read, scalars
from neutrino.server.db.transaction import Transaction
from neutrino.server.uses import Write as Write

# Called with a port before and after a change (None: does not exist); may refuse it, or return further rows to write.
TransactionHook = Callable[[Connection, Context, Object | None, Object | None], Write | None]
DeleteCheck = Callable[[Connection, Object], None]  # refuses the deletion of a port


@dataclass(frozen=True)
class PortUse:
    # The columns that refer to ports: the feature is asked about the deletion of a port that has such rows, of no other.
    columns: Sequence[sa.Column[str]] = ()
    check_delete: DeleteCheck | None = None
    changes: TransactionHook | None = None
    # Called with a port as it was read, in the transaction that binds it to a host.
    on_bind: Callable[[Transaction, Object], None] | None = None


def reading_uses(uses: Sequence[PortUse], port_id: str) -> list[Read[list[PortUse]]]:
    """Those of the uses that have rows of a port, to be read together with other things; nothing if none can have."""
    columns = tuple((number, column) for number, use in enumerate(uses) for column in use.columns)
    if not columns:
        return []
    return [_uses_of_port(columns)(port=port_id).then(lambda numbers: [uses[number] for number in sorted({*numbers})])]


@cache
def _uses_of_port(columns: tuple[tuple[int, sa.Column[str]], ...]) -> Lookup[list[int]]:
    port = sa.bindparam("port", type_=sa.String)
    selects = [sa.select(sa.literal(number)).where(column == port) for number, column in columns]
    return Lookup(sa.union_all(*selects), scalars)


def users_of(connection: Connection, uses: Sequence[PortUse], port_ids: sa.Select[tuple[str]]) -> list[set[str]]:
    """Return for each use the ports, of these, that it has rows of: in one query."""
    selects = [
        sa.select(sa.literal(number).label("number"), column.label("port_id")).where(column.in_(port_ids))
        for number, use in enumerate(uses)
        for column in use.columns
    ]
    users: list[set[str]] = [set() for _ in uses]
    for row in connection.execute(sa.union_all(*selects)) if selects else ():
        users[row.number].add(row.port_id)
    return users
