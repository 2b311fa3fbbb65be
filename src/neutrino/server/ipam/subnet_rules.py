"""Checks and defaults of a subnet's prefix, gateway, allocation pools, IPv6 modes and lists. Pure."""

import ipaddress
from collections.abc import Mapping, Sequence
from itertools import pairwise

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.errors import InvalidInput

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Pool = tuple[Address, Address]

SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"
# With DHCP on, a subnet needs room for its gateway, the DHCP server and a client.
LONGEST_WITH_DHCP = {4: 30, 6: 126}


def is_auto_address(subnet: Values) -> bool:
    """Whether guests form their addresses from the prefix and their MAC (SLAAC)."""
    return subnet["ip_version"] == 6 and (subnet["ipv6_address_mode"] or subnet["ipv6_ra_mode"]) in (SLAAC, STATELESS)


def check_prefix(cidr: str, ip_version: int, enable_dhcp: bool) -> Network:
    network = ipaddress.ip_network(cidr)
    if network.version != ip_version:
        raise InvalidInput(f"Invalid input for cidr: {cidr} is not an IPv{ip_version} prefix.")
    if network.prefixlen == 0:
        raise InvalidInput(f"Invalid input for cidr: {cidr} has a prefix length of 0.")
    if network.is_multicast:
        raise InvalidInput(f"Invalid input for cidr: {cidr} is a multicast prefix.")
    if network.is_loopback:
        raise InvalidInput(f"Invalid input for cidr: {cidr} is a loopback prefix.")
    if enable_dhcp and network.prefixlen > LONGEST_WITH_DHCP[ip_version]:
        raise InvalidInput(f"Invalid input for cidr: {cidr} is too small for a subnet with DHCP.")
    return network


def check_ipv6_modes(subnet: Values) -> None:
    ra, address = subnet["ipv6_ra_mode"], subnet["ipv6_address_mode"]
    if ra is None and address is None:
        return
    if subnet["ip_version"] != 6:
        raise InvalidInput("ipv6_ra_mode and ipv6_address_mode are for IPv6 subnets alone.")
    if not subnet["enable_dhcp"]:
        raise InvalidInput("ipv6_ra_mode and ipv6_address_mode cannot be set when enable_dhcp is false.")
    if ra is not None and address is not None and ra != address:
        raise InvalidInput(f"ipv6_ra_mode {ra} and ipv6_address_mode {address} contradict each other.")
    if is_auto_address(subnet) and ipaddress.ip_network(subnet["cidr"]).prefixlen != 64:
        raise InvalidInput(
            f"Invalid input for cidr: {subnet['cidr']} is no /64, which SLAAC and stateless DHCPv6 need."
        )


def default_gateway(network: Network) -> str:
    """The first host address; for IPv6 the prefix itself, which is the routers' anycast address."""
    if network.version == 6 or network.prefixlen >= 31:
        return str(network.network_address)
    return str(network.network_address + 1)


def check_gateway(gateway: str, network: Network) -> None:
    address = ipaddress.ip_address(gateway)
    if address.version != network.version:
        raise InvalidInput(f"Invalid input for gateway_ip: {gateway} is not an IPv{network.version} address.")
    if address not in network:  # allowed: a router of another network may be on the link
        return
    ends = (network.network_address, network.broadcast_address)
    if network.version == 4 and network.prefixlen < 31 and address in ends:
        raise InvalidInput(f"Invalid input for gateway_ip: {gateway} is the network's or the broadcast address.")


def usable(network: Network) -> Pool:
    """The first and last address that a host may have."""
    first, last = network.network_address, network.broadcast_address
    if network.version == 4 and network.prefixlen < 31:
        return first + 1, last - 1
    if network.version == 6 and network.prefixlen < 127:
        return first + 1, last
    return first, last


def default_pools(network: Network, gateway: str | None) -> list[dict[str, str]]:
    """All usable addresses but the gateway's."""
    first, last = usable(network)
    gate = ipaddress.ip_address(gateway) if gateway else None
    if gate is None or gate not in network or not first <= gate <= last:  # type: ignore[operator]
        return _shown([(first, last)])
    pools = []
    if first < gate:  # type: ignore[operator]
        pools.append((first, gate - 1))
    if gate < last:  # type: ignore[operator]
        pools.append((gate + 1, last))
    return _shown(pools)


def _shown(pools: Sequence[Pool]) -> list[dict[str, str]]:
    return [{"start": str(start), "end": str(end)} for start, end in pools]


def parse_pools(pools: Sequence[Mapping[str, str]]) -> list[Pool]:
    return [(ipaddress.ip_address(p["start"]), ipaddress.ip_address(p["end"])) for p in pools]


def check_pools(pools: Sequence[Mapping[str, str]], network: Network) -> None:
    first, last = usable(network)
    parsed = parse_pools(pools)
    for start, end in parsed:
        text = f"{start}-{end}"
        if start.version != network.version or end.version != network.version:
            raise errors.InvalidAllocationPool(pool=text)
        if end < start:  # type: ignore[operator]
            raise errors.InvalidAllocationPool(pool=text)
        if start < first or end > last:  # type: ignore[operator]
            raise errors.OutOfBoundsAllocationPool(pool=text, cidr=network)
    # Sorted by start, overlapping pools are adjacent: comparing all pairs would take quadratic time.
    ordered = sorted(parsed, key=lambda pool: int(pool[0]))
    for (start, end), (next_start, next_end) in pairwise(ordered):
        if next_start <= end:  # type: ignore[operator]
            raise errors.OverlappingAllocationPools(
                pool_1=f"{start}-{end}", pool_2=f"{next_start}-{next_end}", cidr=network
            )


def check_gateway_outside_pools(gateway: str | None, pools: Sequence[Mapping[str, str]]) -> None:
    if gateway is None:
        return
    address = ipaddress.ip_address(gateway)
    for start, end in parse_pools(pools):
        if start.version == address.version and start <= address <= end:  # type: ignore[operator]
            raise errors.GatewayConflictWithAllocationPools(gateway=gateway, pool=f"{start}-{end}")


def check_overlap(network: Network, others: Sequence[Values]) -> None:
    for other in others:
        theirs = ipaddress.ip_network(other["cidr"])
        if theirs.version == network.version and theirs.overlaps(network):
            raise InvalidInput(
                f"Invalid input for cidr: {network} overlaps with another subnet: {other['id']} ({theirs})."
            )


def check_lists(values: Values, ip_version: int, name: str, max_nameservers: int, max_routes: int) -> None:
    servers = values.get("dns_nameservers") or ()
    if len(servers) > max_nameservers:
        raise errors.DNSNameServersExhausted(subnet=name, quota=max_nameservers)
    for server in servers:
        if ipaddress.ip_address(server).version != ip_version:
            raise InvalidInput(f"Invalid input for dns_nameservers: {server} is not for an IPv{ip_version} subnet.")
    routes = values.get("host_routes") or ()
    if len(routes) > max_routes:
        raise errors.HostRoutesExhausted(subnet=name, quota=max_routes)
    for route in routes:
        versions = {ipaddress.ip_network(route["destination"]).version, ipaddress.ip_address(route["nexthop"]).version}
        if versions != {ip_version}:
            raise InvalidInput(
                f"Invalid input for host_routes: {route['destination']} is not for an IPv{ip_version} subnet."
            )


def eui64(cidr: str, mac: str) -> str:
    """The SLAAC address of this MAC on the prefix (modified EUI-64)."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    interface = bytes([*octets[:3], 0xFF, 0xFE, *octets[3:]])
    base = int(ipaddress.ip_network(cidr).network_address)
    return str(ipaddress.IPv6Address(base | int.from_bytes(interface, "big")))
