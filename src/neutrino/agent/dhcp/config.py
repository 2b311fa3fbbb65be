"""The options of the DHCP role, under the names of dhcp_agent.ini."""

from __future__ import annotations

from oslo_config import cfg

from neutrino.agent.dhcp.role import EXIT, RESPAWN

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt("dhcp_confs", default="$state_path/dhcp", help="Where each network has a directory of files."),
    cfg.IntOpt("dhcp_lease_duration", default=86400, min=-1, help="Seconds; -1: for ever."),
    cfg.IntOpt("dhcp_renewal_time", default=0, min=0, help="Seconds after which clients renew; 0: as they see fit."),
    cfg.IntOpt(
        "dhcp_rebinding_time", default=0, min=0, help="Seconds after which clients ask any server; 0: likewise."
    ),
    cfg.StrOpt("dns_domain", default="openstacklocal", help="The domain of the networks' names."),
    cfg.StrOpt("dnsmasq_config_file", default="", help="A file with further settings for dnsmasq."),
    cfg.ListOpt("dnsmasq_dns_servers", default=[], help="Name servers that dnsmasq asks, in this order."),
    cfg.BoolOpt("dnsmasq_local_resolv", default=False, help="Without such servers: ask those of this host."),
    cfg.StrOpt(
        "dnsmasq_base_log_dir", default="", help="Where dnsmasq logs, in a directory a network; empty: nowhere."
    ),
    cfg.IntOpt("dnsmasq_lease_max", default=2**24, min=1, help="The most leases of one network."),
    cfg.BoolOpt("dnsmasq_enable_addr6_list", default=False, help="Give a port all its addresses of an IPv6 subnet."),
    cfg.StrOpt("dnsmasq_txt_record", default="", help="A TXT record that dnsmasq answers with."),
    cfg.BoolOpt("dhcp_broadcast_reply", default=False, help="Answer by broadcast."),
    cfg.BoolOpt("enable_isolated_metadata", default=False, help="Serve metadata on networks without a router."),
    cfg.BoolOpt("force_metadata", default=False, help="Serve metadata on all networks from the DHCP namespace."),
    cfg.BoolOpt("enable_metadata_network", default=False, help="Serve it on networks of 169.254.0.0/16 too."),
    cfg.BoolOpt("use_gateway_ips", default=False, help="Give the DHCP device the gateways' addresses."),
    cfg.BoolOpt(
        "dhcp_distributed",
        default=False,
        help="Answer the ports of this host here, wherever their network is scheduled, from the same address.",
    ),
    cfg.BoolOpt("ovs_use_veth", help="Plug by veth pairs; by default on the userspace datapath only."),
    cfg.IntOpt("num_sync_threads", default=4, min=1, help="How many networks are worked on at once."),
]
CHILDREN: list[cfg.Opt] = [
    cfg.StrOpt(
        "check_child_processes_action",
        choices=[RESPAWN, EXIT],
        default=RESPAWN,
        help="When a process of a role ends: start it again, or end the agent.",
    ),
]
