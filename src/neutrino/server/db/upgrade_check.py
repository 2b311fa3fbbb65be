"""What would stop or surprise an upgrade of the database to the schema of this release. Read only.

The database may have any schema, so tables and columns that it lacks are passed over.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Final, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database

Severity = Literal["error", "warning", "note"]  # an error stops the upgrade, a warning may surprise
RECENT: Final = timedelta(seconds=45)  # a process that has written its row since then runs
NAMED: Final = 5  # objects that a finding names


@dataclass(frozen=True)
class Remark:
    check: str
    severity: Severity
    what: str
    fix: str = ""


@dataclass(frozen=True)
class Migration:
    version: str
    what: str  # the first line of its documentation


def pending(found: str | None) -> list[Migration]:
    """The migrations that an upgrade from this version executes; none for an empty database, whose tables are created."""
    package = "neutrino.server.db.migrations.versions"
    names = sorted(module.name for module in iter_modules(import_module(package).__path__))
    after = [name for name in names if found is not None and name[:4] > found]
    return [
        Migration(name[:4], (import_module(f"{package}.{name}").__doc__ or "").strip().split("\n")[0]) for name in after
    ]


def check(db: Database, more: Sequence[sa.Table], release: str, *, auto_upgrade: bool) -> Iterator[Remark]:
    """`more`: tables of further packages."""
    found = schema.version(db)
    yield from _schema(found, auto_upgrade=auto_upgrade)
    if found is None or not schema.FIRST <= found <= schema.HEAD:
        return
    with db.read() as connection:
        columns = {
            name: {column["name"] for column in described}
            for (_, name), described in sa.inspect(connection).get_multi_columns().items()
        }
        if missing := sorted(table.name for table in more if table.name not in columns):
            yield Remark("tables", "note", f"tables of further packages are created: {', '.join(missing)}")
        yield from _processes(connection, release, is_newer=found != schema.HEAD)
        yield from _agents(connection)
        yield from _unfinished(connection, columns.keys())
        known = [table for table in t.metadata.sorted_tables if table.name in columns]
        for key in (key for table in known for key in table.foreign_key_constraints):
            if _has_columns(key, columns):
                yield from _orphans(connection, key)


def _schema(found: str | None, *, auto_upgrade: bool) -> Iterator[Remark]:
    if found is None:
        yield Remark("schema", "note", "the database has no tables: they are created")
    elif found > schema.HEAD:
        yield Remark(
            *(
                "schema",
                "error",
                f"the database has schema {found}, written by a newer release; this one has {schema.HEAD}",
            ),
            "Run that release, or restore a backup from before its upgrade.",
        )
    elif found < schema.FIRST:
        yield Remark(
            *("schema", "error", f"the database has schema {found} of a development version, which cannot be upgraded"),
            "Create a new database.",
        )
    elif found != schema.HEAD and not auto_upgrade:
        yield Remark(
            *(
                "schema",
                "warning",
                f"servers of this release do not start with schema {found}, as auto_upgrade is false",
            ),
            "Run `neutrino db upgrade` after a backup.",
        )


def _processes(connection: Connection, release: str, *, is_newer: bool) -> Iterator[Remark]:
    """Servers that run now. `is_newer`: this release changes the schema."""
    since = f"{datetime.now(UTC) - RECENT:%Y-%m-%dT%H:%M:%SZ}"
    rows = connection.execute(
        sa.select(t.server_processes.c.host, t.server_processes.c.release)
        .where(t.server_processes.c.seen_at >= since)
        .distinct()
        .order_by(t.server_processes.c.host, t.server_processes.c.release)
    ).all()
    others = [f"{row.host} ({row.release})" for row in rows if row.release != release]
    if others:
        yield Remark(
            *("servers", "warning", f"servers of other releases run: {', '.join(others)}; this is {release}"),
            "The changelog says whether they go on working with the new schema: stop them, or take them out of the load "
            "balancer otherwise.",
        )
    elif rows and is_newer:
        hosts = ", ".join(sorted({row.host for row in rows}))
        yield Remark("servers", "warning", f"servers run on {hosts}", "Stop all but one before the upgrade.")


def _agents(connection: Connection) -> Iterator[Remark]:
    agents = t.agents.c
    rows = connection.execute(
        sa.select(agents.host, agents.resource_versions).where(agents.agent_type == words.OVS).order_by(agents.host)
    )
    other = [
        row.host for row in rows if msgspec.json.decode(row.resource_versions) not in ({}, words.RESOURCE_VERSIONS)
    ]
    if other:
        yield Remark(
            *("agents", "warning", f"agents of another version report: {_listed(other)}"),
            "Upgrade hosts after the servers; agents of a neighbouring release work meanwhile.",
        )


def _unfinished(connection: Connection, tables: Iterable[str]) -> Iterator[Remark]:
    old = time.time() - 60  # younger ones are in progress
    left = connection.execute(sa.select(sa.func.count()).select_from(t.journal).where(t.journal.c.at < old)).scalar()
    if left:
        yield Remark(
            *("journal", "warning", f"{left} operations of drivers were not completed"),
            "Let a server of the present release complete them: its log names what fails.",
        )
    if "takeovers" not in tables:
        return
    c = t.takeovers.c
    begun = sa.select(c.source).where(sa.or_(c.opened_at.is_(None), c.closed_at.is_not(None)))
    if (source := connection.execute(begun.limit(1)).scalar()) is not None:
        yield Remark(
            *("takeover", "warning", f"the takeover of {source} is not completed: requests may not write"),
            "Complete it first (`neutrino takeover status`).",
        )


def _has_columns(key: sa.ForeignKeyConstraint, columns: dict[str, set[str]]) -> bool:
    return all(
        element.parent.name in columns[element.parent.table.name]
        and element.column.name in columns.get(element.column.table.name, ())
        for element in key.elements
    )


def _orphans(connection: Connection, key: sa.ForeignKeyConstraint) -> Iterator[Remark]:
    """Rows whose parent is missing, as after a restore without foreign keys: migrations that copy tables fail on them."""
    child, parent = key.table, key.referred_table.alias("parent")
    refers = [element.parent == parent.c[element.column.name] for element in key.elements]
    given = [element.parent.is_not(None) for element in key.elements]
    orphans = sa.and_(
        *given, sa.not_(sa.exists(sa.select(sa.literal(1)).select_from(parent).where(*refers).correlate(child)))
    )
    column = key.elements[0].parent
    found = connection.execute(sa.select(column).where(orphans).order_by(column).limit(NAMED + 1)).scalars().all()
    if found:
        yield Remark(
            *(
                "rows",
                "error",
                f"{child.name}.{column.name} refers to {key.referred_table.name} that do not exist: {_listed(found)}",
            ),
            "Delete these rows, or restore what they refer to; foreign keys were switched off when they were written.",
        )


def _listed(names: Sequence[object]) -> str:
    shown = ", ".join(map(str, names[:NAMED]))
    return f"{shown} and more" if len(names) > NAMED else shown
