"""Checks of a server: its database, the clocks, its listeners, Keystone, and the state of the whole service."""

import contextlib
import logging
import os
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from neutrino.cli.doctor.accounts import CHANGE, program_account
from neutrino.cli.doctor.files import sqlite_file
from neutrino.cli.doctor.subject import Subject
from neutrino.cli.preflight import cause
from neutrino.configuration.options import Configuration
from neutrino.diagnosis import server_problems
from neutrino.diagnosis.findings import find
from neutrino.diagnosis.problems import NOTE, Finding
from neutrino.feed.address import Address, short_path
from neutrino.server import config, errors
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.db.tables import counted_rows, ip_allocations, quota_usages
from neutrino.server.feed.connections.listeners import addresses
from neutrino.server.status import reader

SKEW_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 3.0
LARGE_FILE: Final = 2**30  # bytes: reading all of a larger database would take longer than a check may
MAX_LISTED: Final = 10
# What database servers say of a database that does not exist: PostgreSQL, MariaDB and MySQL.
_NO_DATABASE: Final = re.compile(r'database "[^"]*" does not exist|Unknown database')
_NOW = {
    "postgresql": sa.text("SELECT extract(epoch FROM clock_timestamp())"),
    "mysql": sa.text("SELECT UNIX_TIMESTAMP(NOW(6))"),
    "mariadb": sa.text("SELECT UNIX_TIMESTAMP(NOW(6))"),
}
READ_ONLY = {
    "postgresql": sa.text("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"),
    "mysql": sa.text("SELECT @@GLOBAL.read_only"),
    "mariadb": sa.text("SELECT @@GLOBAL.read_only"),
}


@contextlib.contextmanager
def _opened(conf: Configuration) -> Iterator[Database]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # an error is a finding
    db = Database(config.database_url(conf), failover_seconds=0)
    try:
        yield db
    finally:
        db.close()
        logging.disable(before)


def database(subject: Subject) -> Iterator[Finding]:
    """Check that the database is reachable, writable, of this release's schema, and consistent. Nothing is upgraded."""
    conf = subject.conf
    path = sqlite_file(conf)
    if path and not os.path.exists(path):  # connecting would create it
        yield server_problems.DATABASE_MISSING(f"the database {path} does not exist")
        return
    if path and (reason := _unwritable(subject, path)):
        yield server_problems.DATABASE_FILE_READ_ONLY(f"the database {path} cannot be written: {reason}", path=path)
    with _opened(conf) as db:
        shown = path or db.url.render_as_string(hide_password=True)
        try:
            version = schema.version(db)
        except (sa.exc.SQLAlchemyError, errors.ApiError, OSError) as error:
            text = cause(error)
            is_missing = _NO_DATABASE.search(text) is not None
            problem = server_problems.DATABASE_MISSING if is_missing else server_problems.DATABASE_UNREACHABLE
            yield problem(f"the database {shown} cannot be used: {text}")
            return
        yield from _read_only(db, shown)
        if version != schema.HEAD:
            text = f"the database has schema version {version or 'none'}, this release has {schema.HEAD}"
            yield (
                server_problems.SCHEMA_NEW
                if version is not None and version > schema.HEAD
                else server_problems.SCHEMA_OLD
            )(text)
            return
        yield from _clock(subject, db)
        if path and os.path.getsize(path) < LARGE_FILE and (damage := list(_damage(db, path))):
            yield from damage
            return
        yield from _duplicates(db)
        yield from _quotas(db)


def _unwritable(subject: Subject, path: str) -> str:
    """Why SQLite cannot write its file; empty if it can. Beside the file it creates others in the directory."""
    account = program_account(subject)
    for place in (path, os.path.dirname(os.path.abspath(path))):
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            return "its file system is mounted read-only"
        may = os.access(place, os.R_OK | os.W_OK) if account is None else account.may(place, CHANGE)
        if not may:
            return f"user {'of this command' if account is None else account.name} may not write {place}"
    return ""


def _read_only(db: Database, shown: str) -> Iterator[Finding]:
    query = READ_ONLY.get(db.dialect)
    if query is None:
        return
    with db.read() as connection:
        if connection.execute(query).scalar():
            yield server_problems.DATABASE_READ_ONLY(f"the database {shown} is a standby, or refuses writes")


def _clock(subject: Subject, db: Database) -> Iterator[Finding]:
    query = _NOW.get(db.dialect)
    if query is None:  # SQLite is on this machine
        return
    with db.read() as connection:
        skew = float(connection.execute(query).scalar() or 0) - subject.machine.now()
    yield from clock_finding(skew)


def clock_finding(skew: float) -> Iterator[Finding]:
    if abs(skew) > SKEW_SECONDS:
        ahead = "ahead of" if skew > 0 else "behind"
        yield server_problems.CLOCK_DATABASE(f"the clock of the database is {abs(skew):.0f} s {ahead} this machine's")


def _damage(db: Database, path: str) -> Iterator[Finding]:
    try:
        with db.read() as connection:
            answer = str(connection.execute(sa.text("PRAGMA quick_check(1)")).scalar())
    except sa.exc.DatabaseError as error:
        answer = cause(error)
    if answer != "ok":
        yield server_problems.DATABASE_DAMAGED(f"{path}: {answer}")


def _duplicates(db: Database) -> Iterator[Finding]:
    """Look for addresses that a network has twice: the primary key admits an address once in each subnet."""
    columns = ip_allocations.c.network_id, ip_allocations.c.ip_address
    query = (
        sa.select(*columns, sa.func.count().label("number"))
        .group_by(*columns)
        .having(sa.func.count() > 1)
        .limit(MAX_LISTED)
    )
    with db.read() as connection:
        rows = connection.execute(query).all()
    for row in rows:
        yield server_problems.ADDRESS_DUPLICATE(
            f"network {row.network_id}: {row.number} ports have the address {row.ip_address}"
        )


def _quotas(db: Database) -> Iterator[Finding]:
    """Look for counters that differ from the number of objects, twice: a writer in between would be a difference."""
    with db.read() as connection:
        first = _wrong_counters(connection)
        wrong = first & _wrong_counters(connection) if first else set()
    for project, resource, used, number in sorted(wrong)[:MAX_LISTED]:
        yield server_problems.QUOTA_WRONG(f"project {project} has {number} of {resource}, and its counter is {used}")


def _wrong_counters(connection: sa.Connection) -> set[tuple[str, str, int, int]]:
    stored = {(row.project_id, row.resource): int(row.used) for row in connection.execute(sa.select(quota_usages))}
    actual = {
        (row.project_id, resource): int(row.number)
        for resource, table in counted_rows().items()
        if any(key[1] == resource for key in stored)
        for row in connection.execute(
            sa.select(table.c.project_id, sa.func.count().label("number")).group_by(table.c.project_id)
        )
    }
    return {
        (*key, used, actual.get(key, 0))
        for key, used in stored.items()
        if key[1] in counted_rows() and used != actual.get(key, 0)
    }


def service(subject: Subject) -> Iterator[Finding]:
    """Give the problems of the whole service, as `neutrino status` has them."""

    conf, path = subject.conf, sqlite_file(subject.conf)
    if path and not os.path.exists(path):
        return
    with _opened(conf) as db:
        try:
            if schema.version(db) != schema.HEAD:
                return
            findings = find(reader.read(db, subject.machine.now(), conf.agent_down_time))
        except (sa.exc.SQLAlchemyError, errors.ApiError):  # the check of the database states it
            return
    for finding in [finding for finding in findings if finding.severity != NOTE][:MAX_LISTED]:
        yield replace(finding, kind=server_problems.SERVICE_PROBLEM.id)


# --- listeners --------------------------------------------------------------------------------------------------------


def listeners(subject: Subject) -> Iterator[Finding]:
    conf = subject.conf
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(conf.bind_host, conf.bind_host)  # noqa: S104
    if reason := connection_error(Address(host=host, port=conf.bind_port)):
        yield server_problems.API_SILENT(f"the API does not listen on {conf.bind_host} port {conf.bind_port}: {reason}")
    for address in addresses(conf) if conf.feed.run else ():
        if reason := connection_error(address):
            yield server_problems.FEED_SILENT(f"the feed does not listen on {address}: {reason}")


def connection_error(address: Address) -> str:
    """Return why no connection can be made; empty if it can."""
    try:
        if address.path:
            with socket.socket(socket.AF_UNIX) as probe, short_path(address.path) as path:
                probe.settimeout(CONNECT_SECONDS)
                probe.connect(path)
        else:
            socket.create_connection((address.host, address.port), CONNECT_SECONDS).close()
    except PermissionError as error:
        # A Unix socket that is not for this user, which the finding other-user states: whether it is served is not known.
        return "" if address.path else str(error)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def keystone(subject: Subject) -> Iterator[Finding]:
    conf = subject.conf
    values = conf.given
    urls = values.get(("keystone_authtoken", "auth_url")) or values.get(("keystone_authtoken", "www_authenticate_uri"))
    if conf.auth_strategy != "keystone" or not urls:
        return
    url = urls[-1].strip()
    if not url.startswith(("http://", "https://")):
        yield server_problems.KEYSTONE_UNREACHABLE(f"[keystone_authtoken] auth_url = {url} is not an HTTP address")
        return
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=CONNECT_SECONDS).close()
    except urllib.error.HTTPError as error:  # it responds; 300 is the list of versions
        if error.code >= 500:
            yield server_problems.KEYSTONE_UNREACHABLE(f"Keystone at {url} responds with {error.code}")
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        if "CERTIFICATE_VERIFY_FAILED" not in str(reason):  # its CA is the middleware's to know
            yield server_problems.KEYSTONE_UNREACHABLE(f"Keystone at {url} does not respond: {reason}")
