"""Renders a router on this host: its namespaces by its kind, each merged from the contributions of all extensions.
Pure.

The path of a floating IP: the feed's `Router` → `role.L3Role` → here → `parts.nat.Nat` (an element of two nft maps) →
`apply.RouterNamespaces` (read, `nft.plan`, apply) → `dataplane.nft.real`.
"""

import dataclasses
from collections.abc import Iterable

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.dvr.namespaces import local_namespace, snat_part
from neutrino.agent.l3.dvr.routing import DistributedRouting
from neutrino.agent.l3.extension_api import Contribution, L3Extension, Objects, RouterNamespace
from neutrino.agent.l3.names import EXTERNAL, INTERNAL, device, router_namespace
from neutrino.agent.l3.parts.delegation import PrefixDelegation
from neutrino.agent.l3.parts.devices import Devices
from neutrino.agent.l3.parts.ha import Failover, HighAvailability
from neutrino.agent.l3.parts.metadata import Metadata
from neutrino.agent.l3.parts.nat import Nat
from neutrino.agent.l3.parts.ra import RouterAdvertisements
from neutrino.agent.l3.parts.scopes import AddressScopes
from neutrino.agent.namespaces import DesiredNamespace
from neutrino.agent.plugging import Plug
from neutrino.dataplane.netlink.tc import TcItem
from neutrino.dataplane.nft.api import Chain, Table
from neutrino.model.routing import Router

BUILT_IN: tuple[L3Extension, ...] = (
    Devices(),
    RouterAdvertisements(),
    Nat(),
    Metadata(),
    AddressScopes(),
    HighAvailability(),
    PrefixDelegation(),
    DistributedRouting(),
)
"""The order of contributions: of rules at one position, and of sysctls (the last one wins). Third-party ones follow."""


class RenderError(Exception):
    """A third-party extension cannot render a router, or collides with another. Actual state is left as it is."""


@dataclasses.dataclass(frozen=True)
class DesiredRouterNamespace:
    """All desired state of one namespace."""

    namespace: DesiredNamespace
    tables: tuple[Table, ...] = ()
    plugs: tuple[Plug, ...] = ()
    tc: tuple[TcItem, ...] = ()
    failover: Failover | None = None  # what keepalived sets in it
    rendered_from: RouterNamespace | None = None  # None for `fip-…`, which is not one router's


def router_namespaces(
    router: Router, options: L3Options, objects: Objects | None = None, link: tuple[str, str] | None = None
) -> tuple[RouterNamespace, ...]:
    """The namespaces of a router on this host, by its kind. `link` joins a distributed one with its `fip-…`."""
    if router.distributed:
        snat = snat_part(router, options, objects or {})
        return (local_namespace(router, options, objects or {}, link), *((snat,) if snat is not None else ()))
    inside = {device(INTERNAL, each.id): each for each in router.interfaces if each.admin_state_up}
    outside = device(EXTERNAL, router.gateway.id) if router.gateway is not None else ""
    return (
        RouterNamespace(router_namespace(router.id), "router", router, router, inside, outside, options, objects or {}),
    )


def render(namespace: RouterNamespace, extensions: Iterable[L3Extension] = ()) -> DesiredRouterNamespace:
    """Merges the contributions of the built-in extensions, and of those given, to one namespace."""
    parts = [each.render(namespace) for each in BUILT_IN] + [_contribution(each, namespace) for each in extensions]
    # With HA, addresses and routes go to keepalived's configuration instead: a standby host must not have them.
    addresses = tuple(address for each in parts for address in each.addresses)
    routes = tuple(route for each in parts for route in each.routes)
    devices = tuple(device for each in parts for device in each.devices)
    names = [each.name for each in devices]
    if len(set(names)) != len(names):
        raise RenderError(f"{namespace.name}: two extensions contribute one device: {', '.join(sorted(names))}")
    ha = namespace.router.ha
    return DesiredRouterNamespace(
        DesiredNamespace(
            name=namespace.name,
            devices=devices,
            addresses=frozenset((*(a for each in parts for a in each.host_addresses), *(() if ha else addresses))),
            routes=frozenset(() if ha else routes),
            rules=frozenset(rule for each in parts for rule in each.rules),
            neighbours=frozenset(neighbour for each in parts for neighbour in each.neighbours),
            sysctls={name: value for each in parts for name, value in each.sysctls.items()},
            device_prefixes=tuple(prefix for each in parts for prefix in each.device_prefixes),
            others_addresses=frozenset(names if ha else ()) - {"lo"},  # keepalived sets addresses on any of them
        ),
        tables=_tables(namespace.name, [table for each in parts for table in each.tables]),
        plugs=tuple(sorted((plug for each in parts for plug in each.plugs), key=lambda each: each.name)),
        tc=tuple(item for each in parts for item in each.tc),
        failover=Failover(namespace.name, ha, namespace.ports, addresses, routes) if ha is not None else None,
        rendered_from=namespace,
    )


def render_failover(
    router: Router, options: L3Options, objects: Objects | None = None, extensions: Iterable[L3Extension] = ()
) -> Failover | None:
    """What keepalived sets for a router on the active host; None for a router without HA."""
    if router.ha is None:
        return None
    extensions = tuple(extensions)
    rendered = (render(each, extensions) for each in router_namespaces(router, options, objects) if each.router.ha)
    return next((each.failover for each in rendered), None)


def _contribution(extension: L3Extension, namespace: RouterNamespace) -> Contribution:
    try:
        return extension.render(namespace)
    except Exception as error:  # third-party code: whatever it raises is a problem of this router alone
        raise RenderError(f"extension {extension.name}: {error}") from error


def _tables(where: str, parts: Iterable[Table]) -> tuple[Table, ...]:
    """One table for each family; chains of one name have their rules joined."""
    by_family: dict[str, Table] = {}
    for part in parts:
        there = by_family.setdefault(part.family, Table(family=part.family))
        chains = {each.name: each for each in there.chains}
        for chain in part.chains:
            known = chains.get(chain.name, Chain(chain.name, hook=chain.hook))
            if known.hook != chain.hook:
                raise RenderError(f"{where}: two extensions contribute chain {chain.name} with different hooks")
            chains[chain.name] = Chain(chain.name, known.rules + chain.rules, chain.hook)
        # Joining sets would hide that one extension's elements end up in the other's rules.
        sets = (*there.sets, *part.sets)
        if len({each.name for each in sets}) != len(sets):
            raise RenderError(f"{where}: two extensions contribute one set: {[each.name for each in sets]}")
        by_family[part.family] = Table(
            tuple(chains.values()), sets, (*there.declarations, *part.declarations), part.family
        )
    return tuple(by_family.values())
