"""What a process that serves requests does with the server before its first one."""

from __future__ import annotations

import gc
from typing import Any

from neutrino.server.config import database_url
from neutrino.server.db.schema import ensure_in_child
from neutrino.server.logs import set_up
from neutrino.server.main import Server, begin


def application(server: Server) -> Any:
    """The WSGI application of a server that is put together, here or in the process that this one was forked from."""
    conf = server.conf
    set_up(conf)
    if conf.database.auto_upgrade:
        ensure_in_child(database_url(conf))
    begin(server)
    # What is there now stays: the collector need not look at it again, nor run at every few hundred rows of a list.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    return server.app
