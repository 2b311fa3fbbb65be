"""Builds the L3 role from the configuration, with real drivers."""

import os
import socket
import time
from dataclasses import replace
from functools import partial

from neutrino.agent.config import load_extensions
from neutrino.agent.l3.config import MeterOptions, describe, l3_options, refusal
from neutrino.agent.l3.extension_api import GROUP
from neutrino.agent.l3.extensions import BUILT_IN
from neutrino.agent.l3.firewall_log import NFLOG_GROUP
from neutrino.agent.l3.role import L3Role
from neutrino.agent.l3.router import DesiredRouters, logged_namespaces
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import in_order
from neutrino.agent.l3.services.bfd.supervision import BfdSessions
from neutrino.agent.l3.services.charon.tunnels import Tunnels
from neutrino.agent.l3.services.conntrackd.service import Conntrackd, InNamespace
from neutrino.agent.l3.services.dibbler.service import SUBNET, Delegations
from neutrino.agent.l3.services.firewall_log import FirewallLogs, NamespaceLogs
from neutrino.agent.l3.services.keepalived.service import Keepalived, OtherKeepaliveds
from neutrino.agent.l3.services.meters import MeterReports, Meters
from neutrino.agent.l3.services.radvd.service import Radvd
from neutrino.agent.leftovers.build import leftovers
from neutrino.agent.packet_lines import COPIED_BYTES
from neutrino.agent.runtime.bucket import Bucket
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
from neutrino.dataplane.protocols.nflog import Nflog, netfilter_socket
from neutrino.errors import RefusedToStart


def build(context: RoleContext) -> L3Role:
    conf, feed, port_holds = context.conf, context.feed, context.port_holds
    nft = RealNft()
    options = replace(l3_options(conf), can_log=nft.can_log())
    extensions = load_extensions(GROUP, conf.l3_extensions, conf)
    kinds = frozenset(kind for each in (*BUILT_IN, *extensions) for kind in each.kinds)
    unknown = sorted(kinds - feed.state.objects.keys())
    if unknown:
        raise RefusedToStart(f"l3_extensions: the feed of this release has no object kind {unknown[0]}")
    supervisor = Supervisor(RealProcesses(conf.state_path), action=conf.agent.check_child_processes_action)
    namespaces = Namespaces()
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
            firewall_logs=FirewallLogs(
                lambda router: logged_namespaces(router, options, desired.objects()),
                namespace_logs(namespaces),
                Bucket(time.monotonic, options.log_rate, options.log_burst),
                conf.network_log.local_output_log_base,
                options.can_log,
            ),
        ),
        describe(conf),
        announce_interval=conf.send_arp_interval,
        repair=lambda: context.intervals.repair,
        report_soon=context.report_soon,
    )


def namespace_logs(namespaces: Namespaces) -> NamespaceLogs:
    def open_log(name: str) -> Nflog:
        return Nflog(NFLOG_GROUP, COPIED_BYTES, partial(namespaces.run, name, netfilter_socket))

    return NamespaceLogs(open_log, lambda name: os.stat(namespaces.path(name)).st_ino)


def in_namespace(namespaces: Namespaces) -> InNamespace:
    return InNamespace(
        run=lambda name, command: namespaces.run(name, partial(run_program, command)),
        device_index=lambda name, device: namespaces.run(name, partial(socket.if_nametoindex, device)),
    )
