"""`neutrino db check-upgrade`: what would stop or surprise an upgrade, with the new release's program, before it."""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

import msgspec
import sqlalchemy as sa

from neutrino import __version__
from neutrino.cli import preflight
from neutrino.cli.database import read_configuration
from neutrino.cli.errors import one_line
from neutrino.cli.policy import faults_of
from neutrino.configuration import findings
from neutrino.configuration.options import Configuration
from neutrino.errors import OperatorError
from neutrino.logs import quiet
from neutrino.server import config
from neutrino.server.config import database_url
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.db.upgrade_check import Migration, Remark, check, pending
from neutrino.server.errors import ApiError

PASSED, FOUND, UNKNOWN = 0, 1, 3  # exit status: nothing, an error or a warning, the database cannot be read
_ORDER: Final = ("error", "warning", "note")


def check_upgrade(args: argparse.Namespace) -> int:
    conf = read_configuration(args)
    config.check_values(conf)  # a value that cannot be read refuses every command
    remarks = list(_options(conf))
    found: str | None = None
    status = PASSED
    try:
        if _may_exist(conf):
            with quiet():
                found, read = _read(conf)
            remarks += read
        else:
            remarks.append(Remark("schema", "note", "there is no database: it is created"))
    except (sa.exc.SQLAlchemyError, ApiError, OSError) as error:
        remarks.append(Remark("database", "error", preflight.database_problem(database_url(conf), error)))
        status = UNKNOWN
    remarks.sort(key=lambda one: _ORDER.index(one.severity))
    if status == PASSED and any(one.severity != "note" for one in remarks):
        status = FOUND
    print(as_json(found, pending(found), remarks) if args.json else "\n".join(as_text(found, pending(found), remarks)))
    return status


def _may_exist(conf: Configuration) -> bool:
    """Whether the database may exist: connecting would create a file of SQLite."""
    url = sa.engine.make_url(database_url(conf))
    return url.get_backend_name() != "sqlite" or os.path.exists(url.database or "")


def _read(conf: Configuration) -> tuple[str | None, list[Remark]]:
    from neutrino.server import features

    db = Database(database_url(conf), failover_seconds=0)
    try:
        more = features.additional_tables()
        remarks = list(check(db, more, __version__, auto_upgrade=conf.database.auto_upgrade))
        return schema.version(db), remarks
    finally:
        db.close()


def _options(conf: Configuration) -> Iterator[Remark]:
    """Options that refuse the start of this release, or that it does not know."""
    try:
        findings.refuse(conf, findings.SERVER)
        with quiet():
            faults = faults_of(conf)  # loads drivers, which register options
    except (OperatorError, ValueError, ImportError) as error:
        yield Remark(
            "configuration", "error", one_line(error), "Change these options: the server does not start with them."
        )
        return
    for fault in faults:
        yield Remark("policy", "warning", str(fault), "`neutrino policy check` explains it.")
    from neutrino.agent.config import GROUPS

    result = findings.compare(conf.given, conf.registered, findings.names_of(GROUPS), findings.SERVER)
    for (section, name), hint in sorted(result.unknown.items()):
        yield Remark(
            "configuration", "warning", f"[{section}] {name} is not known, and has no effect{': ' * bool(hint)}{hint}"
        )


def as_json(found: str | None, migrations: Sequence[Migration], remarks: Sequence[Remark]) -> str:
    document = {
        "release": __version__,
        "schema": found,
        "schema_needed": schema.HEAD,
        "migrations": [asdict(one) for one in migrations],
        "findings": [asdict(one) for one in remarks],
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def as_text(found: str | None, migrations: Sequence[Migration], remarks: Sequence[Remark]) -> Iterator[str]:
    yield f"schema: {found or 'none'}; this release ({__version__}) has {schema.HEAD}"
    for migration in migrations:
        yield f"  migration {migration.version}: {migration.what}"
    for one in remarks:
        yield f"{one.severity} [{one.check}]: {one.what}"
        if one.fix:
            yield f"  {one.fix}"
    problems = sum(one.severity != "note" for one in remarks)
    yield (
        f"check-upgrade: {problems} problems"
        if problems
        else "check-upgrade: nothing stops the upgrade; make a backup first"
    )
