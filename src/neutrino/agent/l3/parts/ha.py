"""A router that several hosts hold ready: the configuration of keepalived, which says who is active.

Every host has the router's devices; the one that hears nobody of a better right puts on the addresses and routes. All of
them go by one VRRP instance: its own address, on the network that only the hosts of the router share, is the sign that it
is active. A host that comes back does not take over: a move costs more than it gains.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.names import HA, device, router_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import ports, router_addresses, router_routes
from neutrino.agent.l3.parts.metadata import metadata_addresses
from neutrino.dataplane.netlink.values import Address, Route
from neutrino.model.link_local import link_local
from neutrino.model.routing import HaMembership, Router, RouterInterface

PREEMPT_DELAY = 30
GARP_DELAY = 60
RIVAL_DELAY = 2  # seconds after another host, which was active too, has spoken: it has given up, and switches learn so
GARP_REFRESH = 20  # seconds: switches that have heard another host speak as the router learn better within these
PRIMARY_NETWORK = ipaddress.ip_network("169.254.0.0/24")


@dataclasses.dataclass(frozen=True)
class Moving:
    """What moves from host to host: a whole router, or the part of one that is at one place only."""

    namespace: str
    membership: HaMembership
    ports: Mapping[str, RouterInterface]  # by device, but for the one by which the hosts hear each other
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]


def moving_router(router: Router, options: L3Options) -> Moving | None:
    """The whole of a router that several hosts hold ready."""
    if router.ha is None:
        return None
    return Moving(
        router_namespace(router.id),
        router.ha,
        {name: port for name, port in ports(router).items() if port is not router.ha.interface},
        (*router_addresses(router), *metadata_addresses(router, options.metadata_port)),
        tuple(router_routes(router, options)),
    )


def primary_address(membership: HaMembership) -> str:
    """The address that the active host has on the network of the hosts."""
    return f"{PRIMARY_NETWORK[membership.vr_id]}/24"


def render_keepalived(moving: Moving, options: L3Options, notify: str) -> str:
    """`notify` is the fifo that keepalived writes its states to."""
    membership = moving.membership
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
        f"    garp_lower_prio_delay {RIVAL_DELAY}",
        "    nopreempt",
        f"    advert_int {options.advert_interval}",
        *_authentication(options),
        "    track_interface {",
        f"        {name}",
        "    }",
        "    virtual_ipaddress {",
        f"        {primary_address(membership)} dev {name}",
        "    }",
        *_block("virtual_ipaddress_excluded", _excluded(moving)),
        *_block("virtual_routes", (_route(each) for each in moving.routes)),
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


def _excluded(moving: Moving) -> Iterator[str]:
    """The addresses; and the link-local ones, by which instances know the router, of every device but ours."""
    for name, interface in sorted(moving.ports.items()):
        yield f"{link_local(interface.mac_address)}/64 dev {name} scope link"
    for each in sorted(moving.addresses):
        yield f"{each.address} dev {each.device}"


def _route(each: Route) -> str:
    words = [each.destination]
    words += ["via", each.via] if each.via else []
    words += ["dev", each.device] if each.device else []
    words += ["onlink"] if each.onlink else []
    words += ["scope", "link"] if not each.via and each.version == 4 else []
    return " ".join(words)


def _block(name: str, lines: Iterable[str]) -> list[str]:
    inside = [f"        {line}" for line in lines]
    return [f"    {name} {{", *inside, "    }"] if inside else []
