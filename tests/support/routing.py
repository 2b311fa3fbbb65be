"""Routers as values, for tests: a gateway at 203.0.113.5 and internal subnets 10.0.N.0/24."""

from __future__ import annotations

from collections.abc import Iterable

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import L3Extension, Objects, Position
from neutrino.agent.l3.router import DesiredRouterNamespace, render, router_namespaces
from neutrino.agent.l3.services.keepalived.render import Failover
from neutrino.dataplane.nft.api import Table
from neutrino.model.dhcp import DhcpPort
from neutrino.model.firewall import FirewallGroup
from neutrino.model.qos import QosPolicy
from neutrino.model.routing import FloatingIp, HaMembership, Router, RouterAddress, RouterInterface


def address(ip: str, cidr: str, gateway: str | None = None, **values: object) -> RouterAddress:
    return RouterAddress(ip_address=ip, subnet_id=f"subnet-{cidr}", cidr=cidr, gateway_ip=gateway, **values)  # type: ignore[arg-type]


def interface(number: int, *addresses: RouterAddress, **values: object) -> RouterInterface:
    own = addresses or (address(f"10.0.{number}.1", f"10.0.{number}.0/24", f"10.0.{number}.1"),)
    whole = {"network_id": f"net-{number}", "mac_address": f"fa:16:3e:00:01:{number:02x}", "addresses": own, **values}
    return RouterInterface(id=f"{number:08x}-aaaa-bbbb-cccc-dddddddddddd", **whole)  # type: ignore[arg-type]


GATEWAY = RouterInterface(
    id="eeeeeeee-aaaa-bbbb-cccc-dddddddddddd",
    network_id="outside",
    mac_address="fa:16:3e:00:02:01",
    addresses=(address("203.0.113.5", "203.0.113.0/24", "203.0.113.1"),),
)
QG = "qg-eeeeeeee-aa"


def router(*interfaces: RouterInterface, **values: object) -> Router:
    whole = {"id": "r1", "gateway": GATEWAY, "interfaces": interfaces or (interface(1), interface(2)), **values}
    return Router(**whole)  # type: ignore[arg-type]


def floating(number: int, fixed: str) -> FloatingIp:
    return FloatingIp(id=f"fip-{number}", floating_ip_address=f"203.0.113.{number}", fixed_ip_address=fixed)


def membership(priority: int = 50) -> HaMembership:
    port = RouterInterface(
        id="ffffffff-aaaa-bbbb-cccc-dddddddddddd",
        network_id="ha-network",
        mac_address="fa:16:3e:00:03:01",
        addresses=(address("169.254.192.7", "169.254.192.0/18"),),
    )
    return HaMembership(interface=port, vr_id=7, priority=priority)


def rendered(
    wanted: Router,
    options: L3Options,
    *,
    kind: str = "router",
    link: tuple[str, str] | None = None,
    ports: Iterable[DhcpPort] = (),
    policies: Iterable[QosPolicy] = (),
    extensions: Iterable[L3Extension] = (),
    groups: Iterable[FirewallGroup] = (),
) -> DesiredRouterNamespace:
    """One namespace of a router, as it is rendered on a host."""
    found = find_rendered(
        wanted, options, kind=kind, link=link, ports=ports, policies=policies, groups=groups, extensions=extensions
    )
    assert found is not None
    return found


def find_rendered(
    wanted: Router,
    options: L3Options,
    *,
    kind: str = "router",
    link: tuple[str, str] | None = None,
    ports: Iterable[DhcpPort] = (),
    policies: Iterable[QosPolicy] = (),
    extensions: Iterable[L3Extension] = (),
    groups: Iterable[FirewallGroup] = (),
) -> DesiredRouterNamespace | None:
    objects: Objects = {
        "dhcp_port": {each.id: each for each in ports},
        "qos_policy": {each.id: each for each in policies},
        "firewall_group": {each.id: each for each in groups},
    }
    several = router_namespaces(wanted, options, objects, link)
    return next((render(each, extensions) for each in several if each.kind == kind), None)


def failover(wanted: Router, options: L3Options) -> Failover | None:
    """What keepalived sets for a router on the active host."""
    several = (render(each) for each in router_namespaces(wanted, options))
    return next((each.failover for each in several if each.failover is not None), None)


def table(desired: DesiredRouterNamespace, family: str = "ip") -> Table | None:
    return next((each for each in desired.namespace.tables if each.family == family), None)


def rules(desired: DesiredRouterNamespace, position: Position, family: str = "ip") -> tuple[str, ...]:
    found = table(desired, family)
    chains = {each.name: each.rules for each in found.chains} if found is not None else {}
    return chains.get(position.name, ())


def nft_text(wanted: Router, options: L3Options) -> str:
    """The IPv4 table of a centralized router."""
    found = table(rendered(wanted, options))
    assert found is not None
    return found.text()
