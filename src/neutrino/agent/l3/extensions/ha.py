"""High availability: the part of an HA router that fails over, keepalived's configuration, and the states it reports.

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
from typing import NamedTuple

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.extensions.devices import render_device, render_plug
from neutrino.agent.l3.names import HA, device
from neutrino.dataplane.netlink.values import MAIN_TABLE, Address, Route, address
from neutrino.model.link_local import link_local
from neutrino.model.routing import HaMembership, Router, RouterInterface

GARP_DELAY = 60  # seconds until keepalived announces again; the agent does so earlier
LOWER_PRIORITY_DELAY = 2  # seconds after an advertisement of another active host, which then steps back
GARP_REFRESH = 20  # seconds: switches that saw the router's MAC on another host learn the right place within these
PRIMARY_NETWORK = ipaddress.ip_network("169.254.0.0/24")
ACTIVE, STANDBY = "active", "standby"
_STATES = {"MASTER": ACTIVE, "BACKUP": STANDBY, "FAULT": STANDBY, "STOP": STANDBY}
CONFLICT_SECONDS, REPORT_SECONDS = 10.0, 3.0
_ADVERTISEMENTS = re.compile(r"^\s*advert_int\s+(\d+)\s*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Failover:
    """The part of an HA router that fails over: all of it, or of a distributed one its SNAT."""

    namespace: str
    membership: HaMembership
    ports: Mapping[str, RouterInterface]  # by device, except that of the HA network
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]


class HighAvailability(L3Extension):
    name = "high availability"

    def render(self, namespace: RouterNamespace) -> Contribution:
        if namespace.router.ha is None:
            return Contribution(device_prefixes=(HA,))  # ha-… of a router that was HA before is deleted
        port = namespace.router.ha.interface
        name = device(HA, port.id)
        # A standby host must not send with the router's MAC, which would draw its traffic there: devices get no
        # link-local address before keepalived sets one. Addresses that keepalived sets are used without DAD: the host
        # that had them before may be lost, and is not to be waited for.
        quiet = (("addr_gen_mode", "1"), ("accept_dad", "0"))
        return Contribution(
            devices=(render_device(name, port, namespace.options),),
            plugs=(render_plug(name, port, namespace.options),),
            host_addresses=tuple(address(name, each.prefixed, nodad=True) for each in port.addresses),
            sysctls={f"net/ipv6/conf/{each}/{key}": value for each in namespace.ports for key, value in quiet},
            device_prefixes=(HA,),
        )


def has_primary(router: Router, addresses: Iterable[Address]) -> bool:
    """Whether a host with these addresses is the active one."""
    return router.ha is None or any(each.address == primary_address(router.ha) for each in addresses)


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
    for each in sorted(failover.addresses):
        yield f"{each.address} dev {each.device}"


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


# --- states of HA routers on this host ---


def last_state(lines: Iterable[str]) -> str | None:
    """The state in the last line such as `INSTANCE "VR_7" MASTER 50`, which keepalived writes when it changes."""
    words = [line.split() for line in lines]
    states = [_STATES.get(each[2]) for each in words if len(each) >= 3 and each[0] == "INSTANCE"]
    return next((state for state in reversed(states) if state is not None), None)


class Disagreement(NamedTuple):
    """What to do where this host is active and the server names another one as active."""

    problem: str = ""
    check_again: float | None = None  # after so many seconds
    report: bool = False  # that this host is active


@dataclasses.dataclass
class HaConflicts:
    """An HA router that is active on this host, while the server names another one: the last that reported to be active.

    During a failover two hosts may both be active for a moment. What lasts longer is either an error of the server, whose
    database was restored: then this host reports again. Or both hosts are active, as when the HA network is
    partitioned: the other one reports again too. So a host does that once, until it was standby: both would take the
    router's ports from each other for ever. The host that the server does not name after that has the conflict as a
    problem.
    """

    host: str
    seconds: float = CONFLICT_SECONDS
    report_seconds: float = REPORT_SECONDS
    _since: dict[str, float] = dataclasses.field(default_factory=dict)  # by router
    _reported: set[str] = dataclasses.field(default_factory=set)  # routers

    def check(self, router: Router, *, active: bool, now: float) -> Disagreement:
        other = router.ha.active_host if router.ha is not None else ""
        if not active:
            self.forget(router.id)
            return Disagreement()
        if other in ("", self.host):
            self._since.pop(router.id, None)
            return Disagreement()
        is_reported = router.id in self._reported
        left = self._since.setdefault(router.id, now) + (self.seconds if is_reported else self.report_seconds) - now
        if left > 0:
            return Disagreement(check_again=left)
        if not is_reported:
            self._reported.add(router.id)
            self._since[router.id] = now
            return Disagreement(check_again=self.seconds, report=True)
        return Disagreement(
            f"is active here and on {other} at once: the hosts do not receive each other's VRRP advertisements, "
            "check the HA network between them"
        )

    def forget(self, router_id: str) -> None:
        self._since.pop(router_id, None)
        self._reported.discard(router_id)
