"""dnsmasq's file of options: what clients are told besides their address. Pure.

Options of a subnet have its tag, options of a port the port's; dnsmasq prefers the port's. Options of the network are
written for each of its subnets, in the place of what would follow from the subnet itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from neutrino.agent.dhcp.entries import first_line, other_options
from neutrino.agent.dhcp.hosts_files import port_tag, subnet_tag
from neutrino.agent.dhcp.lines import Line, render_lines
from neutrino.agent.dhcp.served import SLAAC, Served
from neutrino.agent.dhcp.settings import Settings
from neutrino.model.dhcp import OWNER, DhcpOption
from neutrino.model.state import Subnet

ANYWHERE: Final = "0.0.0.0/0"
METADATA: Final = "169.254.169.254/32"
MOST_ROUTE_BYTES: Final = 160  # of the 308 that options have in the smallest answer that every client takes (RFC 2131)
MICROSOFT_ROUTES: Final = "249"  # what Windows asks for in place of 121
NO_SERVERS: Final = {4: "0.0.0.0", 6: "::"}  # as the only name server: tell of none  # noqa: S104 nothing listens there
NUMBERS: Final = {  # of the options that subnets give by themselves
    4: {"router": "3", "dns-server": "6", "classless-static-route": "121"},
    6: {"dns-server": "23", "domain-search": "24"},
}
_TAGGED = re.compile(r"(?P<tags>(?:tag:[^,]*,)*)(?P<option>.*)")


@dataclass(frozen=True)
class _Option:
    name: str
    values: tuple[str, ...] = ()  # none: the option is not sent


def render_opts(this: Served, settings: Settings) -> str:
    return render_lines(opts_lines(this, settings))


def opts_lines(this: Served, settings: Settings) -> list[Line]:
    return [*_subnet_lines(this, settings), *_port_lines(this)]


def _subnet_lines(this: Served, settings: Settings) -> Iterator[Line]:
    for subnet in this.dhcp_subnets:
        if subnet.ip_version == 6 and subnet.ipv6_address_mode == SLAAC:
            continue
        own = [o for o in this.network.options if o.ip_version == subnet.ip_version]
        said = {_number(o.name, subnet.ip_version) for o in own if not o.name.startswith("tag:")}
        tag, owner = subnet_tag(subnet.id), f"subnet {subnet.id}"
        for option in _of_subnet(this, subnet, settings):
            if _number(option.name, subnet.ip_version) not in said:
                yield Line(render_option(subnet.ip_version, tag, option.name, *option.values), owner)
        for extra in own:
            yield Line(render_option(extra.ip_version, tag, extra.name, extra.value), owner)


def _of_subnet(this: Served, subnet: Subnet, settings: Settings) -> Iterator[_Option]:
    yield from _name_servers(this, subnet)
    if subnet.ip_version == 6:
        if settings.dns_domain:
            yield _Option("domain-search", (settings.dns_domain,))
        return
    gateway, routes = _routes(this, subnet, settings)
    if routes:
        with_default = [*routes, f"{ANYWHERE},{gateway}"] if gateway else routes
        yield _Option("classless-static-route", (",".join(with_default),))
        yield _Option(MICROSOFT_ROUTES, (",".join(with_default),))
    yield _Option("router", (gateway,) if gateway else ())


def _name_servers(this: Served, subnet: Subnet) -> Iterator[_Option]:
    """The subnet's; else those who serve DHCP there. One that serves alone tells of itself without being told to."""
    given: Sequence[str] = subnet.dns_nameservers
    if tuple(given) == (NO_SERVERS[subnet.ip_version],):
        yield _Option("dns-server")
        return
    if not given:
        servers = [
            fixed.ip_address
            for port in this.ports
            if port.device_owner == OWNER
            for fixed in port.fixed_ips
            if fixed.subnet_id == subnet.id
        ]
        given = servers if len(servers) > 1 else ()
    if given:
        literal = [f"[{address}]" for address in given] if subnet.ip_version == 6 else list(given)
        yield _Option("dns-server", (",".join(literal),))


def _routes(this: Served, subnet: Subnet, settings: Settings) -> tuple[str | None, list[str]]:
    """The gateway, and the routes besides it: neighbours on the same wire, those asked for, and that to metadata.

    dnsmasq refuses an option of more than 255 bytes whole, and leaves out one for which the answer has no room: of the
    neighbours, which the gateway reaches too, there are as many as fit into the smallest answer.
    """
    gateway = subnet.gateway_ip
    routes: list[str] = []
    for destination, nexthop in subnet.host_routes:
        if destination != ANYWHERE:
            routes.append(f"{destination},{nexthop}")
        elif gateway is None:
            gateway = nexthop
    metadata = _metadata_route(this, subnet, gateway, settings)
    if metadata is not None:
        routes.append(f"{METADATA},{metadata}")
    left = MOST_ROUTE_BYTES - sum(_route_bytes(each) for each in (*routes, *([f"{ANYWHERE},"] if gateway else [])))
    on_link: list[str] = []
    for neighbour in this.network.subnets:
        route = f"{neighbour.cidr},0.0.0.0"
        if neighbour.ip_version == 4 and neighbour.id != subnet.id and (left := left - _route_bytes(route)) >= 0:
            on_link.append(route)
    return gateway, [*on_link, *routes]


def _route_bytes(route: str) -> int:
    """In the option: the prefix length, as much of the destination as it covers, and the next hop (RFC 3442)."""
    prefix_length = int(route.partition(",")[0].partition("/")[2])
    return 1 + (prefix_length + 7) // 8 + 4


def _metadata_route(this: Served, subnet: Subnet, gateway: str | None, settings: Settings) -> str | None:
    isolated = subnet.id not in this.routed
    if settings.force_metadata or (isolated and settings.enable_isolated_metadata):
        return this.own_address(subnet.id)
    return None if isolated else gateway


def _port_lines(this: Served) -> Iterator[Line]:
    for port in this.ports:
        extra = other_options(port)
        versions = {6 if ":" in fixed.ip_address else 4 for fixed in port.fixed_ips} if extra else set[int]()
        for option in extra:
            if option.ip_version in versions:
                yield Line(_render_extra(port.id, option), f"port {port.id}")


def _render_extra(port_id: str, option: DhcpOption) -> str:
    return render_option(option.ip_version, port_tag(port_id), option.name, option.value)


def render_option(ip_version: int, tag: str, name: str, *values: str) -> str:
    """One line. A name may bring tags of its own, as in `tag:ipxe,bootfile-name`."""
    parts = _TAGGED.fullmatch(first_line(name))
    assert parts is not None, "any text matches"
    option = parts["option"]
    if ip_version == 6:
        option = f"option6:{option}"
    elif not (option.isascii() and option.isdigit()):
        option = f"option:{option}"
    more = [text for text in parts["tags"].split(",") if text]
    return ",".join([f"tag:{tag}", *more, option, *(first_line(value) for value in values)])


def _number(name: str, ip_version: int) -> str:
    return NUMBERS[ip_version].get(name, name)
