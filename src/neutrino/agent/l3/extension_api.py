"""The extension contract of the L3 role: desired state of a router's namespace in, a frozen `Contribution` out.

Every feature of a router on a host is an extension: the built-in ones (`router.BUILT_IN`) and third-party ones, which
are entry points of `neutrino.agent.l3_extensions` (called with the configuration) and are named in `l3_extensions`.
`render` is pure: it sees one namespace of one router and returns what the namespace needs for the feature. The role
merges the contributions of all extensions in the declared order, plans them against actual state, applies and verifies
them. So an extension has no code for update, removal, restart or drift: what it does not render any more is removed.
Which namespaces a kind of router has: `router.py`.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.agent.runtime.namespaces import DesiredDevice, Plug
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.netlink.values import Address, Neighbour, ProxyNeighbour, Route, Rule
from neutrino.dataplane.nft.api import Chain, Hook, Table, TableState
from neutrino.feed.state import StateChange
from neutrino.model.routing import Router, RouterInterface


def quoted(devices: Iterable[str]) -> str:
    """Devices as nft matches them: one, or a set of several."""
    names = [f'"{name}"' for name in devices]
    return names[0] if len(names) == 1 else f"{{ {', '.join(names)} }}"


GROUP = "neutrino.agent.l3_extensions"
Objects = Mapping[str, Mapping[str, Any]]
"""Feed objects by kind and id, of the types that the kinds declare."""


class Position(NamedTuple):
    """A base chain of the router's tables. Rules of several extensions at one position are in the order of these.

    An `accept` ends only the chain that it is in. An extension whose rules must see every packet renders a chain of its
    own, with a hook and priority that it chooses.
    """

    name: str
    hook: Hook

    def chain(self, rules: Iterable[str]) -> Chain:
        return Chain(self.name, tuple(rules), self.hook)


MARK = Position("prerouting_mark", Hook("filter", "prerouting", -150))  # before DNAT: the packet as it was sent
DNAT = Position("prerouting_dnat", Hook("nat", "prerouting", -100))
OUTPUT_DNAT = Position("output_dnat", Hook("nat", "output", -100))  # connections of the namespace itself
HELPERS = Position("prerouting_helpers", Hook("filter", "prerouting", 0))
FORWARD = Position("forward_filter", Hook("filter", "forward", 0))
INPUT = Position("input_filter", Hook("filter", "input", 0))
SNAT = Position("postrouting_snat", Hook("nat", "postrouting", 100))


@dataclasses.dataclass(frozen=True)
class RouterNamespace:
    """Desired state of one namespace of a router on this host: the input of an extension."""

    name: str
    kind: Literal["router", "snat"]
    router: Router
    """The router as it is in this namespace: without gateway in `qrouter-…` of a distributed one, without interfaces in
    `snat-…`, and with those floating IPs that are translated here."""
    whole: Router  # as the server describes it
    inside: Mapping[
        str, RouterInterface
    ]  # ports towards the router's subnets by device (qr-…, sg-…); none that is down
    outside: str  # the device by which packets leave: qg-…, or rfp-… of a distributed router, or empty
    options: L3Options
    objects: Objects = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    """Those of the kinds that extensions declare."""
    link: tuple[str, str] | None = None  # addresses of rfp-… here and fpr-… in fip-…, of a distributed router
    lost_next_hops: frozenset[tuple[str, str]] = frozenset()  # device and address of those that BFD has found to fail

    @property
    def gateway(self) -> RouterInterface | None:
        """The gateway port, where its device is in this namespace."""
        gateway = self.router.gateway
        return gateway if gateway is not None and gateway.admin_state_up else None

    @property
    def gateways(self) -> Mapping[str, RouterInterface]:
        """All gateway ports whose devices are in this namespace, by device, the first gateway first; none that is down."""
        first = (self.router.gateway,) if self.router.gateway is not None else ()
        return {
            device(EXTERNAL, each.id): each for each in (*first, *self.router.extra_gateways) if each.admin_state_up
        }

    @property
    def outsides(self) -> tuple[str, ...]:
        """All devices by which packets leave, `outside` first."""
        return tuple(dict.fromkeys(name for name in (self.outside, *self.gateways) if name))

    @property
    def ports(self) -> Mapping[str, RouterInterface]:
        """All ports of the router in this namespace by device, except that of the HA network."""
        return {**self.inside, **self.gateways}


@dataclasses.dataclass(frozen=True)
class Contribution:
    """What an extension adds to a namespace. What it does not contribute any more is removed; sysctls keep their value."""

    tables: tuple[Table, ...] = ()  # parts of the nft tables, by family; chains of one name are joined
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    addresses: tuple[Address, ...] = ()  # with HA only on the active host: keepalived sets them
    host_addresses: tuple[Address, ...] = ()  # with HA on every host
    routes: tuple[Route, ...] = ()  # with HA only on the active host
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    proxies: tuple[ProxyNeighbour, ...] = ()  # with HA only on the active host
    others_tables: tuple[int, ...] = ()  # routing tables that a daemon fills: their routes and rules stay
    devices: tuple[DesiredDevice, ...] = ()
    plugs: tuple[Plug, ...] = ()  # of devices, into a bridge
    device_prefixes: tuple[str, ...] = ()  # contributed always: devices named so that are not contributed are deleted


@dataclasses.dataclass(frozen=True)
class RouterResult:
    """The outcome of one reconcile of a router. `router` is None when it was removed."""

    router_id: str
    router: Router | None = None
    error: str = ""


class L3Extension:
    """Base class. All methods but `applied` are pure, and may be called from any thread."""

    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]] = frozenset()
    """Kinds of feed objects that it reads in `RouterNamespace.objects`, besides routers."""

    def render(self, namespace: RouterNamespace) -> Contribution:
        """Raising ValueError leaves the router as it is and is shown as its problem."""
        return Contribution()

    def stale_connections(
        self, namespace: RouterNamespace, desired: Mapping[str, Table], actual: Mapping[str, TableState]
    ) -> Iterable[ConntrackFlush]:
        """Conntrack entries to flush once `desired` replaces `actual` (tables by path).

        The kernel treats packets of an established connection as it did its first one, so a rule or element that is
        removed has no effect on these without it. Connections whose source is translated to an address that nothing
        contributes are flushed anyway: the router has lost it.
        """
        return ()

    def routers_affected(self, change: StateChange, routers: Iterable[Router]) -> Iterable[str]:
        """Ids of the routers to reconcile when an object of one of `kinds` has changed."""
        return (router.id for router in routers)

    def statuses(self, router: Router, objects: Objects) -> Iterable[ObjectStatus]:
        """Reported once the router, with these objects, has been applied; ERROR instead if it cannot be."""
        return ()

    def applied(self, result: RouterResult) -> None:
        """Called after each reconcile, outside of the pure part: for status reports. It may block."""
