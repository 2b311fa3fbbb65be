"""The composition root: the only place that puts the server together."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oslo_config import cfg

from neutrino import private
from neutrino.server import config, logs
from neutrino.server.access.rbac import RbacPolicies
from neutrino.server.access.tags import Tags
from neutrino.server.api import discovery
from neutrino.server.api.app import build_app
from neutrino.server.api.authentication import Authentication
from neutrino.server.api.catalog import serve
from neutrino.server.api.definition import Resource
from neutrino.server.api.openapi import document, lazily
from neutrino.server.api.pipeline import Pipeline, Reply
from neutrino.server.api.resources import CORE
from neutrino.server.api.routes import Route, resource_routes
from neutrino.server.context import Context
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.db.tables import metadata
from neutrino.server.entry_points import load
from neutrino.server.events import nova
from neutrino.server.events.notifications import (
    Notifier,
    NullNotifier,
    notifier_from_conf,
)
from neutrino.server.events.notifications import register_options as register_notifications
from neutrino.server.hosts.dhcp_scheduler import DhcpScheduler, scheduler_from_conf
from neutrino.server.hosts.liveness import Sweeper
from neutrino.server.hosts.plugin import Agents
from neutrino.server.hosts.registry import Registry
from neutrino.server.hosts.zones import AvailabilityZones
from neutrino.server.ipam.address_scopes import AddressScopes
from neutrino.server.ipam.ip_availability import IpAvailability
from neutrino.server.ipam.subnet_pools import SubnetPools
from neutrino.server.middleware import wrap
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.quota.plugin import QuotaPlugin
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.address_groups import AddressGroups
from neutrino.server.securitygroups.groups import SecurityGroups
from neutrino.server.services import Services

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """A server put together: the application, and what tests and commands reach behind it."""

    app: Any
    conf: cfg.ConfigOpts
    db: Database
    core: Any
    registry: Registry
    scheduler: DhcpScheduler
    quotas: Quotas
    close: Callable[[], None]
    stop: threading.Event  # set by `close`
    service_plugins: Mapping[str, Any]  # by their names in the configuration
    resources: Sequence[Resource]  # all that are served


def configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    config.register(conf)
    logs.register(conf)
    register_notifications(conf)
    nova.register_options(conf)
    conf([], project="neutrino", default_config_files=list(files), default_config_dirs=[])
    return conf


def build(conf: cfg.ConfigOpts) -> Server:
    """A server that is ready to serve."""
    server = assemble(conf)
    begin(server)
    return server


def assemble(conf: cfg.ConfigOpts) -> Server:
    """The server put together, with nothing opened, started or asked: so it can be done before processes are forked."""
    config.check_listening(conf)
    db = Database(config.database_url(conf), pool_size=conf.database.max_pool_size)
    db.notifies = conf.feed.announce

    authorizer = Authorizer(conf)
    quotas = Quotas(db, config.quota_defaults(conf))
    registry = Registry(db, conf.agent_down_time)
    scheduler = scheduler_from_conf(conf, db, registry)
    groups = SecurityGroups(db, quotas)
    notifier = notifier_from_conf(conf, conf.host)
    nova_sink = nova.nova_notifier_from_conf(conf)

    def port_changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        nova_sink.send(nova.events_for_port(before, after))

    def floating_ip_changed(
        before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, ports: Mapping[str, Mapping[str, Any]]
    ) -> None:
        nova_sink.send(nova.events_for_floating_ip(before, after, ports))

    services = Services(conf, db, quotas, registry, scheduler, groups, port_changed, floating_ip_changed)
    core = load("neutrino.core_plugins", conf.core_plugin)(services)
    services = replace(services, core=core)
    further = {name: load("neutrino.service_plugins", name)(services) for name in conf.service_plugins}
    services_offered = [p for plugin in further.values() for p in (plugin, *getattr(plugin, "companions", ()))]
    agents = Agents(db, registry, scheduler, [p for p in further.values() if hasattr(p, "agent_leaving")])
    plugins = [
        core,
        AddressScopes(db),
        SubnetPools(db, quotas),
        groups,
        AddressGroups(db, quotas, conf.max_address_group_addresses),
        RbacPolicies(db, quotas),
        agents,
        AvailabilityZones(db),
        IpAvailability(db),
        *services_offered,
    ]
    quota_api, tags = QuotaPlugin(db, quotas), Tags(db)
    served = serve(plugins)
    aliases = discovery.listed([*discovery.EXTENSIONS, *(e for p in [*plugins, quota_api, tags] for e in p.extensions)])
    max_limit = conf.pagination_max_limit if conf.pagination_max_limit > 0 else None
    pipeline = Pipeline(authorizer, quotas, _telling(notifier), max_limit)
    tagged = [(s.resource, metadata.tables[s.resource.collection]) for s in served if s.resource.tagged]

    def networks_of(context: Context, ids: Sequence[str]) -> list[dict[str, Any]]:
        return _networks_of(core, context, ids)

    routes: list[Route] = [
        *discovery.routes(CORE, aliases),
        *quota_api.routes(authorizer),
        *tags.routes(authorizer, tagged),
        *agents.routes(authorizer, networks_of),
        *(route for plugin in services_offered if hasattr(plugin, "routes") for route in plugin.routes(authorizer)),
        *resource_routes(pipeline, served),
    ]
    spec = lazily(lambda: document(served, routes, aliases))
    public = [*discovery.public_routes(), Route("GET", "/openapi.json", lambda request: Reply(200, spec()))]
    authentication = Authentication(authorizer, keystone=conf.auth_strategy == "keystone")
    max_body, noauth = conf.oslo_middleware.max_request_body_size, conf.auth_strategy == "noauth"
    app = build_app(routes, authentication, max_body=max_body, typed=noauth, public=public)

    stop = threading.Event()

    def close() -> None:
        stop.set()
        notifier.close()
        nova_sink.close()
        db.close()

    resources = [s.resource for s in served]
    return Server(wrap(app, conf), conf, db, core, registry, scheduler, quotas, close, stop, further, resources)


def begin(server: Server) -> None:
    """Open the database, finish what an earlier process left, and start what runs beside the requests."""
    conf = server.conf
    private.close_directory(conf.state_path)
    schema.ensure(server.db, upgrade=conf.database.auto_upgrade)
    server.db.warm(config.api_threads(conf))
    replayed = server.core.operations.replay() if hasattr(server.core, "operations") else 0
    if replayed:
        LOG.warning("finished %s operations that an earlier process had left", replayed)
    interval = conf.agent_down_time * (0.4 + 0.2 * random.random())  # several workers sweep: not all at once
    sweeper = Sweeper(server.scheduler, server.registry, interval, server.stop)
    threading.Thread(target=sweeper.run, daemon=True, name="sweeper").start()
    for name, plugin in server.service_plugins.items():
        if getattr(plugin, "has_failover", False):
            interval = conf.agent_down_time * (0.4 + 0.2 * random.random())
            sweeper = Sweeper(plugin, server.registry, interval, server.stop, str)
            threading.Thread(target=sweeper.run, daemon=True, name=f"sweeper-{name}").start()


def _telling(notifier: Notifier) -> Callable[[Context, str, dict[str, Any]], None]:
    if isinstance(notifier, NullNotifier):
        return lambda context, event, payload: None
    return lambda context, event, payload: notifier.notify(event, payload, context)


def _networks_of(core: Any, context: Context, ids: Sequence[str]) -> list[dict[str, Any]]:
    from neutrino.server.query import Query

    if not ids:
        return []
    networks: list[dict[str, Any]] = core.get_networks(context, Query(filters={"id": tuple(ids)}, everyone=True))
    return networks
