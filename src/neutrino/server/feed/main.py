"""Puts the feed's process together. It needs no API, so it loads none.

It has the core plugin, as the API's processes do: an agent that reports may be given networks, and with them come ports,
which the plugin's drivers bind.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from neutrino import private
from neutrino.server import config, logs
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.dhcp.scheduler import scheduler_from_conf
from neutrino.server.entry_points import load
from neutrino.server.events import nova
from neutrino.server.feed.credentials import Credentials
from neutrino.server.feed.listeners import addresses, server_tls
from neutrino.server.feed.port_status import DistributedPortStatus
from neutrino.server.feed.reports import Reports
from neutrino.server.feed.server import FeedOptions, FeedServer
from neutrino.server.hosts.registry import Registry, Report
from neutrino.server.l3.build import build_delegations, build_dvr, build_scheduler
from neutrino.server.l3.reports import RouterStatuses
from neutrino.server.ml2.ports.provisioning import Provisioning
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import SecurityGroups
from neutrino.server.services import Services

LOG = logging.getLogger(__name__)


def configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    config.register(conf)
    logs.register(conf)
    nova.register_options(conf)
    conf([], project="neutrino", default_config_files=list(files), default_config_dirs=[])
    return conf


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


def reports(conf: cfg.ConfigOpts, db: Database, nova_sink: nova.NovaNotifier) -> Reports:
    registry = Registry(db, conf.agent_down_time)
    scheduler = scheduler_from_conf(conf, db, registry)
    quotas = Quotas(db, config.quota_defaults(conf))

    def port_changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        nova_sink.send(nova.events_for_port(before, after))

    services = Services(conf, db, quotas, registry, scheduler, SecurityGroups(db, quotas), port_changed)
    core = load("neutrino.core_plugins", conf.core_plugin)(services)
    provisioning = getattr(core, "provisioning", None) or Provisioning(db, port_changed)
    if "router" not in conf.service_plugins:
        return Reports(registry, scheduler.reported, provisioning, RouterStatuses(db))
    services = replace(services, core=core)
    routers, dvr, delegations = build_scheduler(services), build_dvr(services), build_delegations(services)

    def reported(report: Report) -> None:
        scheduler.reported(report)
        routers.reported(report)
        dvr.reported(report)

    distributed = DistributedPortStatus(db, provisioning)

    def settle() -> None:
        dvr.settle()
        distributed.settle()

    statuses = RouterStatuses(db, routers.set_ha_states, delegations.set_prefix)
    return Reports(registry, reported, distributed, statuses, settle)


def run(conf: cfg.ConfigOpts) -> None:
    """Serve the feed until SIGTERM or SIGINT."""
    logging.getLogger("websockets").setLevel(logging.WARNING)
    how = settings(conf)
    url = config.database_url(conf)
    private.close_directory(conf.state_path)
    if conf.database.auto_upgrade:
        schema.ensure_in_child(url)
    db = Database(url, pool_size=conf.database.max_pool_size)
    schema.ensure(db, upgrade=conf.database.auto_upgrade)
    nova_sink = nova.nova_notifier_from_conf(conf)
    _allow_connections()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # what the feed keeps is large and has no cycles: it need not be looked at often
    try:
        asyncio.run(_serve(FeedServer(db, Credentials(db), reports(conf, db, nova_sink), how)))
    finally:
        nova_sink.close()
        db.close()


def _allow_connections() -> None:
    """Every host is an open file: as many as the system lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(server: FeedServer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.run(stop)
