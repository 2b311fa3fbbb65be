"""Composition root of the API server, on top of the parts that the feed process has too (`backend.py`).

`assemble` opens, starts and reads nothing, so it can be done once before worker processes are forked, which then share its
memory. `begin` opens the database and starts threads, in each process.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from wsgiref.types import WSGIApplication

import sqlalchemy as sa

from neutrino import logs, private
from neutrino.configuration import findings
from neutrino.configuration.options import Configuration
from neutrino.diagnosis.facts import API_PROCESS
from neutrino.metrics.catalog import CONNECTIONS, DRIVERS_NOT_READY
from neutrino.metrics.process import start_worker
from neutrino.server import config, features
from neutrino.server.access import tags
from neutrino.server.access.rbac import RbacPolicies
from neutrino.server.api.app import build_app
from neutrino.server.api.authentication import Authentication
from neutrino.server.api.catalog import Plugin, serve
from neutrino.server.api.definition import Resource
from neutrino.server.api.openapi import document
from neutrino.server.api.pipeline import Notify, Pipeline
from neutrino.server.api.resources import CORE, EXTENSIONS
from neutrino.server.api.resources.agent import AGENT
from neutrino.server.api.routes import discovery_routes, listed, public_routes, resource_routes
from neutrino.server.backend import build_backend
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.db.tables import histories, metadata
from neutrino.server.dhcp.scheduler import DhcpScheduler
from neutrino.server.events import nova
from neutrino.server.events.notifications import notifier_from_conf
from neutrino.server.history import Changes
from neutrino.server.hosts.registry import Registry
from neutrino.server.ipam.ip_availability import IpAvailability
from neutrino.server.ipam.subnet_pools import AddressScopes, SubnetPools
from neutrino.server.middleware import wrap
from neutrino.server.ml2.build import Core
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.quota.plugin import QuotaPlugin
from neutrino.server.scheduling.agents_api import Agents, placement_routes
from neutrino.server.scheduling.placements import NETWORKS
from neutrino.server.scheduling.scheduler import AgentScheduler, Sweeper
from neutrino.server.securitygroups.default_rules import DefaultRules
from neutrino.server.securitygroups.default_statefulness import DefaultStatefulness
from neutrino.server.services import ResourcePlugin, Services, ignore
from neutrino.server.status.health import Assessor, HealthRoutes
from neutrino.server.status.processes import ProcessSweep, ServerProcess
from neutrino.server.status.routes import Status
from neutrino.server.trace import plugin as traces
from neutrino.server.trace.routing import NO_ROUTING

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """An assembled server: the WSGI application, and the parts that commands and tests use."""

    app: WSGIApplication
    conf: Configuration
    db: Database
    core: Core
    registry: Registry
    scheduler: DhcpScheduler
    close: Callable[[], None]
    stop: threading.Event  # set by `close`
    service_plugins: Mapping[str, Any]  # by their names in the configuration
    process: ServerProcess  # the row of this process, written from `begin` on
    running: Sequence[features.Running]
    authorizer: Authorizer


def assemble(conf: Configuration) -> Server:
    config.check_listening(conf)
    findings.refuse(conf, findings.SERVER)
    backend = build_backend(conf)
    notifier = notifier_from_conf(conf, conf.host)
    notify: Notify = notifier.notify if notifier is not None else ignore
    defaults = features.policy_defaults()
    rules = {**defaults.rules, **backend.services.core.policy_rules}
    authorizer = Authorizer(conf, replace(defaults, rules=rules))
    services = replace(backend.services, notify=notify, allows=authorizer.allows)
    db, quotas, registry, core, dhcp = services.db, services.quotas, services.registry, services.core, backend.dhcp
    db.notifies = conf.feed.announce
    enabled = {feature.name: feature for feature in features.enabled(conf)}
    service_plugins = {name: feature.build(services) for name, feature in enabled.items()}
    core.ports.uses += [use for plugin in service_plugins.values() for use in plugin.ports]
    services.security_groups.delete_hooks += [one for feature in enabled.values() for one in feature.security_groups]
    core.cascade.services += [cascade for plugin in service_plugins.values() for cascade in plugin.cascades]
    core.networks.uses += [use for feature in enabled.values() for use in feature.networks]
    core.networks.uses += [use for plugin in service_plugins.values() for use in plugin.networks]
    core.networks.subnet_checks += [check for feature in enabled.values() for check in feature.subnets]
    agents = Agents(db, registry, _schedulers(dhcp, service_plugins))
    plugins = [*_built_in(services, agents), *service_plugins.values()]
    quota_api = QuotaPlugin(db, quotas)
    served = serve(plugins)
    of_plugins = [extension for plugin in plugins for extension in plugin.extensions]
    of_features = [extension for feature in enabled.values() for extension in feature.extensions]
    aliases = listed([*EXTENSIONS, *of_plugins, *quota_api.extensions, *of_features, *tags.EXTENSIONS])
    max_limit = conf.pagination_max_limit if conf.pagination_max_limit > 0 else None
    pipeline = Pipeline(authorizer, quotas.check, notify, max_limit)
    tagged = [(s.resource, _table(s.resource)) for s in served if s.resource.tagged]

    # The first route that matches is used: special paths come before the generic ones of resources.
    routes = [
        *discovery_routes(CORE, aliases),
        *quota_api.routes(authorizer),
        *Changes(db, _by_kind(one.resource for one in served)).routes(authorizer),
        *tags.tag_routes(db, authorizer, notify, tagged),
        *Status(db, registry).routes(authorizer),
        *HealthRoutes(db, Assessor(db, registry)).routes(authorizer),
        *placement_routes(db, authorizer, notify, dhcp, core.networks, partial(agents.serving, NETWORKS)),
        *(route for plugin in service_plugins.values() for route in plugin.routes(authorizer)),
        *resource_routes(pipeline, served),
    ]
    public = public_routes(lambda: document(served, routes, aliases))
    authentication = Authentication(authorizer, keystone=conf.auth_strategy == "keystone")
    max_body, noauth = conf.oslo_middleware.max_request_body_size, conf.auth_strategy == "noauth"
    app = build_app(
        *(routes, authentication),
        max_body=max_body,
        typed=noauth,
        public=public,
        compress_from=conf.compress_from,
        link_prefix=conf.network_link_prefix,
    )
    stop = threading.Event()
    mechanisms = core.operations.mechanisms
    process = ServerProcess(
        db, conf.host, API_PROCESS, lambda: {"threads": config.api_threads(conf), **mechanisms.details()}
    )

    def close() -> None:
        stop.set()
        process.stop()
        if notifier is not None:
            notifier.close()
        backend.close()

    app, running = wrap(app, conf), backend.running
    return Server(app, conf, db, core, registry, dhcp, close, stop, service_plugins, process, running, authorizer)


def _built_in(services: Services, agents: Agents) -> list[Plugin]:
    """The plugins of every server, whatever its configuration."""
    conf, db, quotas, registry = services.conf, services.db, services.quotas, services.registry
    parts = [read for feature in features.installed() for read in feature.trace]
    routing = next((one.routing for one in features.installed() if one.routing is not None), NO_ROUTING)
    at_once = max(1, config.api_threads(conf) - 1)  # traces of a worker: they leave a thread for other requests
    return [
        services.core,
        AddressScopes(db),
        SubnetPools(db, quotas),
        services.security_groups,
        DefaultRules(db, services.security_groups.remotes),
        DefaultStatefulness(db),
        RbacPolicies(
            db,
            quotas,
            [one for feature in features.installed() for one in feature.shared],
            [user for feature in features.installed() for use in feature.networks for user in use.external_users],
        ),
        agents,
        IpAvailability(db),
        traces.build(db, registry, routing, parts, features.catalogue(), at_once=at_once),
    ]


def report(server: Server, agent_options: Callable[[], findings.Groups] = tuple) -> None:
    """Log what the configuration files have that is without effect. Once, in the process that is started first."""
    findings.report(server.conf, findings.SERVER, agent_options)
    server.authorizer.report()
    nova.report_unconfigured(server.conf)
    for feature in features.enabled(server.conf):
        feature.report(server.conf)


def begin(server: Server) -> None:
    """Open the database, replay the journal of dead processes, and start the threads: failover, the row of this process."""
    conf = server.conf
    private.close_directory(conf.state_path)
    schema.ensure(server.db, upgrade=conf.database.auto_upgrade)
    schema.ensure_tables(server.db, features.additional_tables(), upgrade=conf.database.auto_upgrade)
    is_frozen = server.db.is_frozen()
    server.core.begin()

    def begin_plugins() -> None:
        for plugin in server.service_plugins.values():
            plugin.begin()

    if not is_frozen:
        begin_plugins()
    replayed = server.core.operations.replay()
    if replayed:
        LOG.warning("replayed %s operations that another process had left unfinished", replayed)
    server.db.release()  # this thread serves no requests: those that do get its connection
    server.db.warm(config.api_threads(conf))
    # Random, because every worker sweeps: all at once would compete for the same rows.
    interval = conf.agent_down_time * (0.3 + 0.2 * random.random())
    tasks = {"rows of ended processes": ProcessSweep(server.db).sweep, "old copies": server.core.bindings.expire}
    schedulers = _schedulers(server.scheduler, server.service_plugins)
    when_opened = begin_plugins if is_frozen else None
    sweeper = Sweeper(schedulers, server.registry, interval, server.stop, tasks, when_opened)
    threading.Thread(target=sweeper.run, daemon=True, name="sweeper").start()
    server.process.start()
    for one in server.running:
        one.begin()


def _table(resource: Resource) -> sa.Table:
    """The table of a resource is named like its collection, or like its path: QoS policies are just `policies`."""
    names = (resource.collection, resource.url.replace("/", "_"))
    return next(metadata.tables[name] for name in names if name in metadata.tables)


def _by_kind(resources: Iterable[Resource]) -> dict[str, Resource]:
    """The resources by the kinds of the change log: their names, or those of their quotas."""
    kinds = {history.kind for history in histories().values()} | {AGENT.name}
    return {kind: one for one in resources for kind in kinds & {one.name, one.quota_name}}


def _schedulers(dhcp: DhcpScheduler, plugins: Mapping[str, ResourcePlugin]) -> list[AgentScheduler]:
    """All schedulers: networks on DHCP agents, and those of service plugins."""
    return [dhcp, *(scheduler for plugin in plugins.values() for scheduler in plugin.schedulers)]


def _start_metrics(server: Server) -> None:
    conf = server.conf
    if not conf.metrics.bind:
        return
    directory = config.metrics_directory(conf)
    try:
        private.make_directory(directory)  # there already, unless another WSGI server than ours runs the application
        start_worker(directory, server.stop)
    except OSError as error:
        LOG.warning("no metrics of this process, as %s cannot be written: %s", directory, error.strerror or error)
    CONNECTIONS.watch(server.db.connections)
    DRIVERS_NOT_READY.watch(server.core.operations.mechanisms.measures)


def application(server: Server) -> WSGIApplication:
    """The WSGI application of an assembled server, in the process that serves requests."""
    logs.setup(server.conf)
    _start_metrics(server)
    begin(server)
    return server.app
