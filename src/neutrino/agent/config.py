"""The options of the host agent, under the names and groups of openvswitch_agent.ini, dhcp_agent.ini and their like."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence

from oslo_config import cfg, types
from oslo_log import log

from neutrino.agent.dhcp import config as dhcp
from neutrino.agent.l3 import config as l3
from neutrino.agent.metadata import config as metadata

ROLES = ("l2", "dhcp", "l3", "metadata")
TUNNEL_TYPES = ("gre", "vxlan", "geneve")

GLOBAL = [
    cfg.StrOpt("host", default=os.uname().nodename, help="This host's name, as ports are bound to it."),
    cfg.StrOpt(
        "state_path", default=os.path.expanduser("~/.local/share/neutrino-agent"), help="Where the agent keeps files."
    ),
    cfg.ListOpt(
        "roles",
        default=["l2"],
        item_type=types.String(choices=ROLES),
        help="What the agent does here.",
    ),
    cfg.StrOpt("availability_zone", default="nova", help="The zone that this host's DHCP and L3 agents belong to."),
]
FEED = [
    cfg.ListOpt(
        "server",
        default=[],
        help="Where servers are: unix:/path, or wss://host:port; with several, the next one is tried when one is lost.",
    ),
    cfg.StrOpt("credential_file", help="A file with this host's credential, as `neutrino host add` printed it."),
    cfg.StrOpt("ca_file", help="Certificates that the servers' are checked against; by default the system's."),
    cfg.FloatOpt("longest_delay", default=15.0, min=0.1, help="The most seconds between attempts to connect."),
]
OVS = [
    cfg.StrOpt("integration_bridge", default="br-int", help="The bridge that ports are plugged into."),
    cfg.StrOpt("tunnel_bridge", default="br-tun", help="The bridge that holds the tunnels."),
    cfg.StrOpt("int_peer_patch_port", default="patch-tun", help="Patch to the tunnel bridge."),
    cfg.StrOpt("tun_peer_patch_port", default="patch-int", help="Its other end."),
    cfg.StrOpt("local_ip", default="", help="Address of this host for tunnels, of overlay_ip_version."),
    cfg.ListOpt("bridge_mappings", default=[], help="Physical networks and their bridges, as name:bridge."),
    cfg.StrOpt(
        "datapath_type",
        choices=["system", "netdev", "dummy"],
        default="system",
        help="system: the kernel's; netdev: in userspace; dummy: for tests.",
    ),
    cfg.StrOpt(
        "ovsdb_connection", default="unix:/var/run/openvswitch/db.sock", help="Where Open vSwitch's database is."
    ),
    cfg.ListOpt(
        "ovsdb_managers",
        default=["ptcp:6640:127.0.0.1"],
        help="Where the database is served to others on this host: the default is where Nova's os-vif plugs. "
        "Those that are there already stay.",
    ),
    cfg.StrOpt("run_directory", default="/var/run/openvswitch", help="Where ovs-vswitchd keeps its sockets."),
    cfg.IntOpt("ovsdb_timeout", default=10, min=1, help="Seconds for one transaction of the database."),
    cfg.StrOpt("vhostuser_socket_dir", default="/var/run/openvswitch", help="Where vhost-user sockets are."),
]
AGENT = [
    cfg.ListOpt(
        "tunnel_types",
        default=[],
        item_type=types.String(choices=TUNNEL_TYPES),
        help="Tunnels that this host takes part in.",
    ),
    cfg.PortOpt("vxlan_udp_port", default=4789, help="UDP port of VXLAN."),
    cfg.BoolOpt("dont_fragment", default=True, help="Forbid that tunnel packets be fragmented."),
    cfg.BoolOpt("tunnel_csum", default=False, help="Checksum tunnel packets."),
    cfg.BoolOpt("l2_population", default=True, help="Take from the server where ports are, and learn nothing."),
    cfg.BoolOpt("arp_responder", default=True, help="Answer for known addresses on this host; with l2_population."),
    cfg.BoolOpt("enable_distributed_routing", default=False, help="Serve distributed routers."),
    cfg.BoolOpt("drop_flows_on_start", default=False, help="Delete our flows at start, and make them anew."),
    cfg.ListOpt("extensions", default=[], help="Extensions of the L2 role, by entry point."),
    cfg.FloatOpt("report_interval", default=30, min=0, help="Seconds between reports to the server; 0: none."),
    cfg.BoolOpt("log_agent_heartbeats", default=False, help="Have the server log each report."),
    cfg.FloatOpt("quitting_rpc_timeout", default=10, min=0, help="Seconds that the agent may take to end."),
    cfg.FloatOpt(
        "check_interval", default=5, min=0.1, help="Seconds between looks at the number of our flows on each bridge."
    ),
    cfg.FloatOpt(
        "repair_interval",
        default=60,
        min=1,
        help="Seconds between comparisons of all that is there with all that should.",
    ),
]
SECURITYGROUP = [
    cfg.BoolOpt("enable_security_group", default=True, help="Whether security groups are applied."),
    cfg.StrOpt(
        "firewall_driver",
        choices=["openvswitch", "iptables_hybrid", "noop"],
        default="openvswitch",
        help="Where: in flows, on a Linux bridge for each port, or nowhere.",
    ),
    cfg.ListOpt("permitted_ethertypes", default=[], help="Further ethertypes that ports may send, such as 0x4008."),
]
ML2: list[cfg.Opt] = [
    cfg.IntOpt("overlay_ip_version", default=4, choices=(4, 6), help="IP version between tunnel endpoints.")
]

GROUPS: tuple[tuple[str | None, list[cfg.Opt]], ...] = (
    (None, GLOBAL),
    (None, dhcp.OPTIONS),
    (None, l3.OPTIONS),
    (None, metadata.OPTIONS),
    ("metadata_rate_limiting", metadata.RATE_LIMITING),
    ("metadata_haproxy", metadata.TIMEOUTS),
    ("agent", dhcp.CHILDREN),
    ("feed", FEED),
    ("ovs", OVS),
    ("agent", AGENT),
    ("securitygroup", SECURITYGROUP),
    ("ml2", ML2),
)

# What SIGHUP changes in a running agent; all others need a restart, which costs no packet.
RELOADED = frozenset({("agent", "report_interval"), ("agent", "check_interval"), ("agent", "repair_interval")})


class RefusedToStart(Exception):
    """The configuration asks for something that the agent will not do."""


def register(conf: cfg.ConfigOpts) -> None:
    for group, options in GROUPS:
        conf.register_opts(options, group=group)


def configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    register(conf)
    log.register_options(conf)
    conf([], project="neutrino-agent", default_config_files=list(files), default_config_dirs=[])
    return conf


def values(conf: cfg.ConfigOpts) -> dict[tuple[str, str], object]:
    """Every option of ours as (group, name), to compare two readings of the files."""
    return {
        (group or "DEFAULT", option.dest): (conf[group] if group else conf)[option.dest]
        for group, options in GROUPS
        for option in options
    }


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse, by the option's name, what cannot work."""
    if not conf.feed.server:
        raise RefusedToStart("[feed] server is not set: it says where neutrino's server is")
    if not conf.feed.credential_file:
        raise RefusedToStart("[feed] credential_file is not set: `neutrino host add` on the server prints a credential")
    bridge_mappings(conf)
    permitted_ethertypes(conf)
    if "l2" in conf.roles:
        _check_tunnels(conf)
    problem = l3.ipv6_gateway_problem(conf)
    if problem is not None:
        raise RefusedToStart(problem)


def _check_tunnels(conf: cfg.ConfigOpts) -> None:
    if not conf.ovs.local_ip:
        if conf.agent.tunnel_types:
            raise RefusedToStart("[ovs] local_ip is not set: tunnels need this host's address")
        return
    try:  # also without tunnels: it is reported, and the server takes no report with another text
        address = ipaddress.ip_address(conf.ovs.local_ip)
    except ValueError:
        raise RefusedToStart(f"[ovs] local_ip={conf.ovs.local_ip} is not an IP address") from None
    if not conf.agent.tunnel_types:
        return
    if address.version != conf.ml2.overlay_ip_version:
        raise RefusedToStart(
            f"[ovs] local_ip={conf.ovs.local_ip} is of IP version {address.version}, "
            f"and [ml2] overlay_ip_version is {conf.ml2.overlay_ip_version}"
        )
    if conf.agent.enable_distributed_routing and not conf.agent.l2_population:
        raise RefusedToStart("[agent] enable_distributed_routing with tunnels needs l2_population")


def bridge_mappings(conf: cfg.ConfigOpts) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for text in conf.ovs.bridge_mappings:
        network, colon, bridge = (part.strip() for part in text.partition(":"))
        if not colon or not network or not bridge:
            raise RefusedToStart(f"[ovs] bridge_mappings: {text!r} is not physical_network:bridge")
        if network in found or bridge in found.values():
            raise RefusedToStart(f"[ovs] bridge_mappings: {text!r} names a network or a bridge a second time")
        if bridge in (conf.ovs.integration_bridge, conf.ovs.tunnel_bridge):
            raise RefusedToStart(f"[ovs] bridge_mappings: {bridge} is the agent's own bridge")
        found[network] = bridge
    return tuple(found.items())


def permitted_ethertypes(conf: cfg.ConfigOpts) -> tuple[int, ...]:
    numbers = []
    for text in conf.securitygroup.permitted_ethertypes:
        try:
            number = int(text, 16)
        except ValueError:
            raise RefusedToStart(
                f"[securitygroup] permitted_ethertypes: {text!r} is not a hexadecimal number"
            ) from None
        if not 0x600 <= number <= 0xFFFF:
            raise RefusedToStart(f"[securitygroup] permitted_ethertypes: {text!r} is not an ethertype")
        numbers.append(number)
    return tuple(numbers)
