"""Runs the feed process: the feed server with the handlers of the hosts' reports, until a signal."""

import asyncio
import gc
import logging
import resource
import signal

from oslo_config import cfg

from neutrino import private
from neutrino.server.backend import build_backend, host_reports
from neutrino.server.db import schema
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.connections.listeners import addresses, server_tls
from neutrino.server.feed.server import FeedOptions, FeedServer


def settings(conf: cfg.ConfigOpts) -> FeedOptions:
    return FeedOptions(
        server=conf.host,
        addresses=addresses(conf),
        tls=server_tls(conf),
        keep_changes=conf.feed.keep_changes,
        interval=conf.feed.poll_interval,
        sqlite_interval=conf.feed.sqlite_poll_interval,
        heartbeat=conf.feed.heartbeat,
        heartbeat_timeout=conf.feed.heartbeat_timeout,
    )


def run(conf: cfg.ConfigOpts) -> None:
    """Serve the feed until SIGTERM or SIGINT."""
    logging.getLogger("websockets").setLevel(logging.WARNING)
    options = settings(conf)
    private.close_directory(conf.state_path)
    backend = build_backend(conf)
    db = backend.services.db
    schema.ensure(db, upgrade=conf.database.auto_upgrade)
    _allow_connections()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # the feed's records are many and without cycles: collecting often finds nothing
    try:
        asyncio.run(_serve(FeedServer(db, Credentials(db), host_reports(backend), options)))
    finally:
        backend.close()


def _allow_connections() -> None:
    """Every host is an open file: raise the soft limit to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(server: FeedServer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.run(stop)
