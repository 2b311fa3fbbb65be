"""`neutrino host`: which hosts may connect to the feed, and what one of them is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def host(action: str, name: str | None, roles: str | None, config_files: Sequence[str]) -> int:
    from neutrino.model.roles import LEAST, UnknownRole, parse_roles
    from neutrino.server.backend import configuration
    from neutrino.server.config import database_url
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.feed.credentials import BadName, Credentials, HostExists, UnknownHost

    if action != "list" and not name:
        print(f"neutrino: host {action} needs the host's name", file=sys.stderr)
        return 2
    if (roles is None and action == "roles") or (roles is not None and action not in ("add", "roles")):
        needs = "needs" if action == "roles" else "takes no"
        print(f"neutrino: host {action} {needs} --roles", file=sys.stderr)
        return 2
    try:
        named = parse_roles(roles) if roles is not None else LEAST
    except UnknownRole as error:
        print(f"neutrino: --roles: {error}", file=sys.stderr)
        return 2
    conf = configuration(config_files)
    db = Database(database_url(conf))
    try:
        schema.ensure(db, upgrade=conf.database.auto_upgrade)
        credentials = Credentials(db)
        if action == "add":
            print(credentials.add(name or "", named))
        elif action == "roles":
            credentials.set_roles(name or "", named)
        elif action == "rotate":
            print(credentials.rotate(name or ""))
        elif action == "remove":
            credentials.remove(name or "")
        elif action == "show":
            its = next((its for known, _, its in credentials.all() if known == name), ())
            print(f"{name}: roles {','.join(its) or 'none, as it has no credential'}", file=sys.stderr)
            print(_shown(db, name or "", its))
        else:
            for known, made, its in credentials.all():
                print(f"{known}\t{made}\t{','.join(its)}")
    except (BadName, HostExists, UnknownHost, schema.WrongSchema) as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 1
    finally:
        db.close()
    return 0


def _shown(db: object, name: str, roles: Sequence[str]) -> str:
    """What the host needs now, as JSON: to be compared with what it has."""
    import msgspec

    from neutrino.server.db.session import Database
    from neutrino.server.feed.fanout import Fanout
    from neutrino.server.feed.kinds import readers
    from neutrino.server.feed.readers import read_all

    assert isinstance(db, Database)
    with db.read() as connection:
        records = read_all(connection, readers())
    fanout = Fanout()
    fanout.apply(records)
    out: dict[str, list[object]] = {}
    for kind, value in sorted(fanout.objects(name, roles), key=lambda each: (each[0], each[1].id)):
        out.setdefault(kind, []).append(value)
    return msgspec.json.format(msgspec.json.encode(out)).decode()
