"""One namespace in memory, with what its kernel does by itself as far as plans depend on it.

Addresses bring routes, a device that goes down loses its routes, the last IPv4 address of a device takes its routes and
neighbours along, the first of a subnet takes the others along unless `promote_secondaries` is set, and a gateway that no
address reaches is refused. What the kernel makes itself (loopback and link-local addresses, routes of subnets) is worked
out when read.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterable, Iterator

from neutrino.dataplane.netlink.api import Item, NetlinkError
from neutrino.dataplane.netlink.values import (
    MAIN_TABLE,
    Address,
    Device,
    NamespaceState,
    Neighbour,
    ProxyNeighbour,
    Route,
    Rule,
    address,
    route,
)
from neutrino.model.addresses import link_local

KERNEL = 2
"""The protocol number of routes that the kernel adds with an address."""

_SETTINGS = (
    "net/ipv4/(ip_forward|ip_nonlocal_bind)",
    "net/ipv[46]/fib_multipath_hash_policy",
    "net/netfilter/nf_conntrack_[a-z_]+",
    "net/bridge/bridge-nf-call-(arp|ip|ip6)tables",
    "net/ipv4/neigh/(?P<neigh>[^/]+)/(gc_stale_time|base_reachable_time_ms|proxy_delay)",
    "net/ipv4/conf/(?P<ipv4>[^/]+)/(forwarding|rp_filter|promote_secondaries|proxy_arp|proxy_arp_pvlan"
    "|arp_ignore|arp_announce|arp_accept|arp_notify|send_redirects|accept_redirects|accept_source_route)",
    "net/ipv6/conf/(?P<ipv6>[^/]+)/(forwarding|accept_ra|accept_dad|disable_ipv6|autoconf|proxy_ndp"
    "|ndisc_notify|keep_addr_on_down|addr_gen_mode)",
)
_SETTING = re.compile("|".join(_SETTINGS))


def _kernel_rules() -> set[Rule]:
    tables = {(0, 4): 255, (32766, 4): MAIN_TABLE, (32767, 4): 253, (0, 6): 255, (32766, 6): MAIN_TABLE}
    return {Rule(priority, version, table=table, protocol=KERNEL) for (priority, version), table in tables.items()}


@dataclasses.dataclass(eq=False)
class FakeDevice:
    name: str
    stack: FakeStack
    kind: str = ""
    mac: str = ""
    mtu: int = 1500
    up: bool = False
    alias: str = ""
    tx_checksum: bool = True
    index: int = 0
    peer: FakeDevice | None = None

    @property
    def carrier(self) -> bool:
        return self.up and (self.peer is None or self.peer.up)

    def value(self) -> Device:
        return Device(
            name=self.name,
            kind=self.kind,
            mac=self.mac,
            mtu=self.mtu,
            up=self.up,
            carrier=self.carrier,
            peer=self.peer.name if self.peer else "",
            peer_namespace=self.peer.stack.name if self.peer else None,
            alias=self.alias,
            tx_checksum=self.tx_checksum,
            index=self.index,
        )


class FakeStack:
    def __init__(self, name: str) -> None:
        self.name = name
        self.devices: dict[str, FakeDevice] = {}
        self.addresses: list[Address] = []  # in the order in which they came: the first of a subnet is its primary one
        self.routes: dict[tuple[int, str, int], Route] = {}
        self.rules: set[Rule] = _kernel_rules()
        self.neighbours: dict[tuple[str, str], Neighbour] = {}
        self.proxies: set[ProxyNeighbour] = set()
        self.sysctls: dict[str, str] = {}
        self.add(FakeDevice("lo", self, mac="00:00:00:00:00:00", mtu=65536))

    def state(self, sysctls: Iterable[str]) -> NamespaceState:
        return NamespaceState(
            devices={device.name: device.value() for device in self.devices.values()},
            addresses=frozenset([*self.addresses, *self._kernel_addresses()]),
            routes=frozenset([*self.routes.values(), *self._kernel_routes()]),
            rules=frozenset(self.rules),
            neighbours=frozenset(self.neighbours.values()),
            proxies=frozenset(self.proxies),
            sysctls={name: self.sysctls.get(name, "0") for name in sysctls if self._has_setting(name)},
        )

    def get(self, name: str) -> FakeDevice:
        if name not in self.devices:
            raise NetlinkError(f"there is no device {name}")
        return self.devices[name]

    # --- devices ---

    def add(self, device: FakeDevice) -> None:
        if device.name in self.devices:
            raise NetlinkError(f"{device.name}: File exists")
        if not 0 < len(device.name) < 16 or "/" in device.name:
            raise NetlinkError(f"{device.name}: Numerical result out of range")
        device.index = max((each.index for each in self.devices.values()), default=0) + 1
        device.stack = self
        self.devices[device.name] = device

    def remove(self, device: FakeDevice) -> None:
        """With what is on it; a rule that names it stays, as in the kernel."""
        self.set_down(device)
        self.addresses = [each for each in self.addresses if each.device != device.name]
        del self.devices[device.name]
        self.sysctls = {name: value for name, value in self.sysctls.items() if f"/{device.name}/" not in name}

    def set_down(self, device: FakeDevice) -> None:
        device.up = False
        self._drop_routes(device.name)
        self.addresses = [each for each in self.addresses if each.device != device.name or each.version == 4]
        self.neighbours = {key: each for key, each in self.neighbours.items() if each.device != device.name}
        self.proxies = {each for each in self.proxies if each.device != device.name}

    def _drop_routes(self, device: str, version: int | None = None) -> None:
        for key, each in list(self.routes.items()):
            if version not in (None, each.version):
                continue
            left = tuple(hop for hop in each.next_hops if hop.device != device)
            if each.device == device or (each.next_hops and not left):
                del self.routes[key]
            elif left != each.next_hops:
                self.routes[key] = dataclasses.replace(each, next_hops=left)

    # --- items ---

    def set_item(self, new: Item) -> None:
        match new:
            case Address():
                self._set_address(new)
            case Route():
                self._set_route(new)
            case Rule():
                self.rules.add(new)
            case Neighbour():
                self.get(new.device)
                self.neighbours[new.device, new.address] = new
            case ProxyNeighbour():
                self.get(new.device)
                self.proxies.add(new)

    def delete_item(self, old: Item) -> None:
        match old:
            case Address():
                self._delete_address(old)
            case Route():
                self._delete_route(old)
            case Rule():
                self.rules.discard(old)
            case Neighbour():
                self.neighbours.pop((old.device, old.address), None)
            case ProxyNeighbour():
                self.proxies.discard(old)

    # --- addresses ---

    def _set_address(self, new: Address) -> None:
        self.get(new.device)
        for position, each in enumerate(self.addresses):
            if (each.device, each.address) == (new.device, new.address):
                # The kernel changes everything but the scope of an address that is there.
                self.addresses[position] = dataclasses.replace(new, scope=each.scope)
                return
        self.addresses.append(new)

    def _delete_address(self, old: Address) -> None:
        gone = [each for each in self.addresses if (each.device, each.address) == (old.device, old.address)]
        if not gone:
            return
        subnet = [each for each in self.addresses if each.device == old.device and _network(each) == _network(old)]
        if old.version == 4 and subnet[0] == gone[0] and not self._promotes(old.device):
            gone = subnet
        self.addresses = [each for each in self.addresses if each not in gone]
        left = any(each.device == old.device and each.version == 4 for each in self.addresses)
        if old.version == 4 and not left:
            self._drop_routes(old.device, 4)
            gone_too = [key for key in self.neighbours if key[0] == old.device and ":" not in key[1]]
            self.neighbours = {key: each for key, each in self.neighbours.items() if key not in gone_too}

    def _promotes(self, device: str) -> bool:
        return "1" in (self.sysctls.get(f"net/ipv4/conf/{each}/promote_secondaries") for each in ("all", device))

    def _kernel_addresses(self) -> Iterator[Address]:
        for device in self.devices.values():
            if device.name == "lo" and device.up:
                yield _by_kernel(address("lo", "127.0.0.1/8", scope="host"))
                yield _by_kernel(address("lo", "::1/128"))
            elif device.carrier and self.sysctls.get(f"net/ipv6/conf/{device.name}/disable_ipv6") != "1":
                text = f"{link_local(device.mac)}/64"
                yield _by_kernel(address(device.name, text))

    # --- routes ---

    def _set_route(self, new: Route) -> None:
        if new.next_hops:
            for hop in new.next_hops:
                self._check_route(dataclasses.replace(new, device=hop.device, via=hop.via, onlink=hop.onlink))
            self.routes[new.key] = new
            return
        if not new.device and new.via:
            reached = (each.device for each in self._reaching() if _covers(each.destination, new.via))
            new = dataclasses.replace(new, device=next(reached, ""))
        self._check_route(new)
        self.routes[new.key] = new

    def _check_route(self, new: Route) -> None:
        if not new.device:
            raise NetlinkError("Network is unreachable")
        if not self.get(new.device).up:
            raise NetlinkError("Network is down")
        if new.via and not new.onlink and not self._reaches(new.device, new.via):
            raise NetlinkError("Nexthop has invalid gateway")
        if new.source and not any(_ip(each) == new.source for each in self.addresses):
            raise NetlinkError("Invalid prefsrc address")

    def _delete_route(self, old: Route) -> None:
        there = self.routes.get(old.key)
        if there is not None and there.via == old.via and old.device in ("", there.device):
            del self.routes[old.key]

    def _reaches(self, device: str, via: str) -> bool:
        if ipaddress.ip_address(via).is_link_local:
            return True
        return any(each.device == device and _covers(each.destination, via) for each in self._reaching())

    def _reaching(self) -> Iterator[Route]:
        """What is on a link: routes of subnets, and those without a gateway."""
        yield from self._kernel_routes()
        yield from (each for each in self.routes.values() if not each.via and not each.next_hops)

    def _kernel_routes(self) -> Iterator[Route]:
        made = set()
        for each in [*self.addresses, *self._kernel_addresses()]:
            network, device = _network(each), self.get(each.device)
            alone = each.version == 4 and network.prefixlen == 32
            if not device.up or device.name == "lo" or alone or (each.device, network) in made:
                continue
            made.add((each.device, network))
            source, metric = (_ip(each), 0) if each.version == 4 else ("", 256)
            yield route(str(network), each.device, source=source, metric=metric, protocol=KERNEL)

    # --- settings ---

    def set_sysctl(self, name: str, value: str) -> None:
        if not self._has_setting(name):
            raise NetlinkError("No such file or directory")
        self.sysctls[name] = value

    def _has_setting(self, name: str) -> bool:
        found = _SETTING.fullmatch(name)
        if found is None:
            return False
        named = [each for each in found.groupdict().values() if each is not None]
        return all(each in ("all", "default") or each in self.devices for each in named)


def _by_kernel(each: Address) -> Address:
    return dataclasses.replace(each, by_kernel=True)


def _network(each: Address) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_interface(each.address).network


def _ip(each: Address) -> str:
    return each.address.partition("/")[0]


def _covers(prefix: str, ip: str) -> bool:
    return ipaddress.ip_address(ip) in ipaddress.ip_network(prefix)
