"""dnsmasq's files: `host` (which port gets which address), `addn_hosts` (names) and `opts` (DHCP options). Pure.

A dnsmasq resolves only names of leases that it gave itself; with several agents on a network each would know a part of
them. So all names are in `addn_hosts`, and `host` is about leases alone.

Options of a subnet carry its tag, options of a port the port's; dnsmasq prefers the port's. Options of the network are
rendered for each of its subnets, in place of the options that follow from the subnet itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from neutrino.agent.dhcp import client_ids
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.extension_api import SET_TAG, Contribution, Line, port_tag, subnet_tag
from neutrino.agent.dhcp.network import SLAAC, STATEFUL, STATELESS, ServedNetwork
from neutrino.model import dns_names
from neutrino.model.dhcp import OWNER, DhcpOption, DhcpPort, DnsName
from neutrino.model.dhcp_options import CLIENT_ID, number_of, split_tags
from neutrino.model.state import Subnet

# The service's own ports, which never request a lease and need no name.
UNNAMED_OWNERS: Final = frozenset(
    {"network:router_ha_interface", "network:floatingip", "network:dhcp", "network:distributed"}
)
ANYWHERE: Final = "0.0.0.0/0"
METADATA: Final = "169.254.169.254/32"
MAX_ROUTE_BYTES: Final = 160  # of the 308 bytes of options in the smallest reply that every client accepts (RFC 2131)
MICROSOFT_ROUTES: Final = "249"  # requested by Windows in place of 121
NO_SERVERS: Final = {4: "0.0.0.0", 6: "::"}  # as the only name server: advertise none  # noqa: S104 nothing listens there


# --- hosts and names --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One address of a port, or several of one subnet where dnsmasq can offer several."""

    port: DhcpPort
    subnet: Subnet | None
    addresses: tuple[str, ...]
    hostname: str
    fqdn: str

    @property
    def is_ipv6(self) -> bool:
        return self.subnet is not None and self.subnet.ip_version == 6

    @property
    def mode(self) -> str | None:
        return self.subnet.ipv6_address_mode if self.subnet is not None else None

    @property
    def has_lease(self) -> bool:
        """False where the subnet has no DHCP, or the instance forms the address itself (SLAAC, stateless)."""
        return self.subnet is not None and self.subnet.enable_dhcp and self.mode not in (SLAAC, STATELESS)


def contribute_hosts(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    ids = client_ids.client_ids(network.ports)
    hosts = ((_host_line(entry, ids.by_port), entry) for entry in entries(network, settings, merged=True))
    return Contribution(
        hosts=tuple(Line(text, f"port {entry.port.id}") for text, entry in hosts if text),
        # The full name is first: it is the answer to a reverse lookup.
        names=tuple(
            Line(f"{entry.addresses[0]}\t{entry.fqdn} {entry.hostname}", f"port {entry.port.id}")
            for entry in entries(network, settings)
        ),
        problems=ids.problems,
    )


def first_line(text: str) -> str:
    """User input must not add lines to a file."""
    lines = text.splitlines()
    return lines[0] if lines else ""


def other_options(port: DhcpPort) -> tuple[DhcpOption, ...]:
    """The port's options without the client id, which selects the lease and is not sent."""
    return tuple(option for option in port.options if option.name not in CLIENT_ID)


def entries(network: ServedNetwork, settings: DhcpSettings, *, merged: bool = False) -> Iterator[Entry]:
    """`merged`: addresses of a stateful subnet in one entry, with dnsmasq_enable_addr6_list."""
    owners = _owners_of_names(network)
    for port in network.ports:
        if port.device_owner in UNNAMED_OWNERS:
            continue
        names = {name.ip_address: name for name in port.names if _is_own_name(port, name, owners)}
        for subnet_id, addresses in _grouped(network, port, merged and settings.dnsmasq_enable_addr6_list):
            hostname, fqdn = _hostname_and_fqdn(names, addresses, settings.dns_domain)
            yield Entry(port, network.subnets.get(subnet_id), addresses, hostname, fqdn)


def _host_line(entry: Entry, ids: Mapping[str, str]) -> str:
    """`ids`: the client ids of the network, by port. Where there are any, lines without one come before those with one."""
    port = entry.port
    options = [f"{SET_TAG}{port_tag(port.id)}"] if other_options(port) else []
    if entry.mode == STATELESS and (options or ids):  # only to set the port's tag, by which its options are selected
        return ",".join([port.mac_address, client_ids.IPV6, *options])
    if not entry.has_lease:
        return ""  # the port has a name, but no lease
    selected: list[str] = []
    if entry.is_ipv6:  # a MAC has lines of both families
        selected = [client_ids.IPV6]
    elif ids:
        selected = [f"id:{ids[port.id]}"] if port.id in ids else [client_ids.BY_MAC]
    addresses = [f"[{address}]" if ":" in address else address for address in entry.addresses]
    return ",".join([port.mac_address, *selected, entry.fqdn, *addresses, *options])


def _grouped(network: ServedNetwork, port: DhcpPort, merged: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    # dnsmasq uses the last line that matches a MAC, whatever the family: lines without an address must be first.
    stateful: dict[str, list[str]] = {}
    for fixed in sorted(port.fixed_ips, key=lambda f: not _has_mode(network.subnets.get(f.subnet_id), STATELESS)):
        if merged and _has_mode(network.subnets.get(fixed.subnet_id), STATEFUL):
            stateful.setdefault(fixed.subnet_id, []).append(fixed.ip_address)
        else:
            yield fixed.subnet_id, (fixed.ip_address,)
    for subnet_id, addresses in stateful.items():
        yield subnet_id, tuple(addresses)


def _has_mode(subnet: Subnet | None, mode: str) -> bool:
    return subnet is not None and subnet.ip_version == 6 and subnet.ipv6_address_mode == mode


def _owners_of_names(network: ServedNetwork) -> Mapping[str, str]:
    """The project of each name. Ports are sorted by id, so that all hosts agree on it."""
    return dns_names.owners(
        (dns_names.first_label(name.hostname), port.project_id) for port in network.ports for name in port.names
    )


def _is_own_name(port: DhcpPort, name: DnsName, owners: Mapping[str, str]) -> bool:
    """Whether a name leads to the port: the server assigns none of another project, but may have done so formerly."""
    label = dns_names.first_label(name.hostname)
    addresses = [fixed.ip_address for fixed in port.fixed_ips]
    return owners[label] == port.project_id and not dns_names.is_of_another_address(label, addresses)


def _hostname_and_fqdn(known: Mapping[str, DnsName], addresses: tuple[str, ...], domain: str) -> tuple[str, str]:
    """The hostname and the FQDN, from the server or derived from the address.

    dnsmasq resolves these names for every instance on the network, of other projects too. A name outside the domain, which
    a database older than the server's check may hold, would spoof a foreign domain: its first label is put under ours.
    """
    named = next((known[address] for address in addresses if address in known), None)
    host = named.hostname.partition(".")[0] if named is not None else ""
    host = host or dns_names.address_name(addresses[0])
    fqdn = named.fqdn.rstrip(".") if named is not None else ""
    if domain and fqdn.startswith(f"{host}.") and fqdn.lower().endswith(f".{domain.lower()}"):
        return host, fqdn
    return host, f"{host}.{domain}" if domain else host


# --- options ----------------------------------------------------------------------------------------------------------


def contribute_options(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    return Contribution(options=(*_subnet_lines(network, settings), *_port_lines(network)))


def _subnet_lines(network: ServedNetwork, settings: DhcpSettings) -> Iterator[Line]:
    for subnet in network.dhcp_subnets:
        if subnet.ip_version == 6 and subnet.ipv6_address_mode == SLAAC:
            continue
        own = [o for o in network.network.options if o.ip_version == subnet.ip_version]
        # A network's option may have the number of ours in place of its name.
        replaced = {number_of(o.name, subnet.ip_version) for o in own}
        tag, owner = subnet_tag(subnet.id), f"subnet {subnet.id}"
        for name, *values in _of_subnet(network, subnet, settings):  # an option of the network takes the place of ours
            if number_of(name, subnet.ip_version) not in replaced:
                yield Line(render_option(subnet.ip_version, tag, name, *values), owner)
        for extra in own:
            yield _extra_line(tag, extra, owner)


def _of_subnet(network: ServedNetwork, subnet: Subnet, settings: DhcpSettings) -> Iterator[tuple[str, ...]]:
    """Options that follow from the subnet, as name and value. Without a value dnsmasq must not send the option."""
    yield from _name_servers(network, subnet)
    if subnet.ip_version == 6:
        if settings.dns_domain:
            yield "domain-search", settings.dns_domain
        return
    gateway, routes = _routes(network, subnet, settings)
    if routes:
        # A client that gets option 121 ignores option 3, so the default route is repeated (RFC 3442).
        with_default = [*routes, f"{ANYWHERE},{gateway}"] if gateway else routes
        yield "classless-static-route", ",".join(with_default)
        yield MICROSOFT_ROUTES, ",".join(with_default)
    # Without a value: dnsmasq would advertise itself as the router.
    yield ("router", gateway) if gateway else ("router",)


def _name_servers(network: ServedNetwork, subnet: Subnet) -> Iterator[tuple[str, ...]]:
    """The subnet's; else its DHCP servers. A single dnsmasq advertises itself by default."""
    given: Sequence[str] = subnet.dns_nameservers
    if tuple(given) == (NO_SERVERS[subnet.ip_version],):
        yield ("dns-server",)
        return
    if not given:
        servers = [
            fixed.ip_address
            for port in network.ports
            if port.device_owner == OWNER
            for fixed in port.fixed_ips
            if fixed.subnet_id == subnet.id
        ]
        given = servers if len(servers) > 1 else ()
    if given:
        literal = [f"[{address}]" for address in given] if subnet.ip_version == 6 else list(given)
        yield "dns-server", ",".join(literal)


def _routes(network: ServedNetwork, subnet: Subnet, settings: DhcpSettings) -> tuple[str | None, list[str]]:
    """The gateway, and the other routes: to subnets of the same network, host routes, and to metadata.

    dnsmasq refuses an option of more than 255 bytes, and omits one that does not fit into the reply. The gateway reaches
    the other subnets too, so as many of their routes are rendered as fit into the smallest reply.
    """
    gateway = subnet.gateway_ip
    routes: list[str] = []
    for destination, nexthop in subnet.host_routes:
        if destination != ANYWHERE:
            routes.append(f"{destination},{nexthop}")
        elif gateway is None:
            gateway = nexthop
    metadata = _metadata_route(network, subnet, gateway, settings)
    if metadata is not None:
        routes.append(f"{METADATA},{metadata}")
    left = MAX_ROUTE_BYTES - sum(_route_bytes(each) for each in (*routes, *([f"{ANYWHERE},"] if gateway else [])))
    on_link: list[str] = []
    for other in network.local_subnets:  # those of other segments are behind the gateway
        route = f"{other.cidr},0.0.0.0"
        if other.ip_version == 4 and other.id != subnet.id and (left := left - _route_bytes(route)) >= 0:
            on_link.append(route)
    return gateway, [*on_link, *routes]


def _route_bytes(route: str) -> int:
    """Size in the option: prefix length, significant octets of the destination, next hop (RFC 3442)."""
    prefix_length = int(route.partition(",")[0].partition("/")[2])
    return 1 + (prefix_length + 7) // 8 + 4


def _metadata_route(network: ServedNetwork, subnet: Subnet, gateway: str | None, settings: DhcpSettings) -> str | None:
    isolated = subnet.id not in network.routed
    if settings.force_metadata or (isolated and settings.enable_isolated_metadata):
        return network.own_address(subnet.id)
    return None if isolated else gateway


def _port_lines(network: ServedNetwork) -> Iterator[Line]:
    for port in network.ports:
        extra = other_options(port)
        versions = {6 if ":" in fixed.ip_address else 4 for fixed in port.fixed_ips} if extra else set[int]()
        for option in extra:
            if option.ip_version in versions:
                yield _extra_line(port_tag(port.id), option, f"port {port.id}")


def _extra_line(tag: str, option: DhcpOption, owner: str) -> Line:
    """A database may have options of before the server's check: dnsmasq must not get a name that it does not know."""
    name = split_tags(first_line(option.name))[1]
    family = "DHCPv6" if option.ip_version == 6 else "DHCP"
    refused = "" if number_of(name, option.ip_version) is not None else f"dnsmasq has no {family} option {name!r}"
    return Line(render_option(option.ip_version, tag, option.name, option.value), owner, refused)


def render_option(ip_version: int, tag: str, name: str, *values: str) -> str:
    """One line. The option's name may have tags of its own, as in `tag:ipxe,bootfile-name`."""
    tags, option = split_tags(first_line(name))
    if ip_version == 6:
        option = f"option6:{option}"
    elif not (option.isascii() and option.isdigit()):
        option = f"option:{option}"
    return ",".join([f"tag:{tag}", *tags, option, *(first_line(value) for value in values)])
