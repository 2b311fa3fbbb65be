"""The schema version: created or upgraded at the start of a server, by one process while the others wait.

A new database gets the tables as they are declared, of the core and of all features; migrations upgrade one that exists.
Alembic's table `alembic_version` has the version.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

import neutrino.features
from neutrino import private
from neutrino.errors import OperatorError
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.connection_options import GALERA
from neutrino.server.db.objects import new_id
from neutrino.server.db.session import Database

LOG = logging.getLogger(__name__)
FIRST, HEAD = "0100", "0105"  # the oldest and the newest file in migrations/versions (a test compares)
OTHER_NODE_SECONDS = 120.0
_PG_LOCK = ("SELECT pg_advisory_lock(:key)", "SELECT pg_advisory_unlock(:key)", 0x6E6575747269)  # "neutri"
_MYSQL_LOCK = ("SELECT GET_LOCK(:key, 120)", "SELECT RELEASE_LOCK(:key)", "neutrino-schema")


class WrongSchema(OperatorError):
    """The database has another schema version, and may not or cannot be upgraded."""


def ensure(db: Database, *, upgrade: bool = True) -> None:
    """Upgrade the schema to HEAD; one query if it is there already."""
    if db.dialect == "sqlite" and db.url.database:
        private.make_directory(Path(db.url.database).parent)
    found = version(db)
    if found == HEAD:
        return
    # Never downgrade by accident: an older server would not know the new columns and lose their data.
    if found is not None and found > HEAD:
        raise WrongSchema(
            f"the database was written by a newer release (schema {found}, this release has {HEAD}): "
            "run that release, or restore a backup from before its upgrade"
        )
    if found is not None and found < FIRST:
        raise WrongSchema(
            f"the database was written by a development version (schema {found}), which cannot be upgraded: "
            f"the first schema that can is {FIRST}; create a new database"
        )
    if not upgrade:
        raise WrongSchema(
            f"the database has schema version {found or 'none'}, this server needs {HEAD}: run neutrino db upgrade"
        )
    # Checked again under the lock: another process may have upgraded it meanwhile.
    with _locked(db):
        found = version(db)
        if found != HEAD:
            LOG.info("upgrading the database schema from version %s to %s", found or "none", HEAD)
            try:
                _upgrade(db, found)
            except sa.exc.DBAPIError as error:
                if not _is_upgraded_by_another_node(db):
                    raise
                LOG.info("a server on another node of the Galera cluster has upgraded the schema (%s)", error.orig)


def ensure_tables(db: Database, tables: Sequence[sa.Table], *, upgrade: bool = True) -> None:
    """Create tables of features of other packages that the database does not have."""
    if not tables or not (missing := _missing(db, tables)):
        return
    names = ", ".join(sorted(table.name for table in missing))
    if not upgrade:
        raise WrongSchema(f"the database does not have the tables {names}: run neutrino db upgrade")
    with _locked(db):
        LOG.info("creating tables of further packages: %s", names)
        missing = _missing(db, tables)
        with db.engine().begin() as connection:
            _compare_bytewise(connection, missing)
            tables[0].metadata.create_all(connection, tables=missing)


def _missing(db: Database, tables: Sequence[sa.Table]) -> list[sa.Table]:
    with db.read() as connection:
        there = set(sa.inspect(connection).get_table_names())
    return [table for table in tables if table.name not in there]


def _is_upgraded_by_another_node(db: Database) -> bool:
    """Galera: locks hold on their node only, so of several servers that upgrade at once all but one fail, and wait here.

    Statements that change the schema are executed in one order on all nodes, and every server executes the same ones: the
    server that is ahead never fails on what another has done.
    """
    if db.dialect not in ("mysql", "mariadb"):
        return False
    with db.read() as connection:
        if not connection.info.get(GALERA):
            return False
    give_up = time.monotonic() + OTHER_NODE_SECONDS
    while time.monotonic() < give_up:
        if version(db) == HEAD:
            return True
        time.sleep(0.5)
    return False


def version(db: Database) -> str | None:
    with db.read() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(db: Database, found: str | None) -> None:
    from alembic import command

    with db.engine().begin() as connection:
        if found is None:
            _create(connection)
            command.stamp(alembic_config(connection), HEAD)
        else:
            command.upgrade(alembic_config(connection), HEAD)


def _create(connection: Connection) -> None:
    for feature in iter_modules(neutrino.features.__path__):  # whether enabled or not
        if find_spec(name := f"neutrino.features.{feature.name}.tables"):
            import_module(name)
    _compare_bytewise(connection, t.metadata.tables.values())
    existing = t.metadata.tables.keys() & set(sa.inspect(connection).get_table_names())
    t.metadata.create_all(connection)
    # MariaDB commits every statement: tables of an attempt that was interrupted may lack indexes and rows.
    for name in existing:
        for index in t.metadata.tables[name].indexes:
            index.create(connection, checkfirst=True)
    rules = t.default_security_group_rules
    if connection.execute(sa.select(rules.c.id).limit(1)).first() is None:
        connection.execute(sa.insert(rules), list(default_rules()))


def _compare_bytewise(connection: Connection, tables: Iterable[sa.Table]) -> None:
    """Let new tables compare names byte for byte. MariaDB compares without case and trailing spaces by default."""
    name = connection.dialect.name
    # Not with the declarations: SQLAlchemy loads a dialect to check its options.
    for table in tables if name in ("mysql", "mariadb") else ():
        table.dialect_kwargs.update({f"{name}_charset": "utf8mb4", f"{name}_collate": "utf8mb4_nopad_bin"})


def default_rules() -> Iterator[Object]:
    """Neutron's templates: every new group sends everything, and a default group receives from its own members."""
    for direction, parent, remote in (("egress", None, "anywhere"), ("ingress", "PARENT", "group:PARENT")):
        for ethertype in ("IPv4", "IPv6"):
            identity = f"{direction} {ethertype} any - {remote}"
            yield {
                "id": new_id(),
                "direction": direction,
                "ethertype": ethertype,
                "remote_group_id": parent,
                "description": f"Legacy default SG rule for {direction} traffic",
                "used_in_default_sg": True,
                "used_in_non_default_sg": parent is None,
                "in_default": identity,
                "in_others": identity if parent is None else None,
            }


def alembic_config(connection: Connection) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _locked(db: Database) -> Iterator[None]:
    """Hold the lock of schema changes. It is released with its connection, even after a crash."""
    if db.dialect == "sqlite":
        import fcntl

        private.make_file(f"{db.url.database}.schema-lock")
        with open(f"{db.url.database}.schema-lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        return
    lock, unlock, key = _PG_LOCK if db.dialect == "postgresql" else _MYSQL_LOCK
    # Without timeouts, as migrations may take long.
    with db.engine().connect() as connection:
        connection.execute(sa.text(lock), {"key": key})
        yield
        connection.execute(sa.text(unlock), {"key": key})
