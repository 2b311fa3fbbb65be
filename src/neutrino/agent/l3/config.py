"""The options of l3_agent.ini."""

from __future__ import annotations

import ipaddress

from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt(
        "agent_mode",
        choices=["legacy", "dvr", "dvr_snat", "dvr_no_external"],
        default="legacy",
        help="Which part of distributed routers this host takes.",
    ),
    cfg.BoolOpt("handle_internal_only_routers", default=True, help="Serve routers without a gateway."),
    cfg.StrOpt("gateway_external_network_id", default="", help="Serve only routers whose gateway is on this network."),
    cfg.StrOpt("external_network_bridge", default="", help="Plug gateways here, not into the integration bridge."),
    cfg.PortOpt("metadata_port", default=9697, help="Where the metadata process listens in each router."),
    cfg.BoolOpt("enable_metadata_proxy", default=True, help="Lead instances behind routers to the metadata service."),
    cfg.StrOpt("ipv6_gateway", default="", help="Link-local next hop of gateways whose IPv6 subnet names none."),
    cfg.IntOpt("send_arp_interval", default=180, min=1, help="Seconds between announcements of a router's addresses."),
    cfg.StrOpt("ha_vrrp_auth_type", choices=["AH", "PASS"], default="PASS", help="How VRRP hosts know each other."),
    cfg.StrOpt("ha_vrrp_auth_password", secret=True, default="", help="Their password; without one they do not."),
    cfg.IntOpt("ha_vrrp_advert_int", default=1, min=1, help="Seconds between signs of life of an active router."),
    cfg.ListOpt("l3_extensions", default=[], help="Entry points that are told of every router on this host."),
    cfg.IntOpt("min_rtr_adv_interval", default=30, min=3, help="Fewest seconds between router advertisements."),
    cfg.IntOpt("max_rtr_adv_interval", default=100, min=4, max=1800, help="Most seconds between them."),
    cfg.StrOpt(
        "prefix_delegation_driver",
        choices=["dibbler"],
        default="dibbler",
        deprecated_name="pd_dhcp_driver",
        help="The DHCPv6 client that asks for prefixes of subnets outside.",
    ),
    cfg.StrOpt("pd_confs", default="$state_path/pd", help="Where these clients keep their files."),
    cfg.IntOpt(
        "vendor_pen",
        default=8888,
        min=1,
        max=2**32 - 1,
        help="The private enterprise number by which they are known to a DHCPv6 server.",
    ),
]


def ipv6_gateway_problem(conf: cfg.ConfigOpts) -> str | None:
    """Why the option cannot be used, if so."""
    if not conf.ipv6_gateway:
        return None
    try:
        address = ipaddress.IPv6Address(conf.ipv6_gateway)
    except ValueError:
        return f"ipv6_gateway={conf.ipv6_gateway} is not an IPv6 address"
    return None if address.is_link_local else f"ipv6_gateway={conf.ipv6_gateway} is not a link-local address"
