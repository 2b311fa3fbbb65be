"""Puts the ML2 core together from the configuration: the entry point `ml2` of `neutrino.core_plugins`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import BINDING, PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.context import admin_context
from neutrino.server.hosts.zones import check_hints
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2 import drivers
from neutrino.server.ml2.auto_addresses import AutoAddresses
from neutrino.server.ml2.extension_drivers.dns import Dns
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.port_placing import Placing
from neutrino.server.ml2.ports.bindings import PortBindings
from neutrino.server.ml2.ports.collection import Neighbours, Ports, Settings
from neutrino.server.ml2.ports.provisioning import Provisioning
from neutrino.server.ml2.renumbering import Renumbering
from neutrino.server.ml2.segments import Segments
from neutrino.server.ml2.subnets import Limits, Subnets
from neutrino.server.securitygroups.usable import check_usable
from neutrino.server.services import Object, Services

if TYPE_CHECKING:  # at run time it is passed in: server/dhcp stands on this package
    from neutrino.server.dhcp.scheduler import DhcpScheduler


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
    dhcp_scheduler: DhcpScheduler
    extensions: Sequence[Extension] = ()

    @property
    def collections(self) -> Sequence[tuple[Any, ...]]:
        return (NETWORK, self.networks), (SUBNET, self.subnets), (PORT, self.ports), (BINDING, self.bindings)


def build(services: Services) -> Core:
    conf, db = services.conf, services.db
    mechanisms = drivers.Mechanisms(drivers.mechanism_drivers(conf))
    extensions = drivers.Extensions(drivers.extension_drivers(conf))
    segments = Segments(drivers.type_drivers(conf), conf.ml2.tenant_network_types, conf.ml2.external_network_type)
    operations = Operations(db, mechanisms, conf.host)
    networks = Networks(
        db,
        operations,
        segments,
        extensions,
        services.quotas,
        services.dhcp.zones_of,
        check_hints,
        services.security_groups.ensure_default,
    )
    neighbours = Neighbours(
        ensure_default_group=services.security_groups.ensure_default,
        check_groups=check_usable,
        told=lambda before, after: _port_told(services, dhcp, before, after),
    )
    placing = Placing(
        mechanisms.drivers,
        agents_on=services.registry.agents_on,
        dhcp_served=services.dhcp.has_live_provider,
    )
    settings = Settings(conf.base_mac, conf.max_allowed_address_pair)
    ports = Ports(db, operations, networks, extensions, services.quotas, placing, neighbours, settings)
    provisioning = Provisioning(db, services.port_changed, services.dhcp.lease_providers)
    dhcp = services.dhcp.scheduler(networks, ports, operations, provisioning, services.port_changed)
    subnets = Subnets(
        db,
        operations,
        networks,
        extensions,
        services.quotas,
        Limits.of(conf),
        AutoAddresses(Dns(conf).name_for),
        dhcp.schedule,
        dhcp.settle,
        dhcp.ports,
        delegates_by_default=conf.ipv6_pd_enabled,
    )
    bindings = PortBindings(db, networks, ports, placing, services.port_changed)
    own = admin_context()
    operations.undo_with("network", lambda network: networks.delete(own, network["id"], None))
    operations.undo_with("subnet", lambda subnet: subnets.delete(own, subnet["id"], None))
    operations.undo_with("port", lambda port: ports.delete(own, port["id"], None, guarded=False))
    renumbering = Renumbering(networks, ports, extensions, services.port_changed)
    return Core(operations, networks, subnets, ports, bindings, provisioning, renumbering, dhcp)


def _port_told(services: Services, dhcp: DhcpScheduler, before: Object | None, after: Object | None) -> None:
    services.port_changed(before, after)
    if before is not None and after is None and before["device_owner"] == DHCP_OWNER:
        dhcp.settle(before["network_id"])  # somebody deleted what an agent serves from
