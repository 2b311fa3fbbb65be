"""Puts the ML2 core together from the configuration: the entry point `ml2` of `neutrino.core_plugins`."""

from __future__ import annotations

from neutrino.server.context import admin_context
from neutrino.server.hosts.dhcp_answering import is_answered
from neutrino.server.hosts.dhcp_placements import zones_of
from neutrino.server.hosts.dhcp_ports import DhcpPorts
from neutrino.server.hosts.zones import check_hints
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2 import drivers
from neutrino.server.ml2.auto_addresses import AutoAddresses
from neutrino.server.ml2.extension_drivers.dns import Dns
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.plugin import Ml2Plugin
from neutrino.server.ml2.port_bindings import PortBindings
from neutrino.server.ml2.port_placing import Placing
from neutrino.server.ml2.ports import Neighbours, Ports, Settings
from neutrino.server.ml2.provisioning import Provisioning
from neutrino.server.ml2.renumbering import Renumbering
from neutrino.server.ml2.segments import Segments
from neutrino.server.ml2.subnets import Limits, Subnets
from neutrino.server.securitygroups.views import check_usable
from neutrino.server.services import Object, Services


def build(services: Services) -> Ml2Plugin:
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
        zones_of,
        check_hints,
        services.security_groups.ensure_default,
    )
    subnets = Subnets(
        db,
        operations,
        networks,
        extensions,
        services.quotas,
        Limits.of(conf),
        AutoAddresses(Dns(conf).name_for),
        services.dhcp_scheduler.schedule,
        services.dhcp_scheduler.settle,
        delegates_by_default=conf.ipv6_pd_enabled,
    )
    neighbours = Neighbours(
        ensure_default_group=services.security_groups.ensure_default,
        check_groups=check_usable,
        told=lambda before, after: _port_told(services, before, after),
    )
    placing = Placing(
        mechanisms.drivers,
        agents_on=services.registry.agents_on,
        dhcp_served=lambda connection, network_id, subnets, host: is_answered(
            connection, network_id, subnets, host, services.registry.cutoff()
        ),
    )
    settings = Settings(conf.base_mac, conf.max_allowed_address_pair)
    ports = Ports(db, operations, networks, extensions, services.quotas, placing, neighbours, settings)
    dhcp_ports = DhcpPorts(networks, ports, operations.commit, services.port_changed, conf.base_mac)
    services.dhcp_scheduler.make_ports_with(dhcp_ports)
    subnets.dhcp_ports = dhcp_ports
    bindings = PortBindings(db, networks, ports, placing, services.port_changed)
    provisioning = Provisioning(db, services.port_changed)
    services.dhcp_scheduler.release_with(provisioning.release_unserved)
    own = admin_context()
    operations.undo_with("network", lambda network: networks.delete(own, network["id"], None))
    operations.undo_with("subnet", lambda subnet: subnets.delete(own, subnet["id"], None))
    operations.undo_with("port", lambda port: ports.delete(own, port["id"], None, guarded=False))
    renumbering = Renumbering(networks, ports, extensions, services.port_changed)
    return Ml2Plugin(db, operations, networks, subnets, ports, bindings, provisioning, renumbering)


def _port_told(services: Services, before: Object | None, after: Object | None) -> None:
    services.port_changed(before, after)
    if before is not None and after is None and before["device_owner"] == DHCP_OWNER:
        services.dhcp_scheduler.settle(before["network_id"])  # somebody deleted what an agent serves from
