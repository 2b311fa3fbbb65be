"""Options of the DHCP role, under the names of dhcp_agent.ini, and the values that rendering needs of them."""

from dataclasses import dataclass

from oslo_config import cfg

from neutrino.agent.supervisor import EXIT, RESPAWN

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt("dhcp_confs", default="$state_path/dhcp", help="Directory with a directory of files per network."),
    cfg.IntOpt("dhcp_lease_duration", default=86400, min=-1, help="Seconds; -1: infinite."),
    cfg.IntOpt("dhcp_renewal_time", default=0, min=0, help="T1 in seconds; 0: left to the client."),
    cfg.IntOpt("dhcp_rebinding_time", default=0, min=0, help="T2 in seconds; 0: left to the client."),
    cfg.StrOpt("dns_domain", default="openstacklocal", help="Domain of the names that dnsmasq resolves."),
    cfg.StrOpt("dnsmasq_config_file", default="", help="A configuration file with further dnsmasq options."),
    cfg.ListOpt("dnsmasq_dns_servers", default=[], help="Upstream name servers of dnsmasq, in this order."),
    cfg.BoolOpt("dnsmasq_local_resolv", default=False, help="Without dnsmasq_dns_servers: use the host's resolv.conf."),
    cfg.StrOpt("dnsmasq_base_log_dir", default="", help="Directory of dnsmasq's logs, one per network; empty: none."),
    cfg.IntOpt("dnsmasq_lease_max", default=2**24, min=1, help="Maximum number of leases of a network."),
    cfg.BoolOpt("dnsmasq_enable_addr6_list", default=False, help="Offer all addresses of a port on an IPv6 subnet."),
    cfg.StrOpt("dnsmasq_txt_record", default="", help="A TXT record that dnsmasq serves."),
    cfg.BoolOpt("dhcp_broadcast_reply", default=False, help="Send DHCP replies as broadcast."),
    cfg.BoolOpt("enable_isolated_metadata", default=False, help="Serve metadata on networks without a router."),
    cfg.BoolOpt("force_metadata", default=False, help="Serve metadata on all networks from the DHCP namespace."),
    cfg.BoolOpt("enable_metadata_network", default=False, help="Serve metadata on networks of 169.254.0.0/16 too."),
    cfg.BoolOpt("use_gateway_ips", default=False, help="Give the DHCP device the addresses of the gateways."),
    cfg.BoolOpt(
        "dhcp_distributed",
        default=False,
        help="Serve the ports of this host here, wherever their network is scheduled, from the same address.",
    ),
    cfg.BoolOpt("ovs_use_veth", help="Plug by veth pairs; by default only on the userspace datapath."),
    cfg.IntOpt("num_sync_threads", default=4, min=1, help="How many networks are reconciled at the same time."),
    cfg.ListOpt("dhcp_extensions", default=[], help="Extensions of the DHCP role, by entry point, in this order."),
]
CHILDREN: list[cfg.Opt] = [
    cfg.StrOpt(
        "check_child_processes_action",
        choices=[RESPAWN, EXIT],
        default=RESPAWN,
        help="When a daemon of a role exits: respawn it, or exit the agent.",
    ),
]
INFINITE = -1


@dataclass(frozen=True)
class DhcpSettings:
    """The options above, as one value; same names."""

    host: str
    dhcp_confs: str
    dhcp_lease_duration: int = 86400
    dhcp_renewal_time: int = 0
    dhcp_rebinding_time: int = 0
    dns_domain: str = "openstacklocal"
    dnsmasq_config_file: str = ""
    dnsmasq_dns_servers: tuple[str, ...] = ()
    dnsmasq_local_resolv: bool = False
    dnsmasq_lease_max: int = 2**24
    dnsmasq_base_log_dir: str = ""
    dnsmasq_enable_addr6_list: bool = False
    dnsmasq_txt_record: str = ""
    dnsmasq_user: str = ""  # empty: dnsmasq's default, an unprivileged user
    dhcp_broadcast_reply: bool = False
    enable_isolated_metadata: bool = False
    force_metadata: bool = False
    enable_metadata_network: bool = False
    use_gateway_ips: bool = False
    dhcp_distributed: bool = False
    use_veth: bool = False
    integration_bridge: str = "br-int"
