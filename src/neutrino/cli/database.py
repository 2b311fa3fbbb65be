"""`neutrino db`: show or upgrade the schema, recount quotas, and list routers that no agent can host."""

from collections.abc import Sequence

from oslo_config import cfg

from neutrino.cli.errors import CommandError


def database(action: str, config_files: Sequence[str]) -> int:
    from neutrino.server.config import database_url
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database
    from neutrino.server.main import configuration
    from neutrino.server.quota.plugin import recount

    conf = configuration(config_files)
    if action == "verify":
        return verify(conf)
    db = Database(database_url(conf))
    try:
        if action == "upgrade":
            schema.ensure(db, upgrade=True)
        elif action == "recount":
            for correction in recount(db):
                print(f"{correction}")
        print(f"schema version: {schema.version(db) or 'none'} (this release: {schema.HEAD})")
    except schema.WrongSchema as error:
        raise CommandError(str(error)) from None
    finally:
        db.close()
    return 0


def verify(conf: cfg.ConfigOpts) -> int:
    """Routers that no agent can host: `neutrino agent verify` on a host checks only what is scheduled to it."""
    from neutrino.server.main import assemble

    server = assemble(conf)
    try:
        router_plugin = server.service_plugins.get("router")
        unhosted = router_plugin.scheduler.unhosted() if router_plugin is not None else {}
    finally:
        server.close()
    for router_id, reason in unhosted.items():
        print(f"router {router_id}: {reason}")
    print(f"verify: {len(unhosted)} routers that no agent can host")
    return 1 if unhosted else 0
