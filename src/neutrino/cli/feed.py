"""`neutrino feed`: the feed by itself; the server runs the same in a process beside its workers."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from neutrino.cli.failures import REFUSED, CannotStart


def serve_feed(config_files: Sequence[str]) -> int:
    """The command: every check first, then the feed until SIGTERM or SIGINT."""
    from neutrino.cli import preflight
    from neutrino.server.backend import configuration
    from neutrino.server.config import RefusedToStart, check_values
    from neutrino.server.feed.listening import addresses, server_tls

    preflight.check_files(config_files)
    try:
        conf = configuration(config_files)
        check_values(conf)
        feed_addresses = addresses(conf)
        server_tls(conf)
    except (cfg.Error, RefusedToStart) as error:
        raise CannotStart(str(error), REFUSED) from None
    preflight.check_feed_addresses(feed_addresses)
    preflight.check_database(conf)
    return feed(config_files, conf)


def feed(config_files: Sequence[str], conf: cfg.ConfigOpts | None = None) -> int:
    """Serve the feed. `conf`: what the files say, where they were read already."""
    from neutrino.server.backend import configuration
    from neutrino.server.config import RefusedToStart
    from neutrino.server.db.schema import WrongSchema
    from neutrino.server.feed.main import run
    from neutrino.server.logs import set_up

    try:
        conf = conf or configuration(config_files)
        set_up(conf)
        run(conf)
    except (cfg.Error, RefusedToStart, WrongSchema) as error:
        raise CannotStart(str(error), REFUSED) from None
    except OSError as error:
        raise CannotStart(f"the feed cannot be served: {error}") from None
    return 0
