"""`neutrino feed`: the feed by itself; the server runs the same in a process beside its workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from oslo_config import cfg


def feed(config_files: Sequence[str], conf: cfg.ConfigOpts | None = None) -> int:
    """`conf`: what the files say, where they were read already."""
    from neutrino.server.config import RefusedToStart
    from neutrino.server.db.schema import WrongSchema
    from neutrino.server.feed.main import configuration, run
    from neutrino.server.logs import set_up

    for name in config_files:
        if not os.path.isfile(name):
            print(f"neutrino: there is no configuration file {name}", file=sys.stderr)
            return 2
    try:
        conf = conf or configuration(config_files)
        set_up(conf)
        run(conf)
    except (cfg.Error, RefusedToStart, WrongSchema) as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"neutrino: the feed cannot be served: {error}", file=sys.stderr)
        return 1
    return 0
