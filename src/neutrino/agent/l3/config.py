"""Options of l3_agent.ini, and what the L3 role derives from them."""

import dataclasses
import ipaddress
import uuid

from oslo_config import cfg

from neutrino.agent.runtime.options import option, options_of, read_settings
from neutrino.dataplane.xfrm import has_esp
from neutrino.model import agents
from neutrino.model.routing import Router

MODES = ("legacy", "dvr", "dvr_snat", "dvr_no_external")
# Those of Neutron's L3 agent that are part of this one: clients look in its report for what its routers can do.
EXTENSIONS = (
    *("conntrack_helper", "fip_qos", "fwaas_v2", "fwaas_v2_log", "gateway_ip_qos", "ndp_proxy", "port_forwarding"),
)
SHORTEST_INTERVAL = 0.05  # seconds between advertisements, and between questions for a gateway
CONTROL_SOCKET = "conntrackd.ctl"  # in the directory of an HA router
LONGEST_SOCKET = 107  # characters of a socket's path, in the kernel and in conntrackd
LONGEST_OF_VERSION_3 = 40  # its packets have room for 40.95 s, in hundredths of a second


def needs_version_3(interval: float) -> bool:
    """VRRP version 2 counts in whole seconds."""
    return interval != int(interval)


def as_configured(interval: float) -> float:
    """Whole seconds as keepalived's version 2, Neutron and the API have them."""
    return interval if needs_version_3(interval) else int(interval)


@dataclasses.dataclass(frozen=True)
class L3Options:
    """The part of the configuration that routers depend on: derived values, and options under their own names."""

    host: str = ""
    state_path: str = ""
    integration_bridge: str = "br-int"
    veth: bool = False  # devices are veth pairs: internal ports do not survive a restart of a userspace vswitchd
    keeps_devices: bool = False  # those that exist stay what they are, internal ports or veth pairs
    metadata_port: int = 0  # where the metadata process listens in each namespace; 0: it does not
    # Directories of the daemons' files: DHCPv6 clients, keepalived, radvd; empty: below state_path.
    pd_confs: str = ""
    ha_confs_path: str = ""
    ra_confs: str = ""
    log_rate: int = 100  # packets a second that are copied to the network log, in each namespace
    log_burst: int = 25
    can_log: bool = True  # the kernel has netfilter's log: without it, it would refuse all rules of the router
    vpn_userspace: bool = False  # charon encrypts tunnels, not the kernel
    charon: str = "charon-systemd"
    agent_mode: str = option("legacy", "Which part of distributed routers this host takes.", choices=MODES)
    handle_internal_only_routers: bool = option(True, "Serve routers without a gateway.")
    gateway_external_network_id: str = option("", "Serve only routers whose gateway is on this network.")
    external_network_bridge: str = option("", "Plug gateways here, not into the integration bridge.")
    ipv6_gateway: str = option("", "Link-local next hop of gateways whose IPv6 subnet names none.")
    ha_vrrp_auth_type: str = option("PASS", "VRRP authentication type.", choices=["AH", "PASS"])
    ha_vrrp_auth_password: str = option("", "VRRP password; empty: no authentication.", secret=True)
    ha_vrrp_advert_int: float = option(
        1.0,
        "Seconds between VRRP advertisements of an active router: with a fraction by VRRP version 3, which has no "
        "authentication, from 0.05 to 40. A standby host takes over after three.",
        min=SHORTEST_INTERVAL,
        max=255,
    )
    ha_vrrp_health_check_interval: float = option(
        0,
        "Seconds between looks of an HA router's active host at the router's gateways; when none answers any more, another "
        "host takes over. A fraction of a second, from 0.05: after three looks. 0: it does not look.",
        min=0,
        max=3600,
    )
    ha_conntrackd_enabled: bool = option(
        False, "Hand the connections of an HA router over to the host that takes over, by conntrackd."
    )
    ha_conntrackd_group: int = option(
        3780, "UDP port of conntrackd's messages of the router whose VRRP id is 0.", min=1, max=65535 - 255
    )
    ha_conntrackd_ipv4_mcast_addr: str = option("225.0.0.50", "Multicast address of conntrackd's messages.")
    ha_conntrackd_hashsize: int = option(32768, "Buckets of conntrackd's caches.", min=1)
    ha_conntrackd_hashlimit: int = option(131072, "Most connections of a router that conntrackd holds.", min=1)
    ha_conntrackd_socketbuffersize: int = option(
        262142, "Bytes of conntrackd's buffer for events of the kernel.", min=1
    )
    ha_conntrackd_socketbuffersize_max_grown: int = option(655355, "Bytes that this buffer may grow to.", min=1)
    ha_conntrackd_sndsocketbuffer: int = option(24985600, "Bytes of the buffer for messages that it sends.", min=1)
    ha_conntrackd_rcvsocketbuffer: int = option(24985600, "Bytes of the buffer for messages that it receives.", min=1)
    min_rtr_adv_interval: int = option(30, "Fewest seconds between router advertisements.", min=3)  # limits: RFC 4861
    max_rtr_adv_interval: int = option(100, "Most seconds between them.", min=4, max=1800)
    radvd_user: str = option("", "User that radvd runs as; empty: the agent's.")
    bfd_interval: int = option(1000, "Milliseconds between BFD packets of a next hop.", min=100, max=60000)
    bfd_multiplier: int = option(3, "Missed BFD packets after which a next hop is left out.", min=1, max=255)
    vendor_pen: int = option(8888, "The private enterprise number in DHCPv6 clients' DUID.", min=1, max=2**32 - 1)


@dataclasses.dataclass(frozen=True)
class MeterOptions:
    """Of metering_agent.ini: in Neutron, metering is an agent of its own."""

    measure_interval: int = option(30, "Seconds between readings of routers' metering counters.", min=1)
    report_interval: int = option(300, "Seconds between reports of metered traffic to the server.", min=1)
    granular_traffic_data: bool = option(
        False, "Notify of metered traffic also by router and project, instead of by label alone."
    )


OPTIONS = [
    *options_of(L3Options),
    *options_of(MeterOptions),
    cfg.PortOpt("metadata_port", default=9697, help="Where the metadata process listens in each router."),
    cfg.BoolOpt("enable_metadata_proxy", default=True, help="Redirect instances' metadata requests in routers."),
    cfg.IntOpt("send_arp_interval", default=180, min=1, help="Seconds between announcements of a router's addresses."),
    cfg.ListOpt("l3_extensions", default=[], help="Extensions of this role, by entry point."),
    cfg.StrOpt(
        "prefix_delegation_driver",
        choices=["dibbler"],
        default="dibbler",
        deprecated_name="pd_dhcp_driver",
        help="The DHCPv6 client that asks for delegated prefixes.",
    ),
    cfg.StrOpt("pd_confs", default="$state_path/pd", help="Where these clients keep their files."),
    cfg.StrOpt("ha_confs_path", default="$state_path/ha_confs", help="Directory of keepalived's files of HA routers."),
    cfg.StrOpt("ra_confs", default="$state_path/ra", help="Directory of radvd's files."),
]


VPN_OPTIONS = [
    cfg.StrOpt(
        "ipsec",
        choices=["auto", "kernel", "userspace"],
        default="auto",
        help="What encrypts tunnels: the kernel, or charon itself, which needs no ESP in the kernel and is slower; auto: "
        "the kernel, if it can.",
    ),
    cfg.StrOpt("charon", default="/usr/sbin/charon-systemd", help="The program charon-systemd of strongSwan."),
]


def vpn_userspace(ipsec: str) -> bool:
    return ipsec == "userspace" or (ipsec == "auto" and not has_esp())


def l3_options(conf: cfg.ConfigOpts) -> L3Options:
    return read_settings(
        L3Options,
        conf,
        host=conf.host,
        state_path=conf.state_path,
        integration_bridge=conf.ovs.integration_bridge,
        veth=conf.ovs_use_veth or conf.ovs.datapath_type != "system",
        keeps_devices=not conf.ovs_use_veth,
        metadata_port=conf.metadata_port if conf.enable_metadata_proxy else 0,
        pd_confs=conf.pd_confs,
        ha_confs_path=conf.ha_confs_path,
        ra_confs=conf.ra_confs,
        vpn_userspace=vpn_userspace(conf.vpn.ipsec),
        charon=conf.vpn.charon,
        log_rate=conf.network_log.rate_limit,
        log_burst=conf.network_log.burst_limit,
    )


def refusal(router: Router, options: L3Options) -> str | None:
    """Why this host does not serve a router; None if it does."""
    if router.gateway is None and not options.handle_internal_only_routers:
        return "it has no gateway, and handle_internal_only_routers is off"
    if router.distributed and options.agent_mode == "legacy":
        return "it is distributed, and agent_mode is legacy"
    wanted = options.gateway_external_network_id
    if router.gateway is not None and wanted and router.gateway.network_id != wanted:
        return f"its gateway is not on gateway_external_network_id={wanted}"
    return None


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    """The L3 agent of this host, as the API shows it."""
    configurations = {
        agents.AGENT_MODE: conf.agent_mode,
        agents.HANDLE_INTERNAL_ONLY_ROUTERS: conf.handle_internal_only_routers,
        agents.GATEWAY_EXTERNAL_NETWORK_ID: conf.gateway_external_network_id,
        agents.HA_VRRP_ADVERT_INT: as_configured(conf.ha_vrrp_advert_int),
        agents.HA_CONNTRACKD: _conntrackd_group(conf),
        "external_network_bridge": conf.external_network_bridge,
        "interface_driver": "openvswitch",
        agents.EXTENSIONS: list(EXTENSIONS),
        agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
    }
    return agents.AgentState(
        agents.L3, "neutron-l3-agent", conf.host, "l3_agent", conf.agent.availability_zone, configurations
    )


def _conntrackd_group(conf: cfg.ConfigOpts) -> str:
    return f"{conf.ha_conntrackd_ipv4_mcast_addr}:{conf.ha_conntrackd_group}" if conf.ha_conntrackd_enabled else ""


def vrrp_problem(conf: cfg.ConfigOpts) -> str | None:
    """Why advertisements cannot be sent as configured; None if they can."""
    interval = conf.ha_vrrp_advert_int
    if not needs_version_3(interval):
        return None
    if interval > LONGEST_OF_VERSION_3:
        return f"ha_vrrp_advert_int={interval} has a fraction, with which {LONGEST_OF_VERSION_3} seconds are the most"
    if conf.ha_vrrp_auth_password:
        return (
            f"ha_vrrp_auth_password: VRRP version 3, which ha_vrrp_advert_int={interval} needs, has no authentication"
        )
    return None


def health_check_problem(conf: cfg.ConfigOpts) -> str | None:
    """Why gateways cannot be looked at as often as configured; None if they can."""
    interval = conf.ha_vrrp_health_check_interval
    if interval == int(interval) or SHORTEST_INTERVAL <= interval < 1:
        return None
    return f"ha_vrrp_health_check_interval={interval}: whole seconds, or a fraction of one from {SHORTEST_INTERVAL}"


def conntrackd_problem(conf: cfg.ConfigOpts) -> str | None:
    """Why conntrackd cannot be run as configured; None if it can."""
    if not conf.ha_conntrackd_enabled:
        return None
    group = conf.ha_conntrackd_ipv4_mcast_addr
    try:
        is_group = ipaddress.IPv4Address(group).is_multicast
    except ValueError:
        is_group = False
    if not is_group:
        return f"ha_conntrackd_ipv4_mcast_addr={group} is not an IPv4 multicast address"
    longest = LONGEST_SOCKET - len(f"/{uuid.UUID(int=0)}/{CONTROL_SOCKET}")
    if len(conf.ha_confs_path) > longest:
        return (
            f"ha_confs_path={conf.ha_confs_path} has more than {longest} characters, with which the path of conntrackd's "
            "socket is too long"
        )
    return None


def ipv6_gateway_problem(conf: cfg.ConfigOpts) -> str | None:
    """Why `ipv6_gateway` cannot be used; None if it can."""
    if not conf.ipv6_gateway:
        return None
    try:
        address = ipaddress.IPv6Address(conf.ipv6_gateway)
    except ValueError:
        return f"ipv6_gateway={conf.ipv6_gateway} is not an IPv6 address"
    if address.scope_id is not None:  # the device is the gateway's own
        return f"ipv6_gateway={conf.ipv6_gateway} is not an address alone"
    return None if address.is_link_local else f"ipv6_gateway={conf.ipv6_gateway} is not a link-local address"
