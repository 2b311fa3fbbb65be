"""The parts of the feature, composed from the configuration: for requests, and for the reports of hosts."""

import ipaddress
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import sqlalchemy as sa

from neutrino.features.router import ndp_proxies
from neutrino.features.router.auto_topology import AutoTopology
from neutrino.features.router.floating_ips.floating_ips import (
    FloatingIpPools,
    FloatingIps,
    set_floating_ip_status,
)
from neutrino.features.router.floating_ips.port_forwardings import PortForwardings
from neutrino.features.router.hosts import agents_with_ports
from neutrino.features.router.port_status import DistributedPortStatus
from neutrino.features.router.resources import (
    CONNTRACK_HELPER,
    FLOATINGIP,
    FLOATINGIP_POOL,
    NDP_PROXY,
    PORT_FORWARDING,
    ROUTER,
    ROUTER_PLACEMENT,
)
from neutrino.features.router.router_placements import RouterPlacements
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.conntrack_helpers import ConntrackHelpers
from neutrino.features.router.routers.external_gateways import ExternalGateways
from neutrino.features.router.routers.ha_networks import HaNetworks
from neutrino.features.router.routers.interfaces import Interfaces
from neutrino.features.router.routers.prefix_delegation import PrefixDelegation
from neutrino.features.router.routers.router_ports import RouterPorts
from neutrino.features.router.routers.routers import Routers
from neutrino.features.router.scheduling.candidates import driver_named
from neutrino.features.router.scheduling.dvr import DvrHosts
from neutrino.features.router.scheduling.scheduler import L3Scheduler
from neutrino.features.router.tables import router_l3_agents
from neutrino.model.objects import Object
from neutrino.server import features
from neutrino.server.api.pipeline import Notify
from neutrino.server.api.routes import Route
from neutrino.server.collection import Listing
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.view import View
from neutrino.server.feed.reports.reports import one_word
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.ml2.cascade import Cascade
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import EVERYTHING
from neutrino.server.scheduling.agents_api import agent_view, placement_routes
from neutrino.server.scheduling.scheduler import SchedulingOptions
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import RouterUse


@dataclass(frozen=True)
class L3Services:
    """The parts that react to agents and hosts. The feed process uses them without the API."""

    ports: RouterPorts
    scheduler: L3Scheduler
    dvr: DvrHosts
    delegation: PrefixDelegation


def build_services(services: Services) -> L3Services:
    conf, db, core = services.conf, services.db, services.core
    ports = RouterPorts(core.networks, core.ports)
    options = SchedulingOptions(
        conf.max_l3_agents_per_router,
        conf.default_availability_zones,
        automatic=conf.router_auto_schedule,
        failover=conf.allow_automatic_l3agent_failover,
    )
    driver = driver_named(conf.router_scheduler_driver)
    scheduler = L3Scheduler(db, services.registry, options, core.operations, ports, driver)
    delegation = PrefixDelegation(db, core.operations, core.subnets, core.ports)
    dvr = DvrHosts(db, core.operations, core.networks, core.ports, conf.dvr_base_mac, _uses())
    return L3Services(ports, scheduler, dvr, delegation)


def start(services: Services) -> features.Running:
    l3 = build_services(services)

    def host_reported(report: AgentReport) -> None:
        l3.scheduler.reported(report)
        l3.dvr.reported(report)

    return features.Running(host_reported=host_reported)


def host_reports(services: Services) -> features.HostReports:
    l3 = build_services(services)
    ports = DistributedPortStatus(services.db, services.core.provisioning)

    def settle() -> None:
        if not services.db.is_frozen():  # Neutron's hosts have these ports, needed or not
            l3.dvr.settle()
        ports.settle()

    return features.HostReports(
        statuses={
            "floatingip": one_word(partial(set_floating_ip_status, services.db)),
            "router": one_word(l3.scheduler.set_ha_state),
            "subnet": one_word(l3.delegation.set_prefix),
        },
        ports=lambda others: replace(ports, others=others),
        settle=settle,
    )


def _uses() -> list[RouterUse]:
    return [use for feature in features.installed() for use in feature.routers]


@dataclass(frozen=True, kw_only=True)
class RouterPlugin(ResourcePlugin):
    scheduler: L3Scheduler
    dvr: DvrHosts


@dataclass(frozen=True)
class RouterAgents:
    """Which agents serve which routers: the paths of the API."""

    db: Database
    agents: View
    scheduler: L3Scheduler
    notify: Notify

    def routes(self, authorizer: Authorizer) -> list[Route]:
        routers = Listing(self.db, router_view.ROUTERS)
        return placement_routes(self.db, authorizer, self.notify, self.scheduler, routers, self._agents_of)

    def _agents_of(self, router_id: str) -> list[Object]:
        """The agents of a router with their HA state; of a distributed one also those on hosts with ports behind it."""
        states = sa.select(router_l3_agents.c.agent_id, router_l3_agents.c.ha_state).where(
            router_l3_agents.c.router_id == router_id
        )
        with self.db.read() as connection:
            router = router_view.VIEW.get(connection, router_id)
            distributed = agents_with_ports(connection, router_id) if router["distributed"] else []
            state_of: dict[str, str | None] = dict.fromkeys(distributed)
            state_of |= {row.agent_id: row.ha_state for row in connection.execute(states)}
            rows = self.agents.many(connection, EVERYTHING, "", t.agents.c.id.in_(list(state_of))) if state_of else []
        return [{**row, "ha_state": state_of[row["id"]], "ha_chassis_priority": None} for row in rows]


def build(services: Services) -> RouterPlugin:
    conf, db, core, quotas = services.conf, services.db, services.core, services.quotas
    uses = _uses()
    l3 = build_services(services)
    provider = {
        "provider:network_type": conf.l3_ha_network_type,
        "provider:physical_network": conf.l3_ha_network_physical_name,
    }
    ha_cidr = str(ipaddress.ip_network(conf.l3_ha_net_cidr))
    ha_networks = HaNetworks(db, core.networks, core.subnets, ha_cidr, {n: v for n, v in provider.items() if v})
    routers = Routers(
        db,
        core.operations,
        quotas,
        l3.ports,
        l3.scheduler,
        ha_networks,
        l3.delegation,
        {
            "distributed": conf.router_distributed,
            "ha": conf.l3_ha,
            "enable_snat": conf.enable_snat_by_default,
            "enable_ndp_proxy": conf.enable_ndp_proxy_by_default,
            "enable_default_route_bfd": conf.enable_default_route_bfd,
            "enable_default_route_ecmp": conf.enable_default_route_ecmp,
        },
        uses,
    )
    interfaces = Interfaces(db, l3.ports, l3.scheduler, l3.delegation, uses)
    floating_ips = FloatingIps(
        db,
        core.operations,
        quotas,
        core.networks,
        core.ports,
        services.addresses_changed,
        uses,
        publishes_names=bool(conf.external_dns_driver),
    )
    collections = (
        (ROUTER, _router_requests(routers, interfaces)),
        (FLOATINGIP, floating_ips),
        (FLOATINGIP_POOL, FloatingIpPools(db)),
        (ROUTER_PLACEMENT, RouterPlacements(db, services.registry)),
        (PORT_FORWARDING, PortForwardings(db, quotas, conf.max_shifted_port_forwarding_range)),
        (CONNTRACK_HELPER, ConntrackHelpers(db, _helpers(conf.allowed_conntrack_helpers))),
        (NDP_PROXY, ndp_proxies.NdpProxies(db, ndp_proxies.VIEW)),
    )
    topology = AutoTopology(db, core, routers, interfaces)
    agents = RouterAgents(db, agent_view(services.registry), l3.scheduler, services.notify)
    return RouterPlugin(
        collections=collections,
        begin=routers.repair,
        schedulers=(l3.scheduler,),
        cascades=(Cascade(interfaces.release),),
        routes=lambda authorizer: [*agents.routes(authorizer), *topology.routes(authorizer)],
        scheduler=l3.scheduler,
        dvr=l3.dvr,
    )


def _router_requests(routers: Routers, interfaces: Interfaces) -> SimpleNamespace:
    """The methods of routers, which several objects have."""
    listing, gateways = Listing(routers.db, router_view.ROUTERS), ExternalGateways(routers.db, routers)
    return SimpleNamespace(
        index=listing.index,
        show=listing.show,
        create=routers.create,
        create_several=routers.create_several,
        update=routers.update,
        delete=routers.delete,
        add_extraroutes=routers.add_extraroutes,
        remove_extraroutes=routers.remove_extraroutes,
        add_router_interface=interfaces.add_router_interface,
        remove_router_interface=interfaces.remove_router_interface,
        add_external_gateways=gateways.add_external_gateways,
        update_external_gateways=gateways.update_external_gateways,
        remove_external_gateways=gateways.remove_external_gateways,
    )


def _helpers(option: Sequence[str]) -> dict[str, list[str]]:
    """The protocols of each helper, from `helper:protocol`, also in the braces and quotes of Neutron's dictionaries."""
    protocols: defaultdict[str, list[str]] = defaultdict(list)
    for text in option:
        helper, _, protocol = text.strip().strip("{}").replace("'", "").replace('"', "").partition(":")
        if not helper or not protocol:
            raise ValueError(f"allowed_conntrack_helpers: {text!r} is not a helper and its protocol, as tftp:udp")
        protocols[helper.strip()].append(protocol.strip())
    return dict(protocols)
