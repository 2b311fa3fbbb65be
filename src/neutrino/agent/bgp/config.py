"""Options of the BGP role, under the names of bgp_dragent.ini."""

import ipaddress

from oslo_config import cfg

from neutrino.agent.programs import BGPD
from neutrino.errors import RefusedToStart

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "bgp_router_id",
        default="",
        help="BGP identifier of this host, in the form of an IPv4 address; empty: [ovs] local_ip, if it is of IPv4.",
    ),
    cfg.StrOpt("bgpd", default=BGPD, help="The program bgpd of FRR."),
    cfg.StrOpt("bgpd_user", default="frr", help="The user that bgpd runs as, if the agent is root."),
    cfg.IntOpt(
        "connect_retry", default=10, min=1, max=65535, help="Seconds between attempts to connect to a BGP peer."
    ),
]


def router_id(conf: cfg.ConfigOpts) -> str:
    """The BGP identifier, which no other speaker of the AS may have; RefusedToStart if there is none."""
    text = conf.bgp.bgp_router_id or conf.ovs.local_ip
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        found = ipaddress.IPv4Address(0)
    if not int(found):
        raise RefusedToStart(f"[bgp] bgp_router_id={text}: it has to be an IPv4 address, for the role bgp")
    return str(found)
