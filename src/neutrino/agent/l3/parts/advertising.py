"""Router advertisements: the configuration of radvd for the IPv6 subnets that asked for them."""

from __future__ import annotations

from collections.abc import Iterator

from neutrino.agent.l3.names import INTERNAL, device
from neutrino.agent.l3.options import L3Options
from neutrino.model.routing import Router, RouterAddress, RouterInterface

SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"
_MOST_SERVERS = 3  # that radvd takes in one advertisement


def render_radvd(router: Router, options: L3Options) -> str:
    """Empty where no subnet wants any."""
    blocks = [
        _interface(interface, announced, options)
        for interface in sorted(router.interfaces, key=lambda each: each.id)
        if interface.admin_state_up and (announced := _announced(interface))
    ]
    return "\n".join(blocks)


def _announced(interface: RouterInterface) -> list[RouterAddress]:
    return [each for each in interface.addresses if each.version == 6 and each.ra_mode]


def _interface(interface: RouterInterface, announced: list[RouterAddress], options: L3Options) -> str:
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
    lines += [line for each in announced for line in _prefix(each)]
    body = "\n".join(f"\t{line}" for line in lines)
    return f"interface {device(INTERNAL, interface.id)}\n{{\n{body}\n}};\n"


def _prefix(address: RouterAddress) -> Iterator[str]:
    """Addresses from the prefix are the instances' own choice, or the DHCP server's."""
    yield f"prefix {address.cidr}"
    yield "{"
    yield "\tAdvOnLink on;"
    yield f"\tAdvAutonomous {'off' if address.ra_mode == STATEFUL else 'on'};"
    yield "};"
