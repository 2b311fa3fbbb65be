"""`neutrino db`: the schema's version, bringing it up to date, and counting quotas anew."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def database(action: str, config_files: Sequence[str]) -> int:
    from neutrino.server.config import database_url
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.main import configuration
    from neutrino.server.quota.plugin import recount

    db = Database(database_url(configuration(config_files)))
    try:
        if action == "upgrade":
            schema.ensure(db, upgrade=True)
        elif action == "recount":
            for correction in recount(db):
                print(f"{correction}")
        print(f"schema version: {schema.version(db) or 'none'} (this release: {schema.HEAD})")
    except schema.WrongSchema as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 1
    finally:
        db.close()
    return 0
