"""radvd's configuration for the IPv6 subnets of a router. Pure."""

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import INTERNAL, device
from neutrino.model.routing import Router, RouterAddress, RouterInterface

SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"
_MOST_SERVERS = 3  # that radvd takes in one advertisement
_MISSED = 3  # advertisements after which a delegated prefix is deprecated


def render_radvd(router: Router, options: L3Options) -> str:
    """radvd's configuration; empty where no subnet is advertised."""
    delegated = frozenset(delegation.subnet_id for delegation in router.delegations)
    blocks = [
        _interface(interface, advertised, options, delegated)
        for interface in sorted(router.interfaces, key=lambda each: each.id)
        if interface.admin_state_up and (advertised := _advertised(interface))
    ]
    return "\n".join(blocks)


def _advertised(interface: RouterInterface) -> list[RouterAddress]:
    return [address for address in interface.addresses if address.version == 6 and address.ra_mode]


def _interface(
    interface: RouterInterface, advertised: list[RouterAddress], options: L3Options, delegated: frozenset[str]
) -> str:
    modes = {each.ra_mode for each in advertised}
    lines = [
        "AdvSendAdvert on;",
        f"MinRtrAdvInterval {options.min_rtr_adv_interval};",
        f"MaxRtrAdvInterval {options.max_rtr_adv_interval};",
        f"AdvLinkMTU {interface.mtu};",  # clients of SLAAC get the MTU by it, as others by DHCP
    ]
    if STATEFUL in modes:
        lines.append("AdvManagedFlag on;")
    if STATELESS in modes or STATEFUL in modes:
        lines.append("AdvOtherConfigFlag on;")
    servers = list(dict.fromkeys(server for each in advertised for server in each.dns_nameservers if ":" in server))
    if servers:
        lines.append(f"RDNSS {' '.join(servers[:_MOST_SERVERS])} {{}};")
    for each in advertised:
        # Instances form their own addresses from the prefix, unless the mode is dhcpv6-stateful.
        prefix = ["AdvOnLink on;", f"AdvAutonomous {'off' if each.ra_mode == STATEFUL else 'on'};"]
        # A delegated prefix may be withdrawn: instances that no longer receive it soon prefer another.
        if each.subnet_id in delegated:
            prefix.append(f"AdvPreferredLifetime {_MISSED * options.max_rtr_adv_interval};")
        lines += _block(f"prefix {each.cidr}", prefix)
    return "\n".join(_block(f"interface {device(INTERNAL, interface.id)}", lines)) + "\n"


def _block(name: str, lines: list[str]) -> list[str]:
    return [name, "{", *(f"\t{line}" for line in lines), "};"]
