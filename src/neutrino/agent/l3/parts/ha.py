"""A router that several hosts hold ready: the configuration of keepalived, which says who is active.

Every host has the router's devices; the one that hears nobody of a better right puts on the addresses and routes. All of
them go by one VRRP instance: its own address, on the network that only the hosts of the router share, is the sign that it
is active. A host that comes back does not take over: a move costs more than it gains.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from neutrino.agent.l3.names import HA, device
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import default_routes, ports, router_addresses
from neutrino.agent.l3.parts.metadata import metadata_addresses
from neutrino.dataplane.netlink.values import Route
from neutrino.model.link_local import link_local
from neutrino.model.routing import HaMembership, Router

PREEMPT_DELAY = 30
GARP_DELAY = 60
GARP_REFRESH = 20  # seconds: switches that have heard another host speak as the router learn better within these
PRIMARY_NETWORK = ipaddress.ip_network("169.254.0.0/24")


def primary_address(membership: HaMembership) -> str:
    """The address that the active host has on the network of the hosts."""
    return f"{PRIMARY_NETWORK[membership.vr_id]}/24"


def render_keepalived(router: Router, options: L3Options, notify: str) -> str:
    """`notify` is the fifo that keepalived writes its states to."""
    membership = router.ha
    if membership is None:
        return ""
    name = device(HA, membership.interface.id)
    lines = [
        "global_defs {",
        "    notification_email_from neutrino@localhost",
        f"    router_id {options.host}",
        f"    vrrp_notify_fifo {notify}",
        f"    vrrp_garp_master_refresh {GARP_REFRESH}",
        "}",
        f"vrrp_instance VR_{membership.vr_id} {{",
        "    state BACKUP",
        f"    interface {name}",
        f"    virtual_router_id {membership.vr_id}",
        f"    priority {membership.priority}",
        f"    garp_master_delay {GARP_DELAY}",
        "    nopreempt",
        f"    advert_int {options.advert_interval}",
        *_authentication(options),
        "    track_interface {",
        f"        {name}",
        "    }",
        "    virtual_ipaddress {",
        f"        {primary_address(membership)} dev {name}",
        "    }",
        *_block("virtual_ipaddress_excluded", _excluded(router, options)),
        *_block("virtual_routes", _routes(router, options)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _authentication(options: L3Options) -> list[str]:
    if not options.authentication or not options.password:
        return []
    return [
        "    authentication {",
        f"        auth_type {options.authentication}",
        f"        auth_pass {options.password}",
        "    }",
    ]


def _excluded(router: Router, options: L3Options) -> Iterator[str]:
    """The router's addresses; and the link-local ones, by which instances know the router, of every device but ours."""
    for name, interface in sorted(ports(router).items()):
        if router.ha is not None and interface is not router.ha.interface:
            yield f"{link_local(interface.mac_address)}/64 dev {name} scope link"
    for each in sorted((*router_addresses(router), *metadata_addresses(router, options.metadata_port))):
        yield f"{each.address} dev {each.device}"


def _routes(router: Router, options: L3Options) -> Iterator[str]:
    for each in default_routes(router, options):
        yield _route(each)
    for extra in router.routes:
        yield f"{ipaddress.ip_network(extra.destination, strict=False)} via {extra.nexthop}"


def _route(each: Route) -> str:
    return f"{each.destination} via {each.via} dev {each.device}{' onlink' if each.onlink else ''}"


def _block(name: str, lines: Iterator[str]) -> list[str]:
    inside = [f"        {line}" for line in lines]
    return [f"    {name} {{", *inside, "    }"] if inside else []
