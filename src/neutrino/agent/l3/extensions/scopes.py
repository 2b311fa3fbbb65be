"""Address scopes: which packets a router may forward between its devices, for each IP version. Pure.

Addresses are unique within a scope and may repeat between scopes, so what is forwarded untranslated must stay within
one. All networks without a scope count as one scope. A packet belongs to the scope of the device by which it came in,
whatever its source address.

    from        to          forwarded
    internal    internal    within one scope; and packets to a floating IP or a forwarded port
    internal    external    within one scope; with IPv4 also what is source-translated: all, where the router has SNAT,
                            else instances with a floating IP
    external    internal    within one scope; and replies, and connections to translated addresses

IPv6 is never translated: a network reaches the outside only if both have the same scope, or none, or if its prefix was
delegated from outside.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.devices import numbered
from neutrino.agent.l3.extension_api import FORWARD, Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.extensions.gateways import fixed_to_floating
from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.dataplane.nft.api import Table
from neutrino.model.routing import Router, RouterInterface

Scope = str | None  # the scope's id, or None where there is none


class AddressScopes(L3Extension):
    name = "address scopes"

    def render(self, namespace: RouterNamespace) -> Contribution:
        tables = ((family, _rules(namespace, version)) for version, family in ((4, "ip"), (6, "ip6")))
        return Contribution(
            tables=tuple(Table(family=family, chains=(FORWARD.chain(rules),)) for family, rules in tables if rules)
        )


def _rules(namespace: RouterNamespace, version: int) -> list[str]:
    router, inside = namespace.router, namespace.inside
    rules = [*_between(inside, version)]
    for number, gateway in numbered(router).items():
        rules += _outside(router, number, gateway, inside, version)
    # Packets to a floating IP or a forwarded port, and their replies, may cross scopes: they are translated.
    return ["ct status & dnat != 0 accept", *rules] if rules else []


def snat_address(router: Router) -> str | None:
    """The external address that sources without a floating IP are translated to; None where they are not."""
    return snat_address_of(router, router.gateway)


def snat_address_of(router: Router, gateway: RouterInterface | None) -> str | None:
    addresses = gateway.addresses if gateway is not None and router.enable_snat else ()
    return next((address.ip_address for address in addresses if address.version == 4), None)


def in_scope_of_outside(router: Router, inside: Mapping[str, RouterInterface]) -> str:
    """The devices in the external network's scope, whose IPv4 sources stay untranslated, as an nft set, or empty."""
    scope = scope_of_outside(router.gateway)
    return _names(name for name, each in _scopes(inside, 4).items() if each == scope) if scope else ""


def scope_of_outside(gateway: RouterInterface | None) -> Scope:
    return _scope(gateway, 4) if gateway is not None else None


def _between(inside: Mapping[str, RouterInterface], version: int) -> Iterator[str]:
    scopes = _scopes(inside, version)
    devices: defaultdict[Scope, list[str]] = defaultdict(list)
    for name, scope in scopes.items():
        devices[scope].append(name)
    for scope in sorted(devices, key=str) if len(devices) > 1 else ():
        others = (name for name, other in scopes.items() if other != scope)
        yield f"iifname {_names(devices[scope])} oifname {_names(others)} drop"


def _outside(
    router: Router, number: int, gateway: RouterInterface, inside: Mapping[str, RouterInterface], version: int
) -> Iterator[str]:
    if not any(address.version == version for address in gateway.addresses):
        return
    outside, scope = device(EXTERNAL, gateway.id), _scope(gateway, version)
    # A delegated prefix is routed to this router from outside, whatever scope its network is in.
    delegated = frozenset(delegation.subnet_id for delegation in router.delegations)
    others = _names(
        name
        for name, other in _scopes(inside, version).items()
        if other != scope and not delegated & {address.subnet_id for address in inside[name].addresses}
    )
    if not others:
        return
    outward, inward = f'iifname {others} oifname "{outside}"', f'iifname "{outside}" oifname {others}'
    if version == 4:
        # With SNAT all is translated except packets of no connection, which would leave with their internal source.
        untranslated = "ct state invalid"
        if snat_address_of(router, gateway) is None:
            untranslated = f"ip saddr != @{fixed_to_floating(number)}"
        yield f"{outward} {untranslated} drop"
        yield f"{inward} ct status & snat != 0 accept"  # replies to what was translated
    else:
        yield f"{outward} drop"
    yield f"{inward} drop"


def _scopes(inside: Mapping[str, RouterInterface], version: int) -> dict[str, Scope]:
    """The scope of each device that has addresses of this version."""
    return {
        name: _scope(interface, version)
        for name, interface in sorted(inside.items())
        if any(address.version == version for address in interface.addresses)
    }


def _scope(interface: RouterInterface, version: int) -> Scope:
    """All subnets of a network and IP version have the same scope."""
    return next((address.address_scope_id for address in interface.addresses if address.version == version), None)


def _names(devices: Iterable[str]) -> str:
    quoted = [f'"{name}"' for name in devices]
    return f"{{ {', '.join(quoted)} }}" if quoted else ""
