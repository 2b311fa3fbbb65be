"""Puts the router plugin together from the configuration: the entry point `router` of `neutrino.service_plugins`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from oslo_config import cfg

from neutrino.server.l3 import port_followers
from neutrino.server.l3.agents import L3Agents
from neutrino.server.l3.auto_topology import AutoTopology
from neutrino.server.l3.candidates import driver_named
from neutrino.server.l3.conntrack_helpers import ConntrackHelpers
from neutrino.server.l3.delegation import Delegations
from neutrino.server.l3.dvr import DvrHosts
from neutrino.server.l3.flavors import Flavors, check_flavor
from neutrino.server.l3.floating_ips import FloatingIps
from neutrino.server.l3.gateways import Gateways
from neutrino.server.l3.ha import HaNetworks
from neutrino.server.l3.interfaces import Interfaces
from neutrino.server.l3.network_followers import unused_floating_ips
from neutrino.server.l3.plugin import RouterPlugin
from neutrino.server.l3.port_forwardings import PortForwardings
from neutrino.server.l3.router_ports import RouterPorts
from neutrino.server.l3.routers import Defaults, Routers
from neutrino.server.l3.scheduler import L3Scheduler, Settings
from neutrino.server.services import Services


def build(services: Services) -> RouterPlugin:
    conf, db, core = services.conf, services.db, services.core
    ports = RouterPorts(core.networks, core.ports)
    scheduler = build_scheduler(services)
    ha = HaNetworks(
        db,
        core.networks.create,
        core.subnets.create,
        core.networks.delete,
        conf.l3_ha_net_cidr,
        conf.l3_ha_network_type,
        conf.l3_ha_network_physical_name,
    )
    gateways = Gateways(ports, conf.enable_snat_by_default)
    defaults = Defaults(conf.router_distributed, conf.l3_ha)
    delegations = build_delegations(services)
    routers = Routers(
        db, core.operations, services.quotas, ports, gateways, scheduler, ha, defaults, check_flavor, delegations
    )
    floating_ips = FloatingIps(
        db, core.operations, services.quotas, core.networks, core.ports, services.floating_ip_changed
    )
    core.ports.delete_checks.append(port_followers.check_delete)
    core.ports.transaction_hooks.append(port_followers.follow)
    core.networks.unused_port_finders.append(unused_floating_ips)
    interfaces = Interfaces(db, ports, scheduler, delegations)
    return RouterPlugin(
        routers,
        interfaces,
        floating_ips,
        PortForwardings(db, services.quotas, conf.max_shifted_port_forwarding_range),
        ConntrackHelpers(db, _helpers(conf.allowed_conntrack_helpers)),
        scheduler,
        L3Agents(db, services.registry, scheduler),
        build_dvr(services),
        [Flavors(db), AutoTopology(db, core, routers, interfaces)],
    )


def build_scheduler(services: Services) -> L3Scheduler:
    """By itself also for the feed: there agents appear, and say which of them has an HA router."""
    core = services.core
    ports = RouterPorts(core.networks, core.ports)
    return L3Scheduler(services.db, services.registry, core.operations, ports, _settings(services.conf))


def build_delegations(services: Services) -> Delegations:
    """By itself also for the feed: there hosts say which prefixes they have."""
    return Delegations(services.db, services.core.operations, services.core.renumbering)


def build_dvr(services: Services) -> DvrHosts:
    """By itself also for the feed, which sees what hosts need."""
    core = services.core
    return DvrHosts(services.db, core.operations, core.networks, core.ports, services.conf.dvr_base_mac)


def _settings(conf: cfg.ConfigOpts) -> Settings:
    return Settings(
        driver=driver_named(conf.router_scheduler_driver),
        agents_per_router=conf.max_l3_agents_per_router,
        default_zones=conf.default_availability_zones,
        automatic=conf.router_auto_schedule,
        failover=conf.allow_automatic_l3agent_failover,
    )


def _helpers(option: Sequence[str]) -> dict[str, list[str]]:
    """The protocols of each helper, from helper:protocol."""
    found: dict[str, list[str]] = defaultdict(list)
    for text in option:
        helper, _, protocol = text.strip().strip("{}").replace("'", "").replace('"', "").partition(":")
        if not helper or not protocol:
            raise ValueError(f"allowed_conntrack_helpers: {text!r} is not a helper and its protocol, as tftp:udp")
        found[helper.strip()].append(protocol.strip())
    return dict(found)
