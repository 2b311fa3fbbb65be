"""A router's namespace as it should be, many others like it, and making one so: for the fake and for the kernel."""

from __future__ import annotations

import dataclasses
import random

from neutrino.agent.runtime.namespaces import (
    DesiredDevice,
    DesiredNamespace,
    NamespacePlan,
    plan_namespace,
    sysctls_to_read,
)
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import NextHop, address, multipath_route, neighbour, route, rule

RP_FILTER = "net/ipv4/conf/qr-1/rp_filter"

ROUTER = DesiredNamespace(
    name="qrouter-1",
    devices=(
        DesiredDevice("lo"),
        DesiredDevice("qr-1", "tap-1", mac="fa:16:3e:00:00:01", mtu=1450, alias="port 1", tx_checksum=False),
        DesiredDevice("qg-1", "tap-2", mac="fa:16:3e:00:00:02", mtu=1500),
    ),
    addresses=frozenset(
        {
            address("qr-1", "10.0.0.1/24"),
            address("qr-1", "2001:db8::1/64", nodad=True),
            address("qg-1", "203.0.113.9/24"),
            address("qg-1", "203.0.113.10/32"),
        }
    ),
    routes=frozenset(
        {
            route("0.0.0.0/0", "qg-1", "203.0.113.1"),
            route("192.0.2.0/24", "qr-1", "10.0.0.77"),
            route("0.0.0.0/0", "qg-1", "203.0.113.1", table=16),
        }
    ),
    rules=frozenset({rule(100, source="10.0.0.5/32", table=16)}),
    neighbours=frozenset({neighbour("qr-1", "10.0.0.5", "fa:16:3e:00:00:05")}),
    sysctls={"net/ipv4/ip_forward": "1", RP_FILTER: "1", "net/ipv6/conf/all/forwarding": "1"},
    device_prefixes=("qr-", "qg-"),
)


def settle(netlink: Netlink, desired: DesiredNamespace) -> NamespacePlan:
    """Make it so; doing it again must change nothing."""
    plan = plan_namespace(desired, netlink.read(desired.name, sysctls_to_read(desired)))
    netlink.apply(desired.name, plan.changes)
    again = plan_namespace(desired, netlink.read(desired.name, sysctls_to_read(desired)))
    assert again.changes == (), again.text()
    return plan


def random_router(choose: random.Random) -> DesiredNamespace:
    """One of many: two devices that may be there, with addresses of two subnets, and routes that they allow."""
    devices = [DesiredDevice("lo"), *(each for each in ROUTER.devices[1:] if choose.random() < 0.8)]
    addresses, routes = set(), set()
    for number, device in enumerate(devices[1:]):
        for host in choose.sample(range(1, 6), choose.randint(0, 4)):
            addresses.add(address(device.name, f"10.{number}.{host % 2}.{host}/24"))
            if choose.random() < 0.5:
                addresses.add(address(device.name, f"2001:db8:{number}::{host}/64", nodad=True))
        on_device = [each for each in addresses if each.device == device.name and each.version == 4]
        for net in sorted({each.address.split(".")[2] for each in on_device}):
            for target in range(3):
                if choose.random() < 0.5:
                    via = f"10.{number}.{net}.{choose.randint(100, 102)}"
                    routes.add(route(f"192.0.{target}.0/24", device.name, via, table=choose.choice([254, 16])))
    hops = {each.device: NextHop(each.device, each.via) for each in sorted(routes)}
    if len(hops) > 1 and choose.random() < 0.7:
        routes.add(multipath_route("198.51.100.0/24", hops.values()))
    unique = {each.key: each for each in routes}
    return dataclasses.replace(
        ROUTER,
        devices=tuple(devices),
        addresses=frozenset(addresses),
        routes=frozenset(unique.values()),
        rules=frozenset(rule(number, table=number) for number in choose.sample(range(10, 15), 2)),
        neighbours=frozenset(
            neighbour(
                devices[-1].name,
                choose.choice(["10.0.0.", "2001:db8::"]) + str(number),
                f"fa:16:3e:00:01:{choose.randint(10, 12)}",
            )
            for number in choose.sample(range(10, 15), 2)
            if len(devices) > 1
        ),
    )
