"""Composes the L2 role from the configuration."""

import dataclasses
import logging
from collections.abc import Iterable
from ipaddress import ip_address

from oslo_config import cfg

from neutrino.agent import resource_providers
from neutrino.agent.config import bridge_mappings, load_extensions, permitted_ethertypes, uplink_rates
from neutrino.agent.guard.decide import FOREIGN_FLOWS
from neutrino.agent.guard.gate import Bridges
from neutrino.agent.l2 import links
from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extension_api import L2Extension
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.l2.hybrid.render import NFLOG_GROUP
from neutrino.agent.l2.packet_logger import PacketLogger
from neutrino.agent.l2.packets import CONTROLLER_ID, COPIED_BYTES
from neutrino.agent.l2.rates import RateReporter
from neutrino.agent.l2.reconciler import Reconciler
from neutrino.agent.l2.role import L2Role
from neutrino.agent.runtime.context import RoleContext
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.conntrack.real import OvsConntrack
from neutrino.dataplane.iptables.real import RealIptables
from neutrino.dataplane.netlink.api import Netlink, NetlinkError
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.openflow.watch import OvsWatch
from neutrino.dataplane.protocols.nflog import Nflog
from neutrino.dataplane.protocols.packet_in import PacketIns
from neutrino.errors import RefusedToStart
from neutrino.model import agents
from neutrino.model.kinds import KINDS, Kind

LOG = logging.getLogger(__name__)
ENTRY_POINTS = "neutrino.agent.l2_extensions"
DATAPATHS = {"system": "system@ovs-system", "netdev": "netdev@ovs-netdev"}  # as ovs-vswitchd names them


def guarded_bridges(context: RoleContext) -> Bridges:
    """The bridges that the role writes flows to."""
    conf = context.conf
    return Bridges(
        context.switch.ovsdb,
        OvsOfctl(conf.ovs.run_directory, userspace=conf.ovs.datapath_type == "netdev"),
        context.guard,
        conf.ovs.integration_bridge,
        (conf.ovs.tunnel_bridge,) if conf.agent.tunnel_types else (),
        tuple(bridge for _, bridge in bridge_mappings(conf)),
    )


def build(context: RoleContext) -> L2Role:
    conf, guarded = context.conf, guarded_bridges(context)
    options, extensions = l2_options(conf), load(conf)
    if options.tunnel_types:
        underlay = device_of(options.local_ip, RealNetlink())
        rates = rates_with_tunnels(options.uplink_rates, conf.ml2.tunnelled_network_rp_name, underlay)
        options = dataclasses.replace(options, underlay_bridge=underlay, uplink_rates=rates)
    run_directory = conf.ovs.run_directory
    reconciler = Reconciler(
        context.switch.ovsdb,
        guarded.openflow,
        OvsConntrack(run_directory, datapath=DATAPATHS.get(conf.ovs.datapath_type, "")),
        options,
        hybrid=_hybrid_firewall(options) if options.filters else None,
        extensions=extensions,
        foreign=guarded.removable,
    )
    rate_reporter = RateReporter(
        context.feed, options, context.switch.ovsdb, guarded.openflow, float(conf.agent.rates_interval)
    )
    return L2Role(
        context.feed,
        reconciler,
        OvsWatch(run_directory),
        conf.ovs.integration_bridge,
        describe(conf),
        intervals=context.intervals,
        dropping=conf.agent.drop_flows_on_start,
        dataplane_changed=context.report_soon,
        port_holds=context.port_holds,
        kinds=frozenset().union(*(extension.kinds for extension in extensions)),
        read_foreign=lambda: {} if FOREIGN_FLOWS in context.guard.ignored else guarded.read().foreign,
        rates=rate_reporter,
        read_links=links.reader(options, context.switch.ovsdb, RealNetlink()),
        packet_logger=PacketLogger(
            PacketIns(run_directory, CONTROLLER_ID),
            conf.network_log.local_output_log_base,
            bridged=Nflog(NFLOG_GROUP, COPIED_BYTES) if options.filters else None,
        ),
    )


def device_of(address: str, netlink: Netlink) -> str:
    """The device of this host that has an address; empty if none has, or it cannot be read."""
    try:
        found = netlink.read(HOST).addresses
    except NetlinkError as error:
        LOG.warning("minimum bandwidths in tunnels are not guaranteed: %s cannot be found: %s", address, error)
        return ""
    return next((each.device for each in found if each.address.partition("/")[0] == str(ip_address(address))), "")


def rates_with_tunnels(rates: Iterable[tuple[str, int]], tunnelled: str, underlay: str) -> tuple[tuple[str, int], ...]:
    """The rates of devices, with what tunnels share as that of their device, unless it has a rate of its own. Pure."""
    known = dict(rates)
    shared = known.pop(tunnelled, 0) if tunnelled != underlay else 0
    if underlay and shared:
        known.setdefault(underlay, shared)
    return tuple(known.items())


def load(conf: cfg.ConfigOpts) -> tuple[L2Extension, ...]:
    """All extensions: the built-in ones, and those of `[agent] extensions` in the order of the option."""
    found: list[L2Extension] = [*BUILT_IN, *load_extensions(ENTRY_POINTS, conf.agent.extensions, conf)]
    names = [extension.name for extension in found]
    for name in names:
        if names.count(name) > 1:
            raise RefusedToStart(f"[agent] extensions: there are two extensions called {name!r}")
    return tuple(found)


def feed_kinds(extensions: Iterable[L2Extension]) -> dict[str, Kind]:
    """The object kinds of the feed: ours, and those that extensions bring."""
    return {**KINDS, **{kind.name: kind for extension in extensions for kind in extension.new_kinds}}


_OVS = (
    *("integration_bridge", "tunnel_bridge", "int_peer_patch_port", "tun_peer_patch_port"),
    *("datapath_type", "local_ip"),
)
_AGENT = ("vxlan_udp_port", "dont_fragment", "tunnel_csum", "l2_population", "arp_responder")


def l2_options(conf: cfg.ConfigOpts) -> L2Options:
    return L2Options(
        **{name: conf.ovs[name] for name in _OVS},
        **{name: conf.agent[name] for name in _AGENT},
        bridge_mappings=bridge_mappings(conf),
        uplink_rates=uplink_rates(conf),
        mac_table_size=conf.ovs.bridge_mac_table_size,
        managers=tuple(conf.ovs.ovsdb_managers),
        tunnel_types=tuple(conf.agent.tunnel_types),
        tunnel_tos="inherit" if conf.agent.dscp_inherit else str((conf.agent.dscp or 0) << 2 or ""),
        # The driver decides how ports are plugged from now on; each port is filtered where it was plugged.
        filters=conf.securitygroup.enable_security_group and conf.securitygroup.firewall_driver != "noop",
        permitted_ethertypes=permitted_ethertypes(conf),
        host=conf.host,
        distributed=conf.agent.enable_distributed_routing,
        log_rate=conf.network_log.rate_limit,
        log_burst=conf.network_log.burst_limit,
    )


def _hybrid_firewall(options: L2Options) -> HybridFirewall:
    return HybridFirewall(RealIptables(), KernelConntrack(), RealNetlink() if options.userspace else None)


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    """The agent as the API shows it."""
    hybrid = conf.securitygroup.enable_security_group and conf.securitygroup.firewall_driver == "iptables_hybrid"
    configurations = {
        agents.BRIDGE_MAPPINGS: dict(bridge_mappings(conf)),
        agents.TUNNEL_TYPES: list(conf.agent.tunnel_types),
        agents.TUNNELING_IP: conf.ovs.local_ip,
        agents.L2_POPULATION: conf.agent.l2_population,
        "arp_responder_enabled": conf.agent.arp_responder and conf.agent.l2_population,
        agents.ENABLE_DISTRIBUTED_ROUTING: conf.agent.enable_distributed_routing,
        "in_distributed_mode": conf.agent.enable_distributed_routing,
        agents.EXTENSIONS: list(dict.fromkeys(["qos", *conf.agent.extensions])),
        agents.INTEGRATION_BRIDGE: conf.ovs.integration_bridge,
        "datapath_type": conf.ovs.datapath_type,
        "vhostuser_socket_dir": conf.ovs.vhostuser_socket_dir,
        "ovs_hybrid_plug": hybrid,
        agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
        **resource_providers.report(conf, [bridge for _, bridge in bridge_mappings(conf)]),
    }
    return agents.AgentState(
        agents.OVS,
        "neutron-openvswitch-agent",
        conf.host,
        "N/A",
        configurations=configurations,
        resource_versions=dict(agents.RESOURCE_VERSIONS),
    )
