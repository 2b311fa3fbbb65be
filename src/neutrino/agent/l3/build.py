"""Builds the L3 role from the configuration, with real drivers."""

import socket
import time
from functools import partial

from neutrino.agent.config import load_extensions
from neutrino.agent.l3.config import MeterOptions, describe, l3_options, refusal
from neutrino.agent.l3.extension_api import GROUP
from neutrino.agent.l3.extensions import BUILT_IN
from neutrino.agent.l3.role import L3Role
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import in_order
from neutrino.agent.l3.services.bfd.supervision import BfdSessions
from neutrino.agent.l3.services.charon.tunnels import Tunnels
from neutrino.agent.l3.services.conntrackd.service import Conntrackd, InNamespace
from neutrino.agent.l3.services.dibbler.service import SUBNET, Delegations
from neutrino.agent.l3.services.keepalived.service import Keepalived, OtherKeepaliveds
from neutrino.agent.l3.services.meters import MeterReports, Meters
from neutrino.agent.l3.services.radvd.service import Radvd
from neutrino.agent.leftovers.build import leftovers
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.runtime.options import read_settings
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.process.real import RealProcesses
from neutrino.dataplane.program import run_program
from neutrino.errors import RefusedToStart


def build(context: RoleContext) -> L3Role:
    conf, feed, port_holds = context.conf, context.feed, context.port_holds
    options = l3_options(conf)
    extensions = load_extensions(GROUP, conf.l3_extensions, conf)
    kinds = frozenset(kind for each in (*BUILT_IN, *extensions) for kind in each.kinds)
    unknown = sorted(kinds - feed.state.objects.keys())
    if unknown:
        raise RefusedToStart(f"l3_extensions: the feed of this release has no object kind {unknown[0]}")
    supervisor = Supervisor(RealProcesses(conf.state_path), action=conf.agent.check_child_processes_action)
    namespaces = Namespaces()
    nft = RealNft()
    services = ServiceNamespaces(RealNetlink(namespaces), context.switch.ovsdb, nft, conf.state_path)
    meters = Meters(nft, services.netlink.namespaces, conf.state_path, time.time)
    desired = DesiredRouters(feed, lambda router: refusal(router, options), kinds)
    bfd = BfdSessions(supervisor, options)
    others = leftovers(conf, services, namespaces)
    routers = Routers(services, KernelConntrack, options, desired, extensions, others, bfd.lost_next_hops)
    wired = port_holds if "l2" in conf.roles else None  # only the L2 role reports ports as wired
    other_keepaliveds = OtherKeepaliveds(routers.other_keepalived, routers.end_other_keepaliveds)
    conntrackd = Conntrackd(supervisor, options, in_namespace(namespaces))
    keepalived = Keepalived(supervisor, options, other_keepaliveds, wired, conntrackd.command)
    return L3Role(
        routers,
        keepalived,
        in_order(
            meters=MeterReports(meters, feed, read_settings(MeterOptions, conf), desired.served),
            keepalived=keepalived,
            conntrackd=conntrackd,
            radvd=Radvd(supervisor, options),
            bfd=bfd,
            charon=Tunnels(supervisor, options, feed),
            dibbler=Delegations(supervisor, options, partial(feed.status, SUBNET), port_holds),
        ),
        describe(conf),
        announce_interval=conf.send_arp_interval,
        repair=lambda: context.intervals.repair,
        report_soon=context.report_soon,
    )


def in_namespace(namespaces: Namespaces) -> InNamespace:
    return InNamespace(
        run=lambda name, command: namespaces.run(name, partial(run_program, command)),
        device_index=lambda name, device: namespaces.run(name, partial(socket.if_nametoindex, device)),
    )
