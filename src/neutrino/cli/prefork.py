"""The server assembled once, before workers and feed are forked: they share its memory and start fast.

Nothing is opened here: each process opens the database for itself.
"""

import gc
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from neutrino.server import config
from neutrino.server.main import Server, assemble, configuration
from neutrino.server.main import application as application_of
from neutrino.server.policy.checks import load_extension_checks_lazily

_server: Server | None = None


def load(files: Sequence[str]) -> None:
    """Assemble the server with the current configuration, for the processes that are forked from now on."""
    global _server  # granian passes nothing to a forked worker
    conf = configuration(files)
    # Import here what each process would import for itself, unshared: the database driver and the feed.
    sa.make_url(config.database_url(conf)).get_dialect().import_dbapi()
    if conf.feed.run:
        import neutrino.server.feed.main  # noqa: F401
    load_extension_checks_lazily()
    _server = assemble(conf)
    gc.unfreeze()  # after a reload: the replaced server can be collected
    gc.collect()
    gc.freeze()  # the collector of a child would write to these objects, and so copy their pages


def loaded() -> cfg.ConfigOpts | None:
    """The configuration of the assembled server."""
    return None if _server is None else _server.conf


def application(files: Sequence[str]) -> Any:
    """The WSGI application, in the worker that serves it."""
    return application_of(_server or assemble(configuration(files)))
