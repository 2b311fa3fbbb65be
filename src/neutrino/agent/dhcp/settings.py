"""What the operator decides about DHCP on a host, as one value."""

from __future__ import annotations

from dataclasses import dataclass

INFINITE = -1


@dataclass(frozen=True)
class Settings:
    """Names are those of the options in dhcp_agent.ini."""

    host: str
    dhcp_confs: str  # the directory that holds a directory for each network
    dhcp_lease_duration: int = 86400  # seconds; -1: for ever
    dhcp_renewal_time: int = 0  # 0: what the client makes of the lease
    dhcp_rebinding_time: int = 0
    dns_domain: str = "openstacklocal"
    dnsmasq_config_file: str = ""
    dnsmasq_dns_servers: tuple[str, ...] = ()
    dnsmasq_local_resolv: bool = False
    dnsmasq_lease_max: int = 2**24
    dnsmasq_base_log_dir: str = ""
    dnsmasq_enable_addr6_list: bool = False
    dnsmasq_txt_record: str = ""
    dnsmasq_user: str = ""  # empty: dnsmasq's own, which has few rights
    dhcp_broadcast_reply: bool = False
    enable_isolated_metadata: bool = False
    force_metadata: bool = False
    enable_metadata_network: bool = False
    use_gateway_ips: bool = False
    dhcp_distributed: bool = False  # the ports of this host are answered here, wherever the network is scheduled
    bridged: bool = True  # False: instances' devices are in the DHCP namespace's own stack, not on a bridge
    use_veth: bool = False  # ovs_use_veth, and on the userspace datapath
    integration_bridge: str = "br-int"
