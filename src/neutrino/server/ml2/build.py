"""Builds the ML2 core from the configuration: the entry point `ml2` of `neutrino.core_plugins`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oslo_config import cfg

from neutrino import entry_points
from neutrino.model.objects import Object
from neutrino.server.api.definition import Extension, Resource
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import BINDING, PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.ml2.attributes import extended
from neutrino.server.ml2.cascade import NetworkCascade
from neutrino.server.ml2.extension_drivers import Dns
from neutrino.server.ml2.extensions import Extensions
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.neutron_drivers import find as neutron_drivers
from neutrino.server.ml2.operations import Mechanisms, Operations
from neutrino.server.ml2.ports.binding import Binder
from neutrino.server.ml2.ports.bindings import PortBindings
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.provisioning import Provisioning
from neutrino.server.ml2.segments import Segments
from neutrino.server.ml2.subnets import Subnets
from neutrino.server.ml2.vlan_tags import VlanTags
from neutrino.server.services import CoreServices, load


@dataclass(frozen=True)
class Core:
    """The core plugin: its collections for the API, and the parts that other plugins use."""

    operations: Operations
    networks: Networks
    subnets: Subnets
    ports: Ports
    bindings: PortBindings
    cascade: NetworkCascade
    provisioning: Provisioning
    collections: Sequence[tuple[Resource, object]]
    extensions: Sequence[Extension]
    policy_rules: Mapping[str, str]  # default rules of attributes that extension drivers add
    begin: Callable[[], object]  # called by each process of a server when it starts: initialises its drivers


def build(services: CoreServices) -> Core:
    conf, db, groups = services.conf, services.db, services.security_groups
    network_attributes, port_attributes = services.network_attributes, services.port_attributes
    mechanisms = Mechanisms(_drivers(conf, "mechanism_drivers"))
    extensions = Extensions(list(_drivers(conf, "extension_drivers").values()))
    types = _drivers(conf, "type_drivers")
    choice = conf.ml2.project_network_types, conf.ml2.external_network_type
    segments = Segments(db, types, *choice, services.has_added_ranges)
    operations = Operations(db, mechanisms, segments, conf.host)
    binder = Binder(list(mechanisms.drivers.values()), services.registry, segments)
    vlan_tags = VlanTags(conf, mechanisms.drivers.values())
    networks = Networks(db, operations, segments, vlan_tags, extensions, services.quotas, groups, network_attributes)
    common = db, operations, networks, extensions, services.quotas
    max_servers, max_routes = conf.max_dns_nameservers, conf.max_subnet_host_routes
    name_for = Dns(conf).name_for
    subnets = Subnets(*common, name_for, max_servers, max_routes, conf.ipv6_pd_enabled)
    max_pairs = conf.max_allowed_address_pair
    ports = Ports(*common, binder, groups, conf.base_mac, max_pairs, name_for, port_attributes)
    ports.commit_hooks.append(services.port_changed)
    network = extensions.resource(vlan_tags.resource(extended(NETWORK, network_attributes)))
    port, subnet = extensions.resource(extended(PORT, port_attributes)), extensions.resource(SUBNET)
    cascade = NetworkCascade(db, operations, networks, ports, port, subnet)
    networks.delete_cascade = cascade.delete_cascade
    bindings = PortBindings(db, operations, networks, ports, binder, conf.ml2.inactive_binding_timeout)
    provisioning = Provisioning(db, operations, services.port_changed, ports.view)
    parts = services.registry, operations, segments, networks, subnets, ports, provisioning
    begin = neutron_drivers.attached(conf, db, *parts)
    return Core(
        operations,
        networks,
        subnets,
        ports,
        bindings,
        cascade,
        provisioning,
        (
            (network, networks),
            (subnet, subnets),
            (port, ports),
            (BINDING, bindings),
        ),
        [*vlan_tags.extensions, *extensions.extensions],
        extensions.policy_rules,
        begin,
    )


def _drivers(conf: cfg.ConfigOpts, kind: str) -> Object:
    """The drivers that the option `[ml2] <kind>` names, in its order."""
    return {name: _driver(conf, kind, name) for name in conf.ml2[kind]}


def _driver(conf: cfg.ConfigOpts, kind: str, name: str) -> object:
    group = f"neutrino.ml2.{kind}"
    if any(point.name == name for point in entry_points.of_group(group)):
        return load(group, name)(conf)
    return neutron_drivers.load(conf, kind, name)
