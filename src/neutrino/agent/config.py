"""Options of the host agent, with the names and groups of openvswitch_agent.ini, dhcp_agent.ini and so on."""

import ipaddress
import os
import pwd
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg, types
from oslo_log import log

from neutrino import entry_points, tls
from neutrino.agent import resource_providers
from neutrino.agent.bgp import config as bgp
from neutrino.agent.dhcp import config as dhcp
from neutrino.agent.guard.decide import CAUSES, CookieRange, parse_cookies
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l3 import config as l3
from neutrino.agent.metadata import config as metadata
from neutrino.agent.metadata.messages import RateLimit, Timeouts
from neutrino.agent.runtime.options import options_of
from neutrino.agent.runtime.supervisor import EXIT, RESPAWN
from neutrino.agent.sriov import config as sriov
from neutrino.configuration import findings
from neutrino.configuration.neutron_values import INCLUDED, add_names, list_type, name_type
from neutrino.configuration.options import Configuration
from neutrino.dataplane.ovsdb.api import ClientFiles
from neutrino.errors import RefusedToStart
from neutrino.feed.address import Address, BadAddress, parse
from neutrino.metrics.listener import address as metrics_address
from neutrino.metrics.listener import options as metrics_options

ROLES = ("l2", "dhcp", "l3", "metadata", "bgp", "sriov")
TUNNEL_TYPES = ("gre", "vxlan", "geneve")

# Neutron lists extensions that are always included here.
add_names("agent", "extensions", {one.neutron_name: INCLUDED for one in BUILT_IN if one.neutron_name})


GLOBAL = [
    cfg.StrOpt(
        "host",
        default=os.uname().nodename,
        sample_default="<the machine's name>",
        help="The name of this host in port bindings.",
    ),
    cfg.StrOpt(
        "state_path",
        default=os.path.expanduser("~/.local/share/neutrino-agent"),
        sample_default="~/.local/share/neutrino-agent",
        help="Directory of the agent's files.",
    ),
    cfg.ListOpt("roles", default=["l2"], item_type=types.String(choices=ROLES), help="The agent's roles on this host."),
]
FEED = [
    cfg.ListOpt(
        "server",
        default=[],
        help="Servers: unix:/path or wss://host:port; with several, the next one is tried when the connection is lost.",
    ),
    cfg.StrOpt("credential_file", help="File with this host's credential, as printed by `neutrino host add`."),
    cfg.StrOpt("ca_file", help="CA certificates for the servers' certificates; by default the system's."),
    cfg.FloatOpt("longest_delay", default=15.0, min=0.1, help="Maximum seconds between attempts to connect."),
]
OVS = [
    cfg.StrOpt("integration_bridge", default="br-int", help="The bridge that ports are plugged into."),
    cfg.StrOpt("tunnel_bridge", default="br-tun", help="The bridge that holds the tunnels."),
    cfg.StrOpt("int_peer_patch_port", default="patch-tun", help="Patch port to the tunnel bridge."),
    cfg.StrOpt("tun_peer_patch_port", default="patch-int", help="The patch port's other end."),
    cfg.StrOpt("local_ip", default="", help="This host's tunnel endpoint address, of overlay_ip_version."),
    cfg.ListOpt("bridge_mappings", default=[], help="Bridges of physical networks, as physical_network:bridge."),
    *resource_providers.OVS_OPTIONS,
    cfg.StrOpt(
        "datapath_type",
        choices=["system", "netdev", "dummy"],
        default="system",
        help="system: kernel datapath; netdev: userspace datapath; dummy: for tests.",
    ),
    cfg.IntOpt(
        "bridge_mac_table_size",
        default=50000,
        help="MAC addresses that a bridge of bridge_mappings learns; other bridges of the agent learn none. Packets to "
        "MACs that it has not learned are flooded. 0: as it is on the bridge.",
    ),
    cfg.StrOpt(
        "ovsdb_connection",
        default="unix:/var/run/openvswitch/db.sock",
        help="Address of Open vSwitch's database: unix:/path, tcp:127.0.0.1:port or ssl:127.0.0.1:port.",
    ),
    cfg.StrOpt("ssl_key_file", help="Key of the agent's certificate, for ovsdb_connection = ssl:…"),
    cfg.StrOpt("ssl_cert_file", help="Certificate of the agent for the database."),
    cfg.StrOpt("ssl_ca_cert_file", help="Authority of the database's certificate. Its name is not checked."),
    cfg.ListOpt(
        "ovsdb_managers",
        default=["ptcp:6640:127.0.0.1"],
        help="Managers to add to the database, for other programs of this host: the default is where Nova's os-vif "
        "plugs. Existing managers stay.",
    ),
    cfg.ListOpt(
        "kept_cookies",
        default=[],
        help="Cookies of flows that others add to the agent's bridges, as 0x12 or 0x1200/0xff00 (value/mask): such flows "
        "stay, and do not keep the agent from its start.",
    ),
    cfg.StrOpt("run_directory", default="/var/run/openvswitch", help="Directory of ovs-vswitchd's sockets."),
    cfg.IntOpt("ovsdb_timeout", default=10, min=1, help="Timeout of a database transaction in seconds."),
    cfg.StrOpt("vhostuser_socket_dir", default="/var/run/openvswitch", help="Directory of vhost-user sockets."),
]
AGENT = [
    cfg.ListOpt(
        "tunnel_types", default=[], item_type=types.String(choices=TUNNEL_TYPES), help="Tunnel types of this host."
    ),
    cfg.PortOpt("vxlan_udp_port", default=4789, help="UDP port of VXLAN tunnels."),
    cfg.BoolOpt("dont_fragment", default=True, help="Set DF on tunnel packets."),
    cfg.BoolOpt("tunnel_csum", default=False, help="Checksum tunnel packets."),
    cfg.IntOpt("dscp", min=0, max=63, help="DSCP of tunnel packets; by default 0."),
    cfg.BoolOpt("dscp_inherit", default=False, help="Copy the DSCP of packets to tunnel packets; overrides dscp."),
    cfg.BoolOpt(
        "l2_population", default=True, help="Flood and forward by the server's entries instead of MAC learning."
    ),
    cfg.BoolOpt(
        "arp_responder", default=True, help="Answer ARP and ND for known addresses locally; needs l2_population."
    ),
    cfg.BoolOpt("enable_distributed_routing", default=False, help="Serve distributed routers."),
    cfg.BoolOpt("drop_flows_on_start", default=False, help="Delete and re-create all flows at the start."),
    cfg.ListOpt(
        "start_despite",
        default=[],
        item_type=types.String(choices=CAUSES),
        help="What does not keep the agent from its work: foreign_flows on its bridges, which it removes when it adds its "
        "own, unknown_ports, which it cuts off, or other_database, whose objects replace those of the cache. Meant for one "
        "start: the log and `neutrino status` name what was found.",
    ),
    cfg.BoolOpt(
        "remote_takeover",
        default=False,
        help="Let an operator at a server convert this host of Neutron's agents, and give it back, with `neutrino takeover "
        "host HOST`; also stop and start Neutron's agents for it. Without it, only a command on this host does.",
    ),
    cfg.FloatOpt(
        "takeover_check_interval",
        default=600,
        min=0,
        help="While Neutron's flows hold the agent: seconds between comparisons of these flows with security groups, and "
        "of the host with what a conversion would make of it. They change nothing. 0: none.",
    ),
    cfg.BoolOpt(
        "remove_stale_namespaces",
        default=True,
        help="After the first sync, remove namespaces and switch ports of routers and networks that this host does not "
        "serve and that no record of this agent names, such as those that a Neutron agent has left.",
    ),
    cfg.StrOpt(
        "availability_zone",
        default="nova",
        deprecated_group="DEFAULT",
        help="Availability zone of this host's DHCP and L3 agents.",
    ),
    cfg.Opt(
        "extensions",
        type=list_type("agent", "extensions"),
        default=[],
        help="Extensions of the L2 role, by entry point; qos is built in.",
    ),
    cfg.StrOpt(
        "check_child_processes_action",
        choices=[RESPAWN, EXIT],
        default=RESPAWN,
        help="When a daemon of a role exits: respawn it, or exit the agent.",
    ),
    cfg.FloatOpt("report_interval", default=30, min=0, help="Seconds between reports to the server; 0: none."),
    cfg.BoolOpt("log_agent_heartbeats", default=False, help="Make the server log each report."),
    cfg.FloatOpt("quitting_rpc_timeout", default=10, min=0, help="Seconds to complete running work at a stop."),
    cfg.IntOpt(
        "rates_interval",
        default=30,
        min=0,
        max=3600,
        help="Seconds between reports of what ports and tunnels have counted, from which the API has rates; 0: none. The "
        "server keeps one report of 15 seconds.",
    ),
    cfg.FloatOpt(
        "check_interval", default=5, min=0.1, help="Seconds between comparisons of the number of flows of each bridge."
    ),
    cfg.FloatOpt(
        "repair_interval",
        default=60,
        min=1,
        help="Seconds between resyncs: full comparisons of actual and desired state.",
    ),
]
SECURITYGROUP = [
    cfg.BoolOpt("enable_security_group", default=True, help="Apply security groups."),
    cfg.Opt(
        "firewall_driver",
        type=name_type("securitygroup", "firewall_driver"),
        default="openvswitch",
        help="Apply them in OpenFlow, on a Linux bridge per port, or not at all.",
    ),
    cfg.ListOpt("permitted_ethertypes", default=[], help="Additional ethertypes that ports may send, such as 0x4008."),
]
NETWORK_LOG = [
    cfg.IntOpt("rate_limit", default=100, min=100, help="Packets per second that are logged, of all ports together."),
    cfg.IntOpt("burst_limit", default=25, min=25, help="Packets that are logged at once before rate_limit applies."),
    cfg.StrOpt("local_output_log_base", help="File of logged packets; by default they are in the agent's log."),
]
ML2: list[cfg.Opt] = [
    cfg.IntOpt("overlay_ip_version", default=4, choices=(4, 6), help="IP version between tunnel endpoints."),
    *resource_providers.ML2_OPTIONS,
]

GROUPS: tuple[tuple[str | None, Sequence[cfg.Opt]], ...] = (
    (None, GLOBAL),
    (None, dhcp.OPTIONS),
    (None, l3.OPTIONS),
    (None, metadata.OPTIONS),
    ("metadata_rate_limiting", options_of(RateLimit)),
    ("metadata_haproxy", options_of(Timeouts)),
    ("feed", FEED),
    ("ovs", OVS),
    ("agent", AGENT),
    ("securitygroup", SECURITYGROUP),
    ("network_log", NETWORK_LOG),
    ("bgp", bgp.OPTIONS),
    (sriov.GROUP, sriov.OPTIONS),
    (sriov.FDB_GROUP, sriov.FDB_OPTIONS),
    ("vpn", l3.VPN_OPTIONS),
    ("ml2", ML2),
    ("metrics", metrics_options("127.0.0.1:9698")),
)

# Options that SIGHUP changes in a running agent; the others need a restart, which disturbs no traffic.
RELOADED = frozenset({
    *(("agent", name) for name in ("report_interval", "check_interval", "repair_interval")),
    *(("agent", name) for name in ("start_despite", "remote_takeover", "takeover_check_interval")),
    ("ovs", "kept_cookies"),
})  # fmt: skip


def register(conf: cfg.ConfigOpts) -> None:
    for group, options in GROUPS:
        conf.register_opts(options, group=group)


def configuration(files: Sequence[str]) -> Configuration:
    conf = Configuration()
    register(conf)
    log.register_options(conf)
    # No default directories: oslo.config would read files that the operator did not name.
    conf([], project="neutrino-agent", default_config_files=list(files), default_config_dirs=[])
    return conf


def values(conf: cfg.ConfigOpts) -> dict[tuple[str, str], object]:
    """All our options by (group, name), to compare two readings of the files."""
    return {
        (group or "DEFAULT", option.dest): (conf[group] if group else conf)[option.dest]
        for group, options in GROUPS
        for option in options
    }


def feed_addresses(conf: Configuration) -> list[Address]:
    try:
        addresses = [parse(text, tls=True) for text in conf.feed.server]
    except BadAddress as error:
        raise RefusedToStart(f"[feed] server: {error}") from None
    for address in addresses:
        if not address.tls and not address.is_local:  # anybody on the way could read the credential
            raise RefusedToStart(f"[feed] server: {address} is another machine, and without TLS: use wss://")
    return addresses


def check(conf: Configuration) -> None:
    """Raise RefusedToStart for what cannot work."""
    findings.refuse(conf, findings.AGENT)
    if not conf.feed.server:
        raise RefusedToStart("[feed] server is not set: it is the address of neutrino's server")
    feed_addresses(conf)
    if not conf.feed.credential_file:
        raise RefusedToStart("[feed] credential_file is not set: `neutrino host add` on the server prints a credential")
    _check_ovsdb(conf)
    bridge_mappings(conf)  # parsed for its errors, which refuse the start
    permitted_ethertypes(conf)
    kept_cookies(conf)
    resource_providers.report(conf, [bridge for _, bridge in bridge_mappings(conf)], lambda: conf.host)
    metrics_address(conf)
    if "l2" in conf.roles:
        _check_tunnels(conf)
    if "bgp" in conf.roles:
        bgp.router_id(conf)
    if "sriov" in conf.roles:
        sriov.check(conf)
    if conf.radvd_user and not _is_user(conf.radvd_user):
        raise RefusedToStart(f"radvd_user={conf.radvd_user}: there is no such user")
    for find in (l3.ipv6_gateway_problem, l3.vrrp_problem, l3.health_check_problem, l3.conntrackd_problem):
        problem = find(conf)
        if problem is not None:
            raise RefusedToStart(problem)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def ovsdb_files(conf: Configuration) -> ClientFiles | None:
    """The files for TLS to Open vSwitch's database; None without it."""
    if not conf.ovs.ovsdb_connection.startswith("ssl:"):
        return None
    return ClientFiles(conf.ovs.ssl_key_file, conf.ovs.ssl_cert_file, conf.ovs.ssl_ca_cert_file)


def _check_ovsdb(conf: Configuration) -> None:
    address = conf.ovs.ovsdb_connection
    if not address.startswith(("unix:", "tcp:", "ssl:")):
        raise RefusedToStart(
            f"[ovs] ovsdb_connection={address}: use unix:/path, tcp:127.0.0.1:port or ssl:127.0.0.1:port"
        )
    if ovsdb_files(conf) is None:
        return
    options = ("ssl_cert_file", "ssl_key_file", "ssl_ca_cert_file")
    if missing := [name for name in options if not conf.ovs[name]]:
        raise RefusedToStart(f"[ovs] ovsdb_connection={address} needs [ovs] {', '.join(missing)}")
    cert, key, authority = (conf.ovs[name] for name in options)
    tls.load(tls.TlsFiles(cert, key, authority, group="ovs", options=options))  # for its errors


def _check_tunnels(conf: cfg.ConfigOpts) -> None:
    if not conf.ovs.local_ip:
        if conf.agent.tunnel_types:
            raise RefusedToStart("[ovs] local_ip is not set: tunnels need this host's address")
        return
    try:  # also without tunnels: the agent reports it, and the server refuses a report with an invalid address
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
        if network in found or bridge in found.values():  # two networks would share one patch port
            raise RefusedToStart(f"[ovs] bridge_mappings: {text!r} names a network or a bridge a second time")
        if bridge in (conf.ovs.integration_bridge, conf.ovs.tunnel_bridge):
            raise RefusedToStart(f"[ovs] bridge_mappings: {bridge} is the agent's own bridge")
        found[network] = bridge
    return tuple(found.items())


def uplink_rates(conf: cfg.ConfigOpts) -> tuple[tuple[str, int], ...]:
    """Devices, to the kbit/s that they can send; one without such a number is not in it."""
    rates = resource_providers.bandwidths(conf)
    return tuple((device, each["egress"]) for device, each in rates.items() if each["egress"])


def permitted_ethertypes(conf: cfg.ConfigOpts) -> tuple[int, ...]:
    numbers = []
    for text in conf.securitygroup.permitted_ethertypes:
        try:
            number = int(text, 16)
        except ValueError:
            raise RefusedToStart(
                f"[securitygroup] permitted_ethertypes: {text!r} is not a hexadecimal number"
            ) from None
        if not 0x600 <= number <= 0xFFFF:  # lower numbers are lengths of 802.3 frames
            raise RefusedToStart(f"[securitygroup] permitted_ethertypes: {text!r} is not an ethertype")
        numbers.append(number)
    return tuple(numbers)


def kept_cookies(conf: cfg.ConfigOpts) -> tuple[CookieRange, ...]:
    found = []
    for text in conf.ovs.kept_cookies:
        try:
            found.append(parse_cookies(text))
        except ValueError:
            raise RefusedToStart(f"[ovs] kept_cookies: {text!r} is not a cookie, or cookie/mask") from None
    return tuple(found)


def load_extensions(group: str, names: Sequence[str], *args: object) -> list[Any]:
    """Extensions of a role: the named entry points of `group`, in the order of `names`, each called with `args`."""
    installed = {point.name: point for point in entry_points.of_group(group)}
    extensions = []
    for name in names:
        if name not in installed:
            known = ", ".join(sorted(installed)) or "none"
            raise RefusedToStart(f"extension {name!r} is not installed as entry point of {group} (installed: {known})")
        try:
            extensions.append(installed[name].load()(*args))
        except Exception as error:  # third-party code: whatever it raises, the operator gets one line that names it
            raise RefusedToStart(f"extension {name!r} of {group} cannot be loaded: {error!r}") from error
    return extensions
