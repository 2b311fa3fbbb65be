"""The options of the router plugin, under the names that operators have in neutron.conf."""

from __future__ import annotations

from oslo_config import cfg

OPTIONS = [
    cfg.BoolOpt("router_distributed", default=False, help="Routers are distributed unless they say otherwise."),
    cfg.BoolOpt("l3_ha", default=False, help="Routers are highly available unless they say otherwise."),
    cfg.IntOpt("max_l3_agents_per_router", default=3, min=0, help="Agents that an HA router has; 0: all."),
    cfg.StrOpt("l3_ha_net_cidr", default="169.254.192.0/18", help="Subnet on which hosts of HA routers meet."),
    cfg.StrOpt("l3_ha_network_type", default="", help="Kind of network that it is; by default one as projects get."),
    cfg.StrOpt("l3_ha_network_physical_name", default="", help="The physical network that it is on."),
    cfg.BoolOpt("enable_snat_by_default", default=True, help="Gateways do SNAT unless they say otherwise."),
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
        help="The longest range of ports that a port forwarding may lead to other ports: each port is an element of "
        "the router's table. Ranges that lead to the same ports, or to one, are a single element and may be of any "
        "length.",
    ),
    cfg.BoolOpt("router_auto_schedule", default=True, help="Routers get agents by themselves."),
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
    cfg.StrOpt("dvr_base_mac", default="fa:16:3f:00:00:00", help="The first octets of distributed routers' MACs."),
]
