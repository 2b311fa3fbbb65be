"""Options of the DHCP role, under the names of dhcp_agent.ini; most of them are the settings that rendering needs."""

from dataclasses import dataclass

from oslo_config import cfg

from neutrino.agent.runtime.options import option, options_of

INFINITE = -1


@dataclass(frozen=True)
class DhcpSettings:
    host: str
    dhcp_confs: str = option("$state_path/dhcp", "Directory with a directory of files per network.")
    dhcp_lease_duration: int = option(86400, "Seconds; -1: infinite.", min=INFINITE)
    # Also in the section of Neutron's DHCP extension.
    dhcp_renewal_time: int = option(0, "T1 in seconds; 0: left to the client.", min=0, deprecated_group="dhcp")
    dhcp_rebinding_time: int = option(0, "T2 in seconds; 0: left to the client.", min=0, deprecated_group="dhcp")
    dns_domain: str = option(
        "openstacklocal", "Domain of the names that dnsmasq resolves.", deprecated_name="dhcp_domain"
    )
    dnsmasq_config_file: str = option("", "A configuration file with further dnsmasq options.")
    dnsmasq_dns_servers: tuple[str, ...] = option((), "Upstream name servers of dnsmasq, in this order.")
    dnsmasq_local_resolv: bool = option(False, "Without dnsmasq_dns_servers: use the host's resolv.conf.")
    dnsmasq_base_log_dir: str = option("", "Directory of dnsmasq's logs, one per network; empty: none.")
    dnsmasq_lease_max: int = option(2**24, "Maximum number of leases of a network.", min=1)
    dnsmasq_enable_addr6_list: bool = option(False, "Offer all addresses of a port on an IPv6 subnet.")
    dnsmasq_txt_record: str = option("", "A TXT record that dnsmasq serves.")
    dhcp_broadcast_reply: bool = option(False, "Send DHCP replies as broadcast.")
    enable_isolated_metadata: bool = option(False, "Serve metadata on networks without a router.")
    force_metadata: bool = option(False, "Serve metadata on all networks from the DHCP namespace.")
    enable_metadata_network: bool = option(False, "Serve metadata on networks of 169.254.0.0/16 too.")
    use_gateway_ips: bool = option(False, "Give the DHCP device the addresses of the gateways.")
    dhcp_distributed: bool = option(
        False, "Serve the ports of this host here, wherever their network is scheduled, from the same address."
    )
    dnsmasq_user: str = ""  # empty: dnsmasq's default, an unprivileged user
    use_veth: bool = False
    keeps_device: bool = False  # an existing device stays what it is, a veth pair or an internal port
    integration_bridge: str = "br-int"


OPTIONS: list[cfg.Opt] = [
    *options_of(DhcpSettings),
    cfg.BoolOpt("ovs_use_veth", help="Plug by veth pairs; by default only on the userspace datapath."),
    cfg.IntOpt("num_sync_threads", default=4, min=1, help="How many networks are reconciled at the same time."),
    cfg.ListOpt("dhcp_extensions", default=[], help="Extensions of the DHCP role, by entry point, in this order."),
]
