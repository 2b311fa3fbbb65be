"""Builds the ML2 core from the configuration: the entry point `ml2` of `neutrino.core_plugins`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import BINDING, PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.ml2 import drivers
from neutrino.server.ml2.extension_attributes import ExtensionAttributes
from neutrino.server.ml2.extension_drivers import Dns
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.ports.binding import Binder
from neutrino.server.ml2.ports.bindings import PortBindings
from neutrino.server.ml2.ports.collection import PortOptions, Ports
from neutrino.server.ml2.ports.provisioning import Provisioning
from neutrino.server.ml2.renumbering import Renumbering
from neutrino.server.ml2.segments import DynamicSegmentStore, Segments
from neutrino.server.ml2.subnet_ports import SlaacAddresses
from neutrino.server.ml2.subnets import SubnetOptions, Subnets
from neutrino.server.securitygroups.views import check_usable
from neutrino.server.services import Services


@dataclass(frozen=True)
class Core:
    """The core plugin: its collections for the API, and the parts that other plugins use."""

    operations: Operations
    networks: Networks
    subnets: Subnets
    ports: Ports
    bindings: PortBindings
    provisioning: Provisioning
    renumbering: Renumbering
    attributes: ExtensionAttributes

    @property
    def collections(self) -> Sequence[tuple[Any, ...]]:
        extended = self.attributes.resource
        return (
            (extended(NETWORK), self.networks),
            (extended(SUBNET), self.subnets),
            (extended(PORT), self.ports),
            (BINDING, self.bindings),
        )

    @property
    def extensions(self) -> Sequence[Extension]:
        return self.attributes.extensions

    @property
    def policy_rules(self) -> Mapping[str, str]:
        """Default rules of attributes that extension drivers add."""
        return self.attributes.policy_rules


def build(services: Services) -> Core:
    conf, db, quotas, groups = services.conf, services.db, services.quotas, services.security_groups
    mechanisms = drivers.Mechanisms(drivers.mechanism_drivers(conf))
    extensions = drivers.Extensions(drivers.extension_drivers(conf))
    segments = Segments(drivers.type_drivers(conf), conf.ml2.tenant_network_types, conf.ml2.external_network_type)
    dynamic_segments = DynamicSegmentStore(db, segments)
    operations = Operations(db, mechanisms, dynamic_segments, conf.host)
    networks = Networks(
        db,
        operations,
        segments,
        extensions,
        quotas,
        services.zones_of,
        services.check_zone_hints,
        groups.ensure_default,
    )
    slaac = SlaacAddresses(Dns(conf).name_for)
    subnets = Subnets(db, operations, networks, extensions, quotas, slaac, SubnetOptions.of(conf))
    binder = Binder(
        mechanisms.drivers, services.registry.agents_on, services.dhcp_readiness.is_served, dynamic_segments
    )
    options = PortOptions(conf.base_mac, conf.max_allowed_address_pair)
    ports = Ports(db, operations, networks, extensions, quotas, binder, groups.ensure_default, check_usable, options)
    ports.commit_hooks.append(services.port_changed)
    return Core(
        operations,
        networks,
        subnets,
        ports,
        PortBindings(db, operations, networks, ports, binder),
        Provisioning(db, operations, services.dhcp_readiness, services.port_changed, ports.view),
        Renumbering(networks, ports, extensions, services.port_changed),
        extensions.attributes,
    )
