"""Router advertisements: the configuration of radvd for the IPv6 subnets that asked for them."""

from __future__ import annotations

from collections.abc import Iterator

from neutrino.agent.l3.names import INTERNAL, device
from neutrino.agent.l3.options import L3Options
from neutrino.model.routing import Router, RouterAddress, RouterInterface

SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"
_MOST_SERVERS = 3  # that radvd takes in one advertisement
_MISSED = 3  # advertisements, until a delegated prefix is preferred no longer


def render_radvd(router: Router, options: L3Options) -> str:
    """Empty where no subnet wants any."""
    delegated = frozenset(each.subnet_id for each in router.delegations)
    blocks = [
        _interface(interface, announced, options, delegated)
        for interface in sorted(router.interfaces, key=lambda each: each.id)
        if interface.admin_state_up and (announced := _announced(interface))
    ]
    return "\n".join(blocks)


def _announced(interface: RouterInterface) -> list[RouterAddress]:
    return [each for each in interface.addresses if each.version == 6 and each.ra_mode]


def _interface(
    interface: RouterInterface, announced: list[RouterAddress], options: L3Options, delegated: frozenset[str]
) -> str:
    modes = {each.ra_mode for each in announced}
    lines = [
        "AdvSendAdvert on;",
        f"MinRtrAdvInterval {options.min_rtr_adv_interval};",
        f"MaxRtrAdvInterval {options.max_rtr_adv_interval};",
        f"AdvLinkMTU {interface.mtu};",
    ]
    if STATEFUL in modes:
        lines.append("AdvManagedFlag on;")
    if STATELESS in modes or STATEFUL in modes:
        lines.append("AdvOtherConfigFlag on;")
    servers = list(dict.fromkeys(server for each in announced for server in each.dns_nameservers if ":" in server))
    if servers:
        lines.append(f"RDNSS {' '.join(servers[:_MOST_SERVERS])} {{}};")
    # A delegated prefix may be taken back: who hears of it no more soon prefers another.
    preferred = _MISSED * options.max_rtr_adv_interval
    lines += [line for each in announced for line in _prefix(each, preferred if each.subnet_id in delegated else None)]
    body = "\n".join(f"\t{line}" for line in lines)
    return f"interface {device(INTERNAL, interface.id)}\n{{\n{body}\n}};\n"


def _prefix(address: RouterAddress, preferred: int | None) -> Iterator[str]:
    """Addresses from the prefix are the instances' own choice, or the DHCP server's."""
    yield f"prefix {address.cidr}"
    yield "{"
    yield "\tAdvOnLink on;"
    yield f"\tAdvAutonomous {'off' if address.ra_mode == STATEFUL else 'on'};"
    if preferred is not None:
        yield f"\tAdvPreferredLifetime {preferred};"
    yield "};"
