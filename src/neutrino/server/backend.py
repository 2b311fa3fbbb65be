"""Composition root of the parts that API workers and the feed process have in common: database, core plugin, DHCP.

`main.py` adds the API, and the feed process adds what handles the reports of hosts (`host_reports`), because reports
schedule networks and routers, bind ports and make them ACTIVE.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from neutrino.configuration.options import Configuration
from neutrino.feed.messages import Rates, Traffic
from neutrino.model.objects import Values
from neutrino.server import config, features
from neutrino.server.dhcp.scheduler import DhcpScheduler, build_dhcp
from neutrino.server.events import nova
from neutrino.server.feed.reports.reports import PortReports, Reports
from neutrino.server.frozen import Frozen
from neutrino.server.hosts.queries import OpenQueries
from neutrino.server.hosts.registry import AgentReport, Registry
from neutrino.server.hosts.serving import let_disabled_agents_serve
from neutrino.server.ml2.attributes import configured
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import SecurityGroups
from neutrino.server.services import CoreServices, Services, load


@dataclass(frozen=True)
class Backend:
    services: Services  # with the core plugin
    dhcp: DhcpScheduler
    close: Callable[[], None]
    running: Sequence[features.Running] = ()


def build_backend(conf: Configuration) -> Backend:
    """Opens and starts nothing, so that it can be done before processes are forked."""
    db = config.database(conf)
    db.is_frozen = Frozen(db)
    if conf.enable_services_on_agents_with_admin_state_down:
        let_disabled_agents_serve(db)
    quotas = Quotas(db, config.limits(conf))
    registry = Registry(db, conf.agent_down_time, enable_new=conf.enable_new_agents, shown_load=conf.dhcp_load_type)
    nova_sink = nova.nova_notifier_from_conf(conf)  # its thread starts with the first event, not here

    sinks: list[Callable[[Values | None, Values | None], None]] = []  # of features, which are started below

    def port_changed(before: Values | None, after: Values | None) -> None:
        nova_sink.send(nova.events_for_port(before, after))
        for sink in sinks:
            sink(before, after)

    def addresses_changed(ports: Iterable[Values]) -> None:
        nova_sink.send(nova.events_for_addresses(ports))

    groups = SecurityGroups(db, quotas, [remote for one in features.installed() for remote in one.group_rules])
    enabled = features.enabled(conf)
    has_added_ranges = any(feature.adds_segment_ranges for feature in enabled)
    for_core = CoreServices(
        *(conf, db, quotas, registry, groups, port_changed, addresses_changed, has_added_ranges),
        network_attributes=[one for feature in features.installed() for one in feature.network_attributes],
        port_attributes=configured((a for feature in features.installed() for a in feature.port_attributes), conf),
    )
    core = load("neutrino.core_plugins", conf.core_plugin)(for_core)
    dhcp = build_dhcp(conf, db, registry, core)
    services = Services(**vars(for_core), core=core)
    running = [feature.start(services) for feature in enabled if feature.start is not None]
    core.ports.uses += [use for feature in enabled for use in feature.ports]
    core.subnets.commit_hooks += [one.subnet_changed for one in running]
    core.ports.commit_hooks += [one.port_changed for one in running]
    sinks += [one.port_or_status_changed for one in running if one.port_or_status_changed is not None]
    core.networks.segment_hooks += [one.segment_changed for one in running]
    core.operations.closing_hooks += [one.closing for one in running if one.closing is not None]

    def close() -> None:
        nova_sink.queue.close()
        for one in running:
            one.close()
        db.close()

    return Backend(services, dhcp, close, running)


def host_reports(backend: Backend) -> Reports:
    """Handlers of the hosts' reports, for the feed process."""
    services, dhcp = backend.services, backend.dhcp
    of_features = [feature.host_reports(services) for feature in features.enabled(services.conf)]
    statuses = {kind: take for one in of_features for kind, take in one.statuses.items()}
    ports: PortReports = services.core.provisioning
    for one in of_features:
        ports = one.ports(ports)

    def reported(report: AgentReport) -> None:
        if services.db.is_frozen():  # it gets what it lacks when the takeover is completed (`Sweeper`)
            return
        dhcp.reported(report)
        for one in backend.running:
            one.host_reported(report)

    def settle() -> None:
        for one in of_features:
            one.settle()

    def traffic(host: str, message: Traffic) -> None:
        for one in of_features:
            one.traffic(host, message)

    def rates(reports: Sequence[tuple[str, Rates]]) -> None:
        for one in of_features:
            one.rates(reports)

    take_answer = OpenQueries(services.db).take_answer
    return Reports(services.registry, reported, ports, statuses, settle, take_answer, traffic, rates)
