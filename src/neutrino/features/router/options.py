"""Options of the router plugin, under their names in neutron.conf."""

from oslo_config import cfg

OPTIONS = [
    cfg.BoolOpt("router_distributed", default=False, help="Default for `distributed` of new routers."),
    cfg.BoolOpt("l3_ha", default=False, help="Default for `ha` of new routers."),
    cfg.IntOpt("max_l3_agents_per_router", default=3, min=0, help="Agents of an HA router; 0: all."),
    cfg.StrOpt("l3_ha_net_cidr", default="169.254.192.0/18", help="Subnet of HA networks, for VRRP between hosts."),
    cfg.StrOpt("l3_ha_network_type", default="", help="Network type of HA networks; default: that of tenants."),
    cfg.StrOpt("l3_ha_network_physical_name", default="", help="Physical network of HA networks."),
    cfg.BoolOpt("enable_snat_by_default", default=True, help="Default for `enable_snat` of gateways."),
    cfg.BoolOpt(
        "enable_ndp_proxy_by_default",
        default=False,
        help="Default for `enable_ndp_proxy` of routers whose external network supports NDP proxies.",
    ),
    cfg.BoolOpt("enable_default_route_bfd", default=False, help="Default for `enable_default_route_bfd` of routers."),
    cfg.BoolOpt("enable_default_route_ecmp", default=False, help="Default for `enable_default_route_ecmp` of routers."),
    cfg.StrOpt(
        "router_scheduler_driver",
        default="LeastRoutersScheduler",
        help="How a router's agent is chosen: LeastRoutersScheduler or ChanceScheduler.",
    ),
    cfg.IntOpt(
        "max_shifted_port_forwarding_range",
        default=100,
        min=1,
        max=65535,
        help="Most ports of a port forwarding range with other internal ports: each port is an element of an nft map "
        "on the host. Ranges to the same ports, or to one port, are a single element and not limited.",
    ),
    cfg.BoolOpt("router_auto_schedule", default=True, help="Schedule routers to L3 agents automatically."),
    cfg.BoolOpt("allow_automatic_l3agent_failover", default=False, help="Move routers away from dead L3 agents."),
    cfg.ListOpt(
        "allowed_conntrack_helpers",
        default=[
            "amanda:tcp",
            "ftp:tcp",
            "h323:udp",
            "h323:tcp",
            "irc:tcp",
            "netbios-ns:udp",
            "pptp:tcp",
            "sane:tcp",
            "sip:udp",
            "sip:tcp",
            "snmp:udp",
            "tftp:udp",
        ],
        help="Conntrack helpers that routers may use, as helper:protocol.",
    ),
    cfg.StrOpt("dvr_base_mac", default="fa:16:3f:00:00:00", help="Prefix of the hosts' MAC addresses for DVR."),
]
