"""The application for any WSGI server: granian, uwsgi, gunicorn, mod_wsgi.

NEUTRINO_CONFIG_FILES names the configuration files, separated by colons.
"""

from __future__ import annotations

import gc
import os
from typing import Any


def _application() -> Any:
    from neutrino.server.config import database_url
    from neutrino.server.db.schema import ensure_in_child
    from neutrino.server.logs import set_up
    from neutrino.server.main import build, configuration

    files = [name for name in os.environ.get("NEUTRINO_CONFIG_FILES", "").split(":") if name]
    conf = configuration(files)
    set_up(conf)
    if conf.database.auto_upgrade:
        ensure_in_child(database_url(conf))
    app = build(conf).app
    # What is there now stays: the collector need not look at it again, nor run at every few hundred rows of a list.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    return app


application = _application()
