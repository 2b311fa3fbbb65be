"""Builds the L3 role from the configuration, with real drivers."""

from collections.abc import Callable

from oslo_config import cfg

from neutrino.agent.config import RefusedToStart
from neutrino.agent.extensions import load_extensions
from neutrino.agent.l3.apply import Drivers
from neutrino.agent.l3.config import describe, l3_options, refusal
from neutrino.agent.l3.daemons import RouterDaemons
from neutrino.agent.l3.extension_api import GROUP
from neutrino.agent.l3.reports import ROUTER, RouterFeed
from neutrino.agent.l3.role import L3Role
from neutrino.agent.l3.router import BUILT_IN
from neutrino.agent.l3.routers import DesiredState, Routers
from neutrino.agent.port_holds import PortHolds
from neutrino.agent.supervisor import Supervisor
from neutrino.agent.switch import Switch
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.netlink.announce import RealAnnouncer
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.process.real import RealProcesses
from neutrino.model.routing import Router


def build(
    conf: cfg.ConfigOpts,
    feed: RouterFeed,
    switch: Switch,
    repair: Callable[[], float],
    news: Callable[[], None],
    port_holds: PortHolds | None = None,
) -> L3Role:
    options = l3_options(conf)
    extensions = load_extensions(GROUP, conf.l3_extensions, conf)
    kinds = frozenset(kind for each in (*BUILT_IN, *extensions) for kind in each.kinds)
    unknown = sorted(kinds - feed.state.objects.keys())
    if unknown:
        raise RefusedToStart(f"l3_extensions: the feed of this release has no object kind {unknown[0]}")
    supervisor = Supervisor(RealProcesses(conf.state_path), action=conf.agent.check_child_processes_action)
    drivers = Drivers(RealNetlink(), RealNft(), switch.ovsdb, RealAnnouncer(), KernelConntrack)
    desired = DesiredState(
        routers=lambda: _served(feed, conf),
        objects=lambda: {kind: feed.state.objects[kind] for kind in kinds},
        is_synced=lambda: feed.is_synced,
    )
    routers = Routers(drivers, options, desired, extensions)
    return L3Role(
        feed,
        routers,
        RouterDaemons(supervisor, options, port_holds, routers.failover),
        supervisor,
        describe(conf),
        switch=switch.ovsdb,
        extensions=extensions,
        refuses=lambda router: refusal(router, conf),
        announce_interval=conf.send_arp_interval,
        repair=repair,
        news=news,
        port_holds=port_holds,
    )


def _served(feed: RouterFeed, conf: cfg.ConfigOpts) -> list[Router]:
    routers = list(feed.state.objects[ROUTER].values())
    return [each for each in routers if isinstance(each, Router) and each.admin_state_up and not refusal(each, conf)]
