"""The contract of a feature: one package that declares, in one frozen value, everything the server needs to know of it.

    src/neutrino/features/<name>/feature.py     FEATURES = (Feature(...),): one, or one for each plugin of the package

The core, the feed, policy, quotas, history, trace and status iterate over `installed()` and name no feature. Packages of
third parties give a `Feature` by an entry point in the group `neutrino.features`; nothing else distinguishes them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import EntryPoint
from pkgutil import iter_modules

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import Connection

import neutrino.features
from neutrino import entry_points
from neutrino.configuration.options import Configuration
from neutrino.diagnosis.catalogue import AREAS
from neutrino.diagnosis.facts import Facts
from neutrino.diagnosis.problems import Problem, combine
from neutrino.errors import OperatorError, RefusedToStart
from neutrino.model.objects import Object, Values
from neutrino.server.access.sharing import Shareable
from neutrino.server.api.definition import Extension
from neutrino.server.feed.declarations import Feed, Sources, assemble
from neutrino.server.feed.kinds import CORE
from neutrino.server.feed.reports.reports import PortReports, TakeRates, TakeStatus, TakeTraffic
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.ml2.attributes import NetworkAttributes, PortAttributes
from neutrino.server.ml2.operations import ClosingHook
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.deprecated import by_rule
from neutrino.server.policy.rule_set import Defaults
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.trace.feature_part import ReadTracePart
from neutrino.server.trace.routing import Routing
from neutrino.server.uses import FlavorUse, GroupDeletion, NetworkUse, RouterUse, RuleRemote, SubnetCheck
from neutrino.takeover.family import Family

GROUP = "neutrino.features"  # of entry points
NO_FEED = Feed()


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a feature does in each process of the server, beside requests: after commits, and at the end.

    A change is called with the object before and after it (None: does not exist).
    """

    port_changed: Callable[[Object | None, Object | None], None] = lambda before, after: None
    # As Nova is notified: also when hosts' reports or drivers change a port's status alone.
    port_or_status_changed: Callable[[Values | None, Values | None], None] | None = None
    subnet_changed: Callable[[str, Object | None, Object | None], None] = lambda network_id, before, after: None
    segment_changed: Callable[[str], None] = lambda segment_id: None
    # In the feed process: an agent has reported its state.
    host_reported: Callable[[AgentReport], object] = lambda report: None
    closing: ClosingHook | None = None  # before each commit of a change of networks, subnets, ports or floating IPs
    begin: Callable[[], object] = lambda: None  # API processes: starts threads
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True, kw_only=True)
class HostReports:
    """What a feature does in the feed process with what hosts report of objects."""

    statuses: Mapping[str, TakeStatus] = field(default_factory=dict)  # by kind
    ports: Callable[[PortReports], PortReports] = lambda others: others  # takes the reports on ports, or passes them on
    traffic: TakeTraffic = lambda host, message: None
    rates: TakeRates = lambda reports: None
    settle: Callable[[], object] = lambda: None  # catches up with what the reports have changed


@dataclass(frozen=True, kw_only=True)
class Feature:
    name: str  # in the option `service_plugins`
    neutron_plugin: str = ""  # the class that this option has in a configuration of Neutron
    requires: Sequence[str] = ()  # features that are enabled with it, and built before it
    reads: Sequence[str] = ()  # features whose tables it reads, enabled or not
    by_default: bool = True  # enabled unless `service_plugins` says otherwise
    always: bool = False  # enabled whatever `service_plugins` says

    # The API
    extensions: Sequence[Extension] = ()  # aliases in GET /v2.0/extensions
    build: Callable[[Services], ResourcePlugin]  # resources with their collections
    policy: Mapping[str, str] = field(default_factory=dict)  # default rules
    deprecated_policy: Mapping[str, str] = field(default_factory=dict)  # Neutron's: check → names of rules
    earlier_policy_names: Mapping[str, str] = field(default_factory=dict)  # Neutron's, by rule
    tables: Sequence[sa.Table] = ()  # of another package: created if the database does not have them
    quotas: Mapping[str, int] = field(default_factory=dict)  # defaults by name; -1: unlimited
    options: Mapping[str | None, Sequence[cfg.Opt]] = field(default_factory=dict)  # by group; None: [DEFAULT]

    # The core
    start: Callable[[Services], Running] | None = None  # opens nothing, starts no thread
    network_attributes: Sequence[NetworkAttributes] = ()
    port_attributes: Sequence[PortAttributes] = ()
    shared: Sequence[Shareable] = ()  # types of objects that RBAC policies share
    report: Callable[[Configuration], object] = lambda conf: None  # logs, once, what is configured without effect
    adds_segment_ranges: bool = False  # segmentation ids are also chosen from rows of `network_segment_ranges`

    # Objects of the core that it depends on
    ports: Sequence[PortUse] = ()
    networks: Sequence[NetworkUse] = ()
    subnets: Sequence[SubnetCheck] = ()
    security_groups: Sequence[GroupDeletion] = ()
    firewall_groups: Sequence[GroupDeletion] = ()
    group_rules: Sequence[RuleRemote] = ()  # whether enabled or not: rules may refer to what is stored
    routers: Sequence[RouterUse] = ()
    flavors: Sequence[FlavorUse] = ()

    # Hosts
    feed: Feed = NO_FEED
    host_reports: Callable[[Services], HostReports] = lambda services: HostReports()

    # Takeover of a Neutron
    takeover: Sequence[Family] = ()  # its objects in Neutron's database

    # Diagnosis
    trace: Sequence[ReadTracePart] = ()
    routing: Routing | None = None  # of the feature that has the routers of traces
    facts: Callable[[Connection, Facts], Facts] | None = None  # adds those of its objects to the status of the service
    problems: Sequence[Problem] = ()  # for the catalogue; the ids of causes are those of a trace


@cache
def installed() -> tuple[Feature, ...]:
    """All features, enabled or not, each after those that it requires."""
    packages = (f"{GROUP}.{module.name}.feature" for module in iter_modules(neutrino.features.__path__))
    built_in = [feature for package in packages for feature in import_module(package).FEATURES]
    return _in_order([*built_in, *map(_load, entry_points.of_group(GROUP))])


def enabled(conf: cfg.ConfigOpts) -> list[Feature]:
    chosen = [feature for feature in installed() if feature.always or feature.name in conf.service_plugins]
    names = {feature.name for feature in chosen}
    for name in conf.service_plugins:
        if name not in names:
            raise RefusedToStart(f"[DEFAULT] service_plugins: no installed package has a feature called {name!r}")
    for feature in chosen:
        if missing := sorted({*feature.requires} - names):
            raise RefusedToStart(f"[DEFAULT] service_plugins: {feature.name} needs {', '.join(missing)}")
    return chosen


@cache
def sources() -> Sources:
    """What the feed reads and sends: of the core and all features."""
    return assemble([CORE, *(feature.feed for feature in installed())])


@cache
def catalogue() -> Mapping[str, Problem]:
    """All problems by id, of the core and all features."""
    return combine(*AREAS.values(), *(feature.problems for feature in installed()))


def additional_tables() -> list[sa.Table]:
    """The tables of features of other packages, which our migrations do not have."""
    return [table for feature in installed() for table in feature.tables]


def policy_defaults() -> Defaults:
    """The default policy rules of all features."""
    rules = {name: check for feature in installed() for name, check in feature.policy.items()}
    deprecated = {k: v for one in installed() for k, v in by_rule(one.deprecated_policy).items()}
    return Defaults(rules, deprecated, {k: v for one in installed() for k, v in one.earlier_policy_names.items()})


def _load(point: EntryPoint) -> Feature:
    """The feature of another package."""
    try:
        feature: Feature = point.load()
    except Exception as error:  # whatever its code raises
        package = point.dist.name if point.dist is not None else point.value
        reason = f"{type(error).__name__}: {error}"
        raise OperatorError(f"the feature {point.name} of package {package} cannot be loaded: {reason}") from error
    return feature


def _in_order(features: Sequence[Feature]) -> tuple[Feature, ...]:
    by_name = {feature.name: feature for feature in sorted(features, key=lambda feature: feature.name)}
    if len(by_name) < len(features):  # a package must not replace a feature of another one unnoticed
        several = sorted(name for name, number in Counter(one.name for one in features).items() if number > 1)
        raise OperatorError(f"several packages have a feature called {', '.join(several)}: uninstall one of them")
    before = {name: [one for one in feature.requires if one in by_name] for name, feature in by_name.items()}
    return tuple(by_name[name] for name in TopologicalSorter(before).static_order())
