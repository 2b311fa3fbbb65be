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
from collections.abc import Iterable, Iterator, Mapping, Sequence

from neutrino.agent.l3.config import L3Options, as_configured, needs_version_3
from neutrino.agent.l3.names import EXTERNAL, HA, device
from neutrino.dataplane.netlink.values import MAIN_TABLE, Address, Route
from neutrino.model.addresses import link_local
from neutrino.model.routing import HaMembership, Router, RouterInterface

GARP_DELAY = 60  # seconds until keepalived announces again; the agent does so earlier
LOWER_PRIORITY_DELAY = 2  # seconds after an advertisement of another active host, which then steps back
GARP_REFRESH = 20  # seconds: switches that saw the router's MAC on another host learn the right place within these
HIGHEST_PRIORITY = -20  # as of nice
STATIC = 4  # the protocol of its routes
_DEFAULTS = ("0.0.0.0/0", "::/0")
FALL, RISE = 2, 2  # checks that fail until a host steps back, and that succeed until it may be elected again
CHECK_SECONDS = 3  # for a check: one that takes longer counts as failed, and an answer is waited for one second
GOES_ON_SECONDS = 600  # for one that goes on asking, which takes half of it at most: a busy machine is no lost gateway
_LINK_LOCAL = ipaddress.IPv4Network("169.254.0.0/16")
_RESERVED = (ipaddress.IPv4Network("169.254.169.254/32"), ipaddress.IPv4Network("169.254.64.0/18"))
"""Of metadata, and of distributed routers' links to `fip-…`."""
_ADVERTISEMENTS = re.compile(r"^\s*advert_int\s+(\d+(?:\.\d+)?)\s*$", re.MULTILINE)
_AUTHENTICATION = re.compile(r"^\s*auth_(type|pass)\s+(\S+)\s*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """What all hosts of a router must have alike: a keepalived ignores advertisements of others, and becomes active."""

    interval: float  # seconds between advertisements; with a fraction by VRRP version 3
    authentication: tuple[str, str] = ("", "")  # type and password


@dataclasses.dataclass(frozen=True)
class Failover:
    """The part of an HA router that fails over: all of it, or of a distributed one its SNAT."""

    namespace: str
    membership: HaMembership
    ports: Mapping[str, RouterInterface]  # by device, except that of the HA network
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]

    def gateways(self) -> list[tuple[str, str]]:
        """The next hops of default routes on external networks, each with its device.

        Others are of the project's own static routes: its instances must not decide which host is active.
        """
        defaults = [route for route in self.routes if route.destination in _DEFAULTS and route.table == MAIN_TABLE]
        found = [(route.device, route.via) for route in defaults if route.via]
        found += [(hop.device, hop.via) for route in defaults for hop in route.next_hops]
        return list(dict.fromkeys(each for each in found if each[0].startswith(EXTERNAL)))


def has_primary(router: Router, addresses: Iterable[Address]) -> bool:
    """Whether a host with these addresses is the active one."""
    return router.ha is None or any(address.address == primary_address(router.ha) for address in addresses)


def primary_address(membership: HaMembership) -> str:
    """The address that the active host has on the HA network: as in Neutron, of the first /24 that nothing else uses."""
    subnets = [ipaddress.IPv4Network(each.cidr) for each in membership.interface.addresses if each.version == 4]
    used = (*_RESERVED, *subnets)
    free = (each for each in _LINK_LOCAL.subnets(new_prefix=24) if not any(map(each.overlaps, used)))
    return f"{next(free)[membership.vr_id]}/24"


def agreement_of(options: L3Options) -> Agreement:
    """What a new router's hosts agree on, provided that they have the same options."""
    has_password = bool(options.ha_vrrp_auth_type and options.ha_vrrp_auth_password)
    authentication = (options.ha_vrrp_auth_type, options.ha_vrrp_auth_password) if has_password else ("", "")
    return Agreement(options.ha_vrrp_advert_int, authentication)


def render_keepalived(
    failover: Failover, options: L3Options, notify: str, check: str = "", state_changed: Sequence[str] = ()
) -> str:
    """`notify` is the fifo that keepalived writes its states to; `check` the script that looks at gateways; `state_changed`
    a command that it runs when its state changes.

    A keepalived of Neutron's goes on with this configuration: where an address or a route is written with other words than
    Neutron's, its reload removes and adds it.
    """
    membership = failover.membership
    name = device(HA, membership.interface.id)
    agreement = agreement_of(options)
    gateways = failover.gateways() if options.ha_vrrp_health_check_interval and check else []
    tracked = f"gateways_{membership.vr_id}" if gateways else ""
    general = (
        # First: with the check of scripts on, a fifo before the user is ignored when the configuration is loaded again.
        *(("script_user root", "enable_script_security") if tracked or state_changed else ()),
        "notification_email_from neutrino@localhost",
        f"router_id {options.host}",
        f"vrrp_notify_fifo {notify}",
        f"vrrp_garp_master_refresh {GARP_REFRESH}",
        # Before other processes: three late advertisements are a failover.
        *((f"vrrp_priority {HIGHEST_PRIORITY}",) if needs_version_3(agreement.interval) else ()),
    )
    kind, password = agreement.authentication
    authentication = (f"auth_type {kind}", f"auth_pass {password}") if kind else ()
    instance = (
        "state BACKUP",  # on every host: `nopreempt` has no effect otherwise
        f"interface {name}",
        f"virtual_router_id {membership.vr_id}",
        f"priority {membership.priority}",
        f"garp_master_delay {GARP_DELAY}",
        f"garp_lower_prio_delay {LOWER_PRIORITY_DELAY}",
        "nopreempt",
        *(("version 3",) if needs_version_3(agreement.interval) else ()),
        f"advert_int {as_configured(agreement.interval)}",
        *_block("authentication", authentication),
        *_block("track_interface", (name,)),  # a host whose HA port is down steps back
        *_block("track_script", (tracked,) if tracked else ()),
        *((f'notify "{" ".join(state_changed)}"',) if state_changed else ()),
        *_block("virtual_ipaddress", (f"{primary_address(membership)} dev {name}",)),
        # Excluded from advertisements, which have room for a few addresses only.
        *_block("virtual_ipaddress_excluded", _excluded(failover)),
        *_block("virtual_routes", map(_route, failover.routes)),
    )
    script = _check(check, (name, primary_address(membership)), gateways, options.ha_vrrp_health_check_interval)
    lines = (
        *_block("global_defs", general),
        *_block(f"vrrp_script {tracked}", script if tracked else ()),
        *_block(f"vrrp_instance VR_{membership.vr_id}", instance),
    )
    return "\n".join(lines) + "\n"


def _check(path: str, active: tuple[str, str], gateways: Iterable[tuple[str, str]], interval: float) -> tuple[str, ...]:
    """How keepalived runs the script. It counts in seconds: within one the script goes on asking, and decides itself."""
    goes_on = interval < 1
    pace = f"{interval:g}" if goes_on else "0"
    words = (path, pace, *active, *(word for gateway in gateways for word in gateway))
    return (
        f'script "/bin/sh {" ".join(words)}"',
        f"interval {1 if goes_on else int(interval)}",
        f"timeout {GOES_ON_SECONDS if goes_on else CHECK_SECONDS}",
        f"fall {1 if goes_on else FALL}",
        f"rise {RISE}",
    )


def read_agreement(configuration: str) -> Agreement | None:
    """The agreement in a configuration of keepalived, of this agent's or Neutron's; None if it has none."""
    found = _ADVERTISEMENTS.search(configuration)
    words = dict(_AUTHENTICATION.findall(configuration))
    authentication = (words.get("type", ""), words.get("pass", ""))
    return Agreement(float(found[1]), authentication) if found is not None else None


def _excluded(failover: Failover) -> Iterator[str]:
    """All addresses, and the link-local ones of all devices, which are the IPv6 gateways of instances."""
    for name, interface in sorted(failover.ports.items()):
        yield f"{link_local(interface.mac_address)}/64 dev {name} scope link no_track"
    for address in sorted(failover.addresses):
        yield f"{address.address} dev {address.device} no_track"


def _route(each: Route) -> str:
    words = [each.destination]
    words += ["via", each.via] if each.via else []
    words += ["dev", each.device] if each.device else []
    words += ["onlink"] if each.onlink else []
    words += ["scope", "link"] if not each.via and not each.next_hops and each.version == 4 else []
    words += ["table", str(each.table)] if each.table != MAIN_TABLE else []
    words += ["no_track", "protocol", "static"]
    for hop in each.next_hops:  # last: keepalived takes all that follows for next hops
        words += ["nexthop", "via", hop.via, "dev", hop.device, *(["onlink"] if hop.onlink else [])]
    return " ".join(words)


def _block(name: str, lines: Iterable[str]) -> list[str]:
    inside = [f"    {line}" for line in lines]
    return [f"{name} {{", *inside, "}"] if inside else []
