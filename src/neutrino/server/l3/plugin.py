"""The service plugin `router`: routers, floating IPs and their child resources, composed from the configuration."""

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server import features
from neutrino.server.api.definition import Extension
from neutrino.server.api.pipeline import Notify
from neutrino.server.api.resources.floatingip import FLOATINGIP, FLOATINGIP_POOL, PORT_FORWARDING
from neutrino.server.api.resources.ndp_proxy import NDP_PROXY
from neutrino.server.api.resources.router import CONNTRACK_HELPER, ROUTER
from neutrino.server.api.routes import Route
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.view import View
from neutrino.server.l3 import ndp_proxies, port_callbacks
from neutrino.server.l3.auto_topology import AutoTopology
from neutrino.server.l3.flavors import Flavors
from neutrino.server.l3.floating_ips.floating_ips import (
    FLOATING_IPS,
    FloatingIpPools,
    FloatingIps,
    set_floating_ip_status,
)
from neutrino.server.l3.floating_ips.port_forwardings import PortForwardings
from neutrino.server.l3.routers import view as router_view
from neutrino.server.l3.routers.conntrack_helpers import ConntrackHelpers
from neutrino.server.l3.routers.external_gateways import ExternalGateways
from neutrino.server.l3.routers.ha_networks import HaNetworks
from neutrino.server.l3.routers.interfaces import Interfaces
from neutrino.server.l3.routers.prefix_delegation import PrefixDelegation
from neutrino.server.l3.routers.router_ports import RouterPorts
from neutrino.server.l3.routers.routers import Routers
from neutrino.server.l3.scheduling.candidates import driver_named
from neutrino.server.l3.scheduling.dvr import DvrHosts, agents_with_ports
from neutrino.server.l3.scheduling.scheduler import L3Scheduler
from neutrino.server.ml2.build import Core
from neutrino.server.ml2.cascade import Cascade
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import EVERYTHING
from neutrino.server.scheduling.agents_api import agent_view, placement_routes
from neutrino.server.scheduling.scheduler import SchedulingOptions
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import RouterUse
from neutrino.server.view_collection import RowUpdates, ViewCollection

SetStatus = Callable[[str, str, str], bool]  # reporting host, id, status → whether it changed
_a, _b = t.agents.c, t.router_l3_agents.c
EXTENSIONS = (
    Extension("router", "Neutron L3 Router", "Routers between networks, and floating IPs."),
    Extension("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "Gateways with or without SNAT."),
    Extension("router-enable-snat", "Router SNAT flag", "Filter routers by whether they do SNAT."),
    Extension(
        "external-gateway-multihoming",
        "Neutron L3 External Gateway Multihoming",
        "Several external gateways of a router.",
    ),
    Extension(
        "enable-default-route-ecmp", "Enable Default Route ECMP", "Default routes over all gateways of a router."
    ),
    Extension("enable-default-route-bfd", "Enable Default Route BFD", "Next hops of default routes supervised by BFD."),
    Extension("extraroute", "Neutron Extra Route", "Routes beyond those of a router's own networks."),
    Extension("extraroute-atomic", "Atomically add/remove extra routes", "Single routes added and removed."),
    Extension("dvr", "Distributed Virtual Router", "Routers on every host that needs them."),
    Extension("l3-ha", "HA Router extension", "Routers on several hosts, one of them active."),
    Extension("network_ha", "Network HA creation flag", "The network for VRRP between the hosts of HA routers."),
    Extension(
        "router-admin-state-down-before-update",
        "Enforce Router's Admin State Down Before Update Extension",
        "A router's kind changes only while it is administratively down.",
    ),
    Extension(
        "l3-port-ip-change-not-allowed",
        "Prevent L3 router ports IP address change extension",
        "The addresses of a router's interfaces cannot be changed.",
    ),
    Extension("router_availability_zone", "Router Availability Zone", "Availability zones of a router's agents."),
    Extension("l3_agent_scheduler", "L3 Agent Scheduler", "Which L3 agents serve which routers."),
    Extension("l3-conntrack-helper", "L3 Conntrack helper", "Conntrack helpers of routers."),
    Extension("expose-l3-conntrack-helper", "Expose CT target rules for conntrack helper", "Shown in routers."),
    Extension("l3-ndp-proxy", "L3 NDP Proxy", "Addresses of instances that are reachable from outside."),
    Extension("l3-ext-ndp-proxy", "Router support to enable NDP proxy", "Routers answer for addresses behind them."),
    Extension("fip-port-details", "Floating IP Port Details Extension", "Floating IPs show details of their port."),
    Extension(
        "floating-ip-router-writable",
        "Floating IP Router (writable)",
        "The router of a floating IP can be chosen, also one that its port is reached from by way of other routers.",
    ),
    Extension("floatingip-pools", "Floating IP Pools Extension", "The subnets that floating IPs are allocated from."),
    Extension(
        "floatingip-autodelete-internal",
        "Autodelete floating IPs of internal networks",
        "Unused floating IPs are deleted when their network becomes internal.",
    ),
    Extension("floating-ip-port-forwarding", "Floating IP Port Forwarding", "Single ports of a floating IP."),
    Extension("expose-port-forwarding-in-fip", "Expose Floating IP port forwardings", "Shown in floating IPs."),
    Extension("floating-ip-port-forwarding-description", "Port forwarding description", "They have a description."),
    Extension("floating-ip-port-forwarding-detail", "Port forwarding detail", "They are shown with their ids."),
    Extension("floating-ip-port-forwarding-port-ranges", "Port forwarding port ranges", "Ranges of ports."),
)


@dataclass(frozen=True)
class L3Services:
    """The parts of the plugin that react to agents and hosts. The feed process uses them without the API."""

    ports: RouterPorts
    scheduler: L3Scheduler
    dvr: DvrHosts
    delegation: PrefixDelegation
    statuses: Mapping[str, SetStatus]  # by the kind of object that a host reports on


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
    statuses: dict[str, SetStatus] = {
        "floatingip": partial(set_floating_ip_status, db),
        "router": scheduler.set_ha_state,
        "subnet": delegation.set_prefix,
    }
    return L3Services(ports, scheduler, dvr, delegation, statuses)


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
        routers = ViewCollection(self.db, router_view.ROUTERS)
        return placement_routes(self.db, authorizer, self.notify, self.scheduler, routers, self._agents_of)

    def _agents_of(self, router_id: str) -> list[Object]:
        """The agents of a router with their HA state; of a distributed one also those on hosts with ports behind it."""
        states = sa.select(_b.agent_id, _b.ha_state).where(_b.router_id == router_id)
        with self.db.read() as connection:
            router = router_view.VIEW.get(connection, router_id)
            distributed = agents_with_ports(connection, router_id) if router["distributed"] else []
            state_of: dict[str, str | None] = dict.fromkeys(distributed)
            state_of |= {row.agent_id: row.ha_state for row in connection.execute(states)}
            rows = self.agents.many(connection, EVERYTHING, "", _a.id.in_(list(state_of))) if state_of else []
        return [{**row, "ha_state": state_of[row["id"]], "ha_chassis_priority": None} for row in rows]


def build(services: Services) -> RouterPlugin:
    conf, db, core, quotas = services.conf, services.db, services.core, services.quotas
    installed, uses = features.installed(), _uses()
    providers = [use for feature in features.enabled(conf) for use in feature.flavors]
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
    _register_hooks(core, interfaces)
    floating_ips = FloatingIps(
        db,
        core.operations,
        quotas,
        core.networks,
        core.ports,
        services.floating_ip_changed,
        publishes_names=bool(conf.external_dns_driver),
    )
    collections = (
        (ROUTER, routers, interfaces, ExternalGateways(db, routers), ViewCollection(db, router_view.ROUTERS)),
        (FLOATINGIP, floating_ips, ViewCollection(db, FLOATING_IPS)),
        (FLOATINGIP_POOL, FloatingIpPools(db)),
        (PORT_FORWARDING, PortForwardings(db, quotas, conf.max_shifted_port_forwarding_range)),
        (CONNTRACK_HELPER, ConntrackHelpers(db, _helpers(conf.allowed_conntrack_helpers))),
        (NDP_PROXY, ndp_proxies.NdpProxies(db), RowUpdates(db, ndp_proxies.VIEW)),
    )
    flavored = [t.routers.c.flavor_id, *(use.column for feature in installed for use in feature.flavors)]
    flavors, topology = Flavors(db, providers, flavored), AutoTopology(db, core, routers, interfaces)
    agents = RouterAgents(db, agent_view(services.registry), l3.scheduler, services.notify)
    return RouterPlugin(
        extensions=(*EXTENSIONS, *flavors.extensions, *topology.extensions),
        collections=(*collections, *flavors.collections, *topology.collections),
        begin=routers.repair,
        schedulers=(l3.scheduler,),
        routes=lambda authorizer: [*agents.routes(authorizer), *topology.routes(authorizer)],
        scheduler=l3.scheduler,
        dvr=l3.dvr,
    )


def _register_hooks(core: Core, interfaces: Interfaces) -> None:
    """How routers and floating IPs take part in changes of ports and networks."""
    core.ports.uses += [
        PortUse(port_callbacks.REFERENCES, port_callbacks.check_delete, port_callbacks.port_changes),
        PortUse((t.ndp_proxies.c.port_id,), changes=ndp_proxies.port_changes),
    ]
    core.networks.unused_port_finders.append(port_callbacks.network_changes)
    core.cascade.services.append(Cascade(interfaces.release))


def _helpers(option: Sequence[str]) -> dict[str, list[str]]:
    """The protocols of each helper, from `helper:protocol`, also in the braces and quotes of Neutron's dictionaries."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for text in option:
        helper, _, protocol = text.strip().strip("{}").replace("'", "").replace('"', "").partition(":")
        if not helper or not protocol:
            raise ValueError(f"allowed_conntrack_helpers: {text!r} is not a helper and its protocol, as tftp:udp")
        found[helper.strip()].append(protocol.strip())
    return dict(found)
