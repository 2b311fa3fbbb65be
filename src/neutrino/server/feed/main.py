"""Puts the feed's process together. It needs no API, so it loads none."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from neutrino.server import config, logs
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.events import nova
from neutrino.server.feed.credentials import Credentials
from neutrino.server.feed.listening import addresses, server_tls
from neutrino.server.feed.reports import Reports
from neutrino.server.feed.service import FeedServer, Settings
from neutrino.server.hosts.dhcp_scheduler import DhcpScheduler
from neutrino.server.hosts.registry import Registry
from neutrino.server.ml2.provisioning import Provisioning

LOG = logging.getLogger(__name__)


def configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    config.register(conf)
    logs.register(conf)
    nova.register_options(conf)
    conf([], project="neutrino", default_config_files=list(files), default_config_dirs=[])
    return conf


def settings(conf: cfg.ConfigOpts) -> Settings:
    return Settings(
        server=conf.host,
        addresses=addresses(conf),
        tls=server_tls(conf),
        keep_changes=conf.feed.keep_changes,
        interval=conf.feed.poll_interval,
        sqlite_interval=conf.feed.sqlite_poll_interval,
        heartbeat=conf.feed.heartbeat,
        heartbeat_timeout=conf.feed.heartbeat_timeout,
    )


def reports(conf: cfg.ConfigOpts, db: Database, nova_sink: nova.NovaSink) -> Reports:
    registry = Registry(db, conf.agent_down_time)
    scheduler = DhcpScheduler(db, registry, conf.dhcp_agents_per_network, default_zones=conf.default_availability_zones)

    def port_changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        nova_sink.send(nova.events_for_port(before, after))

    return Reports(registry, scheduler.reported, Provisioning(db, port_changed))


def run(conf: cfg.ConfigOpts) -> None:
    """Serve the feed until SIGTERM or SIGINT."""
    logging.getLogger("websockets").setLevel(logging.WARNING)
    how = settings(conf)
    url = config.database_url(conf)
    if conf.database.auto_upgrade:
        schema.ensure_in_child(url)
    db = Database(url, pool_size=conf.database.max_pool_size)
    schema.ensure(db, upgrade=conf.database.auto_upgrade)
    nova_sink = nova.nova_notifier_from_conf(conf)
    try:
        asyncio.run(_serve(FeedServer(db, Credentials(db), reports(conf, db, nova_sink), how)))
    finally:
        for address in how.addresses:
            if address.path:
                Path(address.path).unlink(missing_ok=True)
        nova_sink.close()
        db.close()


async def _serve(server: FeedServer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.run(stop)
