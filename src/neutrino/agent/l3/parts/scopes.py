"""Address scopes: which packets a router may forward between its devices, by one IP version. Pure.

Addresses are unique within a scope and may repeat between scopes, so what is forwarded unchanged has to stay within one. A
network without a scope counts as one of a scope that all such networks share. A device is of the scope of its network,
whatever the source of a packet says.

    from        to          forwarded
    internal    internal    within one scope; and what is sent to a floating IP or a forwarded port
    internal    outside     within one scope; by IPv4 also what gets another source there: all, where the router has
                            SNAT, else those with a floating IP
    outside     internal    within one scope; and answers and connections to what is translated

By IPv6 nothing is translated, so a network reaches the outside only if both have the same scope, or neither has one, or if
its prefix was delegated from outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.model.routing import Router, RouterInterface

Scope = str | None  # the scope's id, or None where there is none


def render_scopes(router: Router, inside: Mapping[str, RouterInterface], version: int, *, snat: bool) -> Iterator[str]:
    """Rules for packets that are forwarded. `inside`: the internal devices; `snat`: every source gets another outside."""
    rules = [*_between(inside, version), *_outside(router, inside, version, snat)]
    if rules:
        yield "ct status & dnat != 0 accept"
    yield from rules


def in_scope_of_outside(router: Router, inside: Mapping[str, RouterInterface]) -> str:
    """The devices whose IPv4 sources keep their address outside, as an nft set; empty if there are none."""
    scope = _scope(router.gateway, 4) if router.gateway is not None else None
    return _names(name for name, each in _scopes(inside, 4).items() if each == scope) if scope else ""


def _between(inside: Mapping[str, RouterInterface], version: int) -> Iterator[str]:
    scopes = _scopes(inside, version)
    devices: defaultdict[Scope, list[str]] = defaultdict(list)
    for name, scope in scopes.items():
        devices[scope].append(name)
    for scope in sorted(devices, key=str) if len(devices) > 1 else ():
        others = (name for name, other in scopes.items() if other != scope)
        yield f"iifname {_names(devices[scope])} oifname {_names(others)} drop"


def _outside(router: Router, inside: Mapping[str, RouterInterface], version: int, snat: bool) -> Iterator[str]:
    gateway = router.gateway
    if gateway is None or not any(each.version == version for each in gateway.addresses):
        return
    outside, scope = device(EXTERNAL, gateway.id), _scope(gateway, version)
    delegated = frozenset(each.subnet_id for each in router.delegations)
    others = _names(
        name
        for name, other in _scopes(inside, version).items()
        if other != scope and not delegated & {each.subnet_id for each in inside[name].addresses}
    )
    if not others:
        return
    outward, inward = f'iifname {others} oifname "{outside}"', f'iifname "{outside}" oifname {others}'
    if version == 4:
        # The kernel translates nothing that is of no connection.
        yield f"{outward} {'ct state invalid' if snat else 'ip saddr != @fixed_to_floating'} drop"
        yield f"{inward} ct status & snat != 0 accept"
    else:
        yield f"{outward} drop"
    yield f"{inward} drop"


def _scopes(inside: Mapping[str, RouterInterface], version: int) -> dict[str, Scope]:
    """Of the devices that have this version at all."""
    return {
        name: _scope(interface, version)
        for name, interface in sorted(inside.items())
        if any(each.version == version for each in interface.addresses)
    }


def _scope(interface: RouterInterface, version: int) -> Scope:
    """All subnets of a network and version have the same."""
    return next((each.address_scope_id for each in interface.addresses if each.version == version), None)


def _names(devices: Iterable[str]) -> str:
    quoted = [f'"{name}"' for name in devices]
    return f"{{ {', '.join(quoted)} }}" if quoted else ""
