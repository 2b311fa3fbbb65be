"""The server put together once, in the process that the others are forked from: they share its memory and start at once.

Nothing in it is open yet: each process opens the database for itself.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from neutrino.server import config
from neutrino.server.main import Server, assemble, configuration
from neutrino.server.main import application as application_of
from neutrino.server.policy.late_checks import load_when_used

_server: Server | None = None


def load(files: Sequence[str]) -> None:
    """Put the server together by the configuration as it is now; what is forked from here on is that one."""
    global _server  # a forked process has no other way to what its parent made
    conf = configuration(files)
    sa.make_url(config.database_url(conf)).get_dialect().import_dbapi()
    if conf.feed.run:
        import neutrino.server.feed.main  # noqa: F401
    load_when_used()
    _server = assemble(conf)
    gc.unfreeze()  # after a reload: what is replaced goes
    gc.collect()
    gc.freeze()  # the collector of a process leaves alone, and so leaves shared, what is there now


def loaded() -> cfg.ConfigOpts | None:
    """The configuration that the server was put together by."""
    return None if _server is None else _server.conf


def application(files: Sequence[str]) -> Any:
    """The WSGI application, in the process that serves it."""
    return application_of(_server or assemble(configuration(files)))
