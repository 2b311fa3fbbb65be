"""`neutrino host`: the credentials of hosts for the feed, and the objects that a host receives."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from neutrino.cli.errors import INVALID, CommandError

if TYPE_CHECKING:
    from neutrino.server.db.session import Database


def host(action: str, name: str | None, roles: str | None, config_files: Sequence[str]) -> int:
    from neutrino.model.roles import LEAST, UnknownRole, parse_roles
    from neutrino.server.backend import configuration
    from neutrino.server.config import database_url
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.feed.credentials import BadName, Credentials, HostExists, UnknownHost

    if action != "list" and not name:
        raise CommandError(f"host {action} needs the host's name", INVALID)
    if roles is None and action == "roles":
        raise CommandError("host roles needs --roles", INVALID)
    if roles is not None and action not in ("add", "roles"):
        raise CommandError(f"host {action} takes no --roles", INVALID)
    try:
        parsed = parse_roles(roles) if roles is not None else LEAST
    except UnknownRole as error:
        raise CommandError(f"--roles: {error}", INVALID) from None
    name = name or ""
    conf = configuration(config_files)
    db = Database(database_url(conf))
    try:
        schema.ensure(db, upgrade=conf.database.auto_upgrade)
        credentials = Credentials(db)
        if action == "add":
            print(credentials.add(name, parsed))
        elif action == "roles":
            credentials.set_roles(name, parsed)
        elif action == "rotate":
            print(credentials.rotate(name))
        elif action == "remove":
            credentials.remove(name)
        elif action == "show":
            allowed = next((allowed for known, _, allowed in credentials.all() if known == name), ())
            print(f"{name}: roles {','.join(allowed) or 'none, as it has no credential'}", file=sys.stderr)
            print(_objects(db, name, allowed))
        else:
            for known, created, allowed in credentials.all():
                print(f"{known}\t{created}\t{','.join(allowed)}")
    except (BadName, HostExists, UnknownHost, schema.WrongSchema) as error:
        raise CommandError(str(error)) from None
    finally:
        db.close()
    return 0


def _objects(db: Database, name: str, roles: Sequence[str]) -> str:
    """The objects in the host's scope, as JSON, for comparison with the host's cache."""
    import msgspec

    from neutrino.server.feed.fanout import Fanout
    from neutrino.server.feed.kinds import readers
    from neutrino.server.feed.readers import read_all

    with db.read() as connection:
        records = read_all(connection, readers())
    fanout = Fanout()
    fanout.apply(records)
    out: dict[str, list[object]] = {}
    for kind, value in sorted(fanout.objects(name, roles), key=lambda each: (each[0], each[1].id)):
        out.setdefault(kind, []).append(value)
    return msgspec.json.format(msgspec.json.encode(out)).decode()
