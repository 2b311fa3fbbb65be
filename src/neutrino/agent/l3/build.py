"""The L3 role from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oslo_config import cfg

from neutrino.agent.l3 import extensions
from neutrino.agent.l3.apply import Drivers, RouterDataplane
from neutrino.agent.l3.daemons import RouterDaemons
from neutrino.agent.l3.dvr.dataplane import AnyDataplane, Told
from neutrino.agent.l3.dvr.near import ports_of
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.role import L3Role, RouterSpeaker
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.supervisor import Supervisor
from neutrino.agent.switch import Switch
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.netlink.announce import RealAnnouncer
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.process.real import RealProcesses
from neutrino.model import agents
from neutrino.model.routing import Router


class RouterConntrack:
    """The connections of a namespace, read and ended by a thread that is in it.

    Were the namespace left to the library to enter, it would fork us, and end that child with a SIGTERM of which our event
    loop hears too, as both have the same descriptor for signals.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        several = tuple(entries)
        Namespaces().run(self._namespace, lambda: KernelConntrack().flush(several))


def build(
    conf: cfg.ConfigOpts,
    feed: RouterSpeaker,
    switch: Switch,
    repair: Callable[[], float],
    news: Callable[[], None],
    port_holds: PortHolds | None = None,
) -> L3Role:
    options = l3_options(conf)
    processes = RealProcesses(conf.state_path)
    watch = Supervisor(processes, action=conf.agent.check_child_processes_action)
    drivers = Drivers(
        netlink=RealNetlink(),
        nft=RealNft(),
        ovsdb=switch.ovsdb,
        announcer=RealAnnouncer(),
        conntrack=RouterConntrack,
    )
    told = Told(
        routers=lambda: _served(feed, conf),
        ports=lambda networks: ports_of(networks, feed.state.objects["dhcp_port"]),
        is_complete=lambda: feed.is_synced,
    )
    return L3Role(
        feed,
        AnyDataplane(RouterDataplane(drivers, options), drivers, options, told),
        RouterDaemons(watch, options, port_holds),
        watch,
        describe(conf),
        switch=switch.ovsdb,
        extensions=extensions.load(conf),
        refuses=lambda router: refusal(router, conf),
        announce_interval=conf.send_arp_interval,
        repair=repair,
        news=news,
        port_holds=port_holds,
    )


def _served(feed: RouterSpeaker, conf: cfg.ConfigOpts) -> list[Router]:
    routers = list(feed.state.objects["router"].values())
    return [each for each in routers if isinstance(each, Router) and each.admin_state_up and not refusal(each, conf)]


def l3_options(conf: cfg.ConfigOpts) -> L3Options:
    return L3Options(
        host=conf.host,
        state_path=conf.state_path,
        agent_mode=conf.agent_mode,
        integration_bridge=conf.ovs.integration_bridge,
        external_bridge=conf.external_network_bridge,
        veth=conf.ovs_use_veth or conf.ovs.datapath_type != "system",
        metadata_port=conf.metadata_port if conf.enable_metadata_proxy else 0,
        ipv6_gateway=conf.ipv6_gateway,
        advert_interval=conf.ha_vrrp_advert_int,
        authentication=conf.ha_vrrp_auth_type,
        password=conf.ha_vrrp_auth_password,
        min_rtr_adv_interval=conf.min_rtr_adv_interval,
        max_rtr_adv_interval=conf.max_rtr_adv_interval,
        delegations=conf.pd_confs,
        vendor_pen=conf.vendor_pen,
    )


def refusal(router: Router, conf: cfg.ConfigOpts) -> str | None:
    """Why this host does not take a router, if so."""
    if router.gateway is None and not conf.handle_internal_only_routers:
        return "it has no gateway, and handle_internal_only_routers is off"
    if router.distributed and conf.agent_mode == "legacy":
        return "it is distributed, and agent_mode is legacy"
    wanted = conf.gateway_external_network_id
    if router.gateway is not None and wanted and router.gateway.network_id != wanted:
        return f"its gateway is not on gateway_external_network_id={wanted}"
    return None


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    return agents.AgentState(
        agent_type=agents.L3,
        binary="neutron-l3-agent",
        host=conf.host,
        topic="l3_agent",
        availability_zone=conf.availability_zone,
        configurations={
            agents.AGENT_MODE: conf.agent_mode,
            agents.HANDLE_INTERNAL_ONLY_ROUTERS: conf.handle_internal_only_routers,
            agents.GATEWAY_EXTERNAL_NETWORK_ID: conf.gateway_external_network_id,
            agents.EXTERNAL_NETWORK_BRIDGE: conf.external_network_bridge,
            agents.INTERFACE_DRIVER: "openvswitch",
            agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
        },
    )
