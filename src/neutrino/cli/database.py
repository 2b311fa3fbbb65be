"""Commands on the server's database.

`neutrino db`: schema, quota counters, identity after a restored backup, routers that no agent can host.
`neutrino host`: the credentials of hosts for the feed, and the objects that a host receives.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from neutrino.cli import preflight
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.installed import SERVER_FILE, become_owner, default_files
from neutrino.configuration.options import Configuration
from neutrino.model.roles import LEAST, parse_roles
from neutrino.server.config import configuration, database_url
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.errors import DatabaseNotWritable, DatabaseUnreachable
from neutrino.server.feed.change_log import ChangeLog, read_all
from neutrino.server.feed.connections.credentials import Credentials

if TYPE_CHECKING:
    from neutrino.server.quota.plugin import Correction


@contextlib.contextmanager
def opened(conf: Configuration, *, check_schema: bool = True) -> Iterator[Database]:
    """The database, with the schema of this release unless that is left to the caller."""
    with database_errors(conf):
        db = Database(database_url(conf), failover_seconds=0)  # an operator sees the error at once
        try:
            if check_schema:
                schema.ensure(db, upgrade=conf.database.auto_upgrade)
            yield db
        finally:
            db.close()


@contextlib.contextmanager
def database_errors(conf: Configuration) -> Iterator[None]:
    """Report in one line that the database cannot be used."""
    try:
        yield
    except BrokenPipeError:  # of the output
        raise
    except (sa.exc.SQLAlchemyError, DatabaseUnreachable, DatabaseNotWritable, OSError) as error:
        raise CommandError(preflight.database_problem(database_url(conf), error)) from None


def read_configuration(args: argparse.Namespace) -> Configuration:
    files = default_files(args.config_file, SERVER_FILE)
    preflight.check_files(files)
    conf = configuration(files)
    become_owner(conf.state_path)
    return conf


# --- neutrino db ------------------------------------------------------------------------------------------------------


def database(args: argparse.Namespace) -> int | None:
    from neutrino.server import features
    from neutrino.server.quota.plugin import recount

    if args.action == "check-upgrade":
        from neutrino.cli.upgrade import check_upgrade

        return check_upgrade(args)
    conf = read_configuration(args)
    if args.action == "verify":
        return verify(conf)
    with opened(conf, check_schema=False) as db:
        if args.action == "upgrade":
            schema.ensure(db, upgrade=True)
            schema.ensure_tables(db, features.additional_tables())
        elif args.action == "recount":
            print("\n".join(recount_report(recount(db))))
        elif args.action == "restored":
            print(f"new identity of the database: {ChangeLog(db).renew().identity}")
        print(f"schema version: {schema.version(db) or 'none'} (this release: {schema.HEAD})")
    return None


def recount_report(corrections: Sequence["Correction"]) -> Iterator[str]:
    """What `recount` has corrected, in lines for operators."""
    for one in corrections:
        yield f"project {one.project_id or '-'}: {one.resource}: the counter was {one.was}, there are {one.now}"
    yield f"recount: {len(corrections)} counters corrected" if corrections else "recount: all counters were right"


def verify(conf: Configuration) -> int:
    """Routers that no agent can host: `neutrino agent verify` on a host checks only what is scheduled to it."""
    from neutrino.server.main import assemble

    server = assemble(conf)
    try:
        schedulers = [one for plugin in server.service_plugins.values() for one in plugin.schedulers]
        with database_errors(conf):
            unhosted = [
                f"{scheduler.placements.kind} {object_id}: {reason}"
                for scheduler in schedulers
                for object_id, reason in scheduler.unhosted().items()
            ]
    finally:
        server.close()
    for line in unhosted:
        print(line)
    print(f"verify: {len(unhosted)} routers that no agent can host")
    return 1 if unhosted else 0


# --- neutrino host ----------------------------------------------------------------------------------------------------


def host(args: argparse.Namespace) -> None:
    action, name = args.action, args.name or ""
    if action != "list" and not name:
        raise CommandError(f"host {action} needs the host's name", INVALID)
    if args.roles is None and action == "roles":
        raise CommandError("host roles needs --roles", INVALID)
    if args.roles is not None and action not in ("add", "roles"):
        raise CommandError(f"host {action} takes no --roles", INVALID)
    try:
        roles = parse_roles(args.roles) if args.roles is not None else LEAST
    except ValueError as error:
        raise CommandError(f"--roles: {error}", INVALID) from None
    with opened(read_configuration(args)) as db:
        credentials = Credentials(db)
        if action == "add":
            print(credentials.add(name, roles))
        elif action == "roles":
            credentials.set_roles(name, roles)
        elif action == "rotate":
            print(credentials.rotate(name))
        elif action == "remove":
            credentials.remove(name)
        elif action == "list":
            for each, known in credentials.known().items():
                print(f"{each}\t{known.created_at}\t{','.join(known.roles)}")
        else:
            credential = credentials.known().get(name)
            if credential is None:
                raise CommandError(f"there is no host {name}: `neutrino host list` has those with a credential")
            print(f"{name}: roles {','.join(credential.roles)}", file=sys.stderr)
            print(_objects(db, name, credential.roles))


def _objects(db: Database, name: str, roles: Sequence[str]) -> str:
    """The objects in the host's scope, as JSON, for comparison with the host's cache."""
    from neutrino.server.features import sources
    from neutrino.server.feed.fanout import Fanout

    with db.read() as connection:
        records = read_all(connection, sources())
    fanout = Fanout(sources().kinds)
    fanout.apply(records)
    out: dict[str, list[object]] = {}
    # Sorted, so that the output can be compared with diff.
    for kind, value in sorted(fanout.objects(name, roles), key=lambda each: (each[0], each[1].id)):
        out.setdefault(kind, []).append(value)
    return msgspec.json.format(msgspec.json.encode(out)).decode()
