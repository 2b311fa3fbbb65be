"""`neutrino host`: which hosts may connect to the feed, and what one of them is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def host(action: str, name: str | None, config_files: Sequence[str]) -> int:
    from neutrino.server.config import database_url
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.feed.credentials import BadName, Credentials, HostExists, UnknownHost
    from neutrino.server.feed.main import configuration

    if action != "list" and not name:
        print(f"neutrino: host {action} needs the host's name", file=sys.stderr)
        return 2
    conf = configuration(config_files)
    db = Database(database_url(conf))
    try:
        schema.ensure(db, upgrade=conf.database.auto_upgrade)
        credentials = Credentials(db)
        if action == "add":
            print(credentials.add(name or ""))
        elif action == "rotate":
            print(credentials.rotate(name or ""))
        elif action == "remove":
            credentials.remove(name or "")
        elif action == "show":
            print(_shown(db, name or ""))
        else:
            for known, made in credentials.all():
                print(f"{known}\t{made}")
    except (BadName, HostExists, UnknownHost, schema.WrongSchema) as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 1
    finally:
        db.close()
    return 0


def _shown(db: object, name: str) -> str:
    """What the host needs now, as JSON: to be compared with what it has."""
    import msgspec

    from neutrino.server.db.session import Database
    from neutrino.server.feed.reader import read_all
    from neutrino.server.feed.scope import scope

    assert isinstance(db, Database)
    with db.read() as connection:
        objects = scope(read_all(connection), name)
    out: dict[str, list[object]] = {}
    for (kind, _), value in sorted(objects.items()):
        out.setdefault(kind, []).append(value)
    return msgspec.json.format(msgspec.json.encode(out)).decode()
