"""The part of an HA router that fails over, and keepalived's configuration. Pure.

Every host of the router has its devices; keepalived, which elects the active host by VRRP over the HA network, sets the
addresses and routes there. All belong to one VRRP instance, whose own address on the HA network shows that this host is
the active one. A host that comes back does not take over (`nopreempt`): each failover costs packets.

A failover: keepalived of a standby host misses three advertisements, sets addresses and routes, announces them, and
writes its state into a fifo. The agent reads it, announces too, and reports the state; the server then moves the
router's bindings, by which the tunnels of other hosts follow.
"""

import dataclasses
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import HA, device
from neutrino.dataplane.netlink.values import MAIN_TABLE, Address, Route
from neutrino.model.addresses import link_local
from neutrino.model.routing import HaMembership, Router, RouterInterface

GARP_DELAY = 60  # seconds until keepalived announces again; the agent does so earlier
LOWER_PRIORITY_DELAY = 2  # seconds after an advertisement of another active host, which then steps back
GARP_REFRESH = 20  # seconds: switches that saw the router's MAC on another host learn the right place within these
PRIMARY_NETWORK = ipaddress.ip_network("169.254.0.0/24")
_ADVERTISEMENTS = re.compile(r"^\s*advert_int\s+(\d+)\s*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Failover:
    """The part of an HA router that fails over: all of it, or of a distributed one its SNAT."""

    namespace: str
    membership: HaMembership
    ports: Mapping[str, RouterInterface]  # by device, except that of the HA network
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]


def has_primary(router: Router, addresses: Iterable[Address]) -> bool:
    """Whether a host with these addresses is the active one."""
    return router.ha is None or any(address.address == primary_address(router.ha) for address in addresses)


def primary_address(membership: HaMembership) -> str:
    """The address that the active host has on the HA network."""
    return f"{PRIMARY_NETWORK[membership.vr_id]}/24"


def render_keepalived(failover: Failover, options: L3Options, notify: str) -> str:
    """`notify` is the fifo that keepalived writes its states to."""
    membership = failover.membership
    name = device(HA, membership.interface.id)
    general = (
        "notification_email_from neutrino@localhost",
        f"router_id {options.host}",
        f"vrrp_notify_fifo {notify}",
        f"vrrp_garp_master_refresh {GARP_REFRESH}",
    )
    has_password = options.ha_vrrp_auth_type and options.ha_vrrp_auth_password
    password = (f"auth_type {options.ha_vrrp_auth_type}", f"auth_pass {options.ha_vrrp_auth_password}")
    instance = (
        "state BACKUP",  # on every host: `nopreempt` has no effect otherwise
        f"interface {name}",
        f"virtual_router_id {membership.vr_id}",
        f"priority {membership.priority}",
        f"garp_master_delay {GARP_DELAY}",
        f"garp_lower_prio_delay {LOWER_PRIORITY_DELAY}",
        "nopreempt",
        f"advert_int {options.ha_vrrp_advert_int}",
        *_block("authentication", password if has_password else ()),
        *_block("track_interface", (name,)),  # a host whose HA port is down steps back
        *_block("virtual_ipaddress", (f"{primary_address(membership)} dev {name}",)),
        # Excluded from advertisements, which have room for a few addresses only.
        *_block("virtual_ipaddress_excluded", _excluded(failover)),
        *_block("virtual_routes", map(_route, failover.routes)),
    )
    lines = (*_block("global_defs", general), *_block(f"vrrp_instance VR_{membership.vr_id}", instance))
    return "\n".join(lines) + "\n"


def advertisement_interval(configuration: str) -> int | None:
    """The seconds between advertisements in a configuration of keepalived, of this agent's or Neutron's."""
    found = _ADVERTISEMENTS.search(configuration)
    return int(found[1]) if found is not None else None


def _excluded(failover: Failover) -> Iterator[str]:
    """All addresses, and the link-local ones of all devices, which are the IPv6 gateways of instances."""
    for name, interface in sorted(failover.ports.items()):
        yield f"{link_local(interface.mac_address)}/64 dev {name} scope link"
    for address in sorted(failover.addresses):
        yield f"{address.address} dev {address.device}"


def _route(each: Route) -> str:
    words = [each.destination]
    words += ["via", each.via] if each.via else []
    words += ["dev", each.device] if each.device else []
    words += ["onlink"] if each.onlink else []
    words += ["scope", "link"] if not each.via and not each.next_hops and each.version == 4 else []
    words += ["table", str(each.table)] if each.table != MAIN_TABLE else []
    for hop in each.next_hops:
        words += ["nexthop", "via", hop.via, "dev", hop.device, *(["onlink"] if hop.onlink else [])]
    return " ".join(words)


def _block(name: str, lines: Iterable[str]) -> list[str]:
    inside = [f"    {line}" for line in lines]
    return [f"{name} {{", *inside, "}"] if inside else []
