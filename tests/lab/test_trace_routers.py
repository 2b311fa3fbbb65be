"""Traces of packets through routers of every kind, floating IPs, firewall groups and to the outside, with real packets."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neutrino.lab.api_client import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.lab_kinds import LabKind
from tests.support.lab_trace import Case, check, connects, created, datagrams, in_groups, pings, updated
from tests.support.routing_lab import (
    EXTERNAL,
    INTERFACES,
    MACHINE,
    SOON,
    external_network,
    floating_ip,
    host_of,
    in_router,
    l3_agent,
    make_router,
    tenant_network,
    wait_until_reachable,
)

KINDS: dict[str, dict[str, bool]] = {
    "legacy": {"distributed": False, "ha": False},
    "ha": {"distributed": False, "ha": True},
    "dvr": {"distributed": True, "ha": False},
    "dvr-ha": {"distributed": True, "ha": True},
}
BEHIND = "10.77.0.1"  # an address that a guest has behind its port
SMALL_MTU = 1300
FORWARDED = 8022


@dataclasses.dataclass
class Site:
    """For each kind a router between two networks, `left` with a guest on h3 and `right` with one on h2."""

    lab: Lab
    out: Object
    open: str
    closed: str
    guests: dict[str, Guest] = dataclasses.field(default_factory=dict)
    routers: dict[str, Object] = dataclasses.field(default_factory=dict)
    networks: dict[str, Object] = dataclasses.field(default_factory=dict)
    public: dict[str, Object] = dataclasses.field(default_factory=dict)  # floating IPs
    made: dict[str, str] = dataclasses.field(default_factory=dict)  # what a case has created

    def four(self, name: str) -> str:
        return self.guests[name].addresses[4]

    def interface(self, kind: str, side: str) -> str:
        """The router's port on a network."""
        ports = self.lab.api.list("port", device_id=self.routers[kind]["id"], network_id=self.networks[side]["id"])
        return str(next(p["id"] for p in ports if p["device_owner"] in INTERFACES and ":" not in _address(p)))


def _address(port: Object) -> str:
    return str(port["fixed_ips"][0]["ip_address"])


# Agents do not repair what cases change by hand: the trace would race with them.
LAB = LabKind(hosts=3, roles=("l2", "l3"), agent="[agent]\nrepair_interval = 3600\n")


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    open_, _ = make_group(lab, "open", *EVERYTHING)
    closed, _ = make_group(lab, "closed")
    made = Site(lab, external_network(lab), open_, closed)
    _build(made)
    return made


def _build(site: Site) -> None:
    lab, specs = site.lab, []
    for number, (kind, attributes) in enumerate(KINDS.items()):
        for offset, side in enumerate(("left", "right")):
            small = {"mtu": SMALL_MTU} if (kind, side) == ("legacy", "right") else {}
            site.networks[f"{kind}-{side}"] = tenant_network(lab, f"{kind}-{side}", 10 + 2 * number + offset, **small)
        networks = [site.networks[f"{kind}-{side}"] for side in ("left", "right")]
        site.routers[kind] = make_router(lab, site.out, *networks, **attributes)
        specs += [
            Spec(f"{kind}-{side}", net, host, [site.open])
            for side, net, host in zip(("left", "right"), networks, ("h3", "h2"), strict=True)
        ]
    # A router without a gateway, and a network without a router.
    for number, name in enumerate(("island", "shore", "lonely")):
        site.networks[name] = tenant_network(lab, name, 30 + number, six=False)
    site.routers["island"] = make_router(lab, None, site.networks["island"], site.networks["shore"], **KINDS["legacy"])
    specs += [Spec(name, site.networks[name], "h1", [site.open]) for name in ("island", "shore", "lonely")]
    # A router between two address scopes.
    for number, name in enumerate(("red", "green")):
        scope = lab.api.create("address_scope", name=name, ip_version=4)
        pool = {"prefixes": [f"10.{81 + number}.0.0/16"], "default_prefixlen": 24, "address_scope_id": scope["id"]}
        made = lab.api.create("network", name=name)
        subnet = {"network_id": made["id"], "subnetpool_id": lab.api.create("subnetpool", name=name, **pool)["id"]}
        site.networks[name] = {**made, "by_version": {4: lab.api.create("subnet", ip_version=4, **subnet)}}
        specs.append(Spec(name, site.networks[name], "h1", [site.open]))
    site.routers["scopes"] = make_router(lab, None, site.networks["red"], site.networks["green"], **KINDS["legacy"])
    free = {"port_security_enabled": False, "security_groups": []}
    specs.append(Spec("gate", site.networks["legacy-right"], "h1", values=free))
    site.guests.update({guest.name: guest for guest in make_guests(lab, *specs)})
    site.guests["gate"].ip("address", "add", f"{BEHIND}/32", "dev", "lo")
    for kind in KINDS:
        site.public[kind] = floating_ip(lab, site.out, site.guests[f"{kind}-right"].port_id)
    for kind in KINDS:
        wait_until_reachable(lab, f"{kind}-left", MACHINE, 3 * SOON)
        wait_until_reachable(lab, EXTERNAL, site.public[kind]["floating_ip_address"], SOON)


C = Case[Site]
Request = Callable[[Site], dict[str, Any]]
Fate = Callable[[Site], bool]
Change = Callable[[Site], Any]


def between(source: str, target: str, **more: Any) -> Request:
    return lambda s: {
        "source_port_id": s.guests[source].port_id,
        "destination_port_id": s.guests[target].port_id,
        "protocol": "icmp",
        "ip_version": 4,
        **more,
    }


def towards(source: str, address: str | Callable[[Site], str], **more: Any) -> Request:
    return lambda s: {
        "source_port_id": s.guests[source].port_id,
        "destination_address": address if isinstance(address, str) else address(s),
        "protocol": "icmp",
        **more,
    }


def outside(address: Callable[[Site], str], **more: Any) -> Request:
    return lambda s: {"source": "external", "destination_address": address(s), "protocol": "icmp", **more}


def ping(source: str, target: str | Callable[[Site], str], *options: str) -> Fate:
    return lambda s: pings(s.lab, source, target if isinstance(target, str) else target(s), *options)


def datagram(source: str, target: str) -> Fate:
    return lambda s: datagrams(s.lab, source, target, s.four(target), 5000)


def four(name: str) -> Callable[[Site], str]:
    return lambda s: s.four(name)


def public(kind: str) -> Callable[[Site], str]:
    return lambda s: str(s.public[kind]["floating_ip_address"])


def router(kind: str) -> Callable[[Site], str]:
    return lambda s: str(s.routers[kind]["id"])


def made(name: str) -> Callable[[Site], str]:
    return lambda s: s.made[name]


def firewall(port: Callable[[Site], str], action: str = "deny", **rule: Any) -> Change:
    """A firewall group with one ingress rule, and everything else allowed out, on a port."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        lab = site.lab
        with contextlib.ExitStack() as stack:
            values = {"name": "rule", "action": action, **rule}
            first = stack.enter_context(created(lab, "fwaas/firewall_rules", "firewall_rule", **values))
            rest = stack.enter_context(
                created(lab, "fwaas/firewall_rules", "firewall_rule", name="rest", action="allow")
            )
            policies = [
                stack.enter_context(
                    created(lab, "fwaas/firewall_policies", "firewall_policy", name="policy", firewall_rules=rules)
                )["id"]
                for rules in ([first["id"], rest["id"]], [rest["id"]])
            ]
            sides = {"ingress_firewall_policy_id": policies[0], "egress_firewall_policy_id": policies[1]}
            group = stack.enter_context(
                created(lab, "fwaas/firewall_groups", "firewall_group", name="group", ports=[port(site)], **sides)
            )
            # A group in use cannot be deleted.
            stack.callback(
                lab.api.request, "PUT", f"/v2.0/fwaas/firewall_groups/{group['id']}", {"firewall_group": {"ports": []}}
            )
            site.made["firewall"] = group["id"]
            yield

    return change


def routed(kind: str, destination: str, nexthop: Callable[[Site], str]) -> Change:
    return lambda s: updated(
        s.lab, "router", s.routers[kind]["id"], routes=[{"destination": destination, "nexthop": nexthop(s)}]
    )


@contextlib.contextmanager
def forwarded(site: Site, kind: str) -> Iterator[None]:
    lab, guest = site.lab, site.guests[f"{kind}-left"]
    with created(lab, "floatingips", "floatingip", floating_network_id=site.out["id"]) as address:
        path = f"floatingips/{address['id']}/port_forwardings"
        values = {
            "protocol": "tcp",
            "external_port": FORWARDED,
            "internal_port": 22,
            "internal_ip_address": guest.addresses[4],
            "internal_port_id": guest.port_id,
        }
        with created(lab, path, "port_forwarding", **values) as rule:
            site.made["forwarded"], site.made["forwarding"] = address["floating_ip_address"], rule["id"]
            yield


@contextlib.contextmanager
def idle_floating_ip(site: Site) -> Iterator[None]:
    with created(site.lab, "floatingips", "floatingip", floating_network_id=site.out["id"]) as address:
        site.made["idle"] = address["floating_ip_address"]
        yield


@contextlib.contextmanager
def unscheduled(site: Site) -> Iterator[None]:
    router, lab = site.routers["island"], site.lab
    agent = l3_agent(lab, host_of(lab, router))
    assert agent is not None
    lab.api.request("DELETE", f"/v2.0/agents/{agent['id']}/l3-routers/{router['id']}")
    try:
        yield
    finally:
        lab.api.request("POST", f"/v2.0/agents/{agent['id']}/l3-routers", {"router_id": router["id"]})
        wait_until_reachable(lab, "island", site.four("shore"), SOON)


@contextlib.contextmanager
def rule_by_hand(site: Site) -> Iterator[None]:
    """An nft rule that nobody has asked for, in a router's namespace."""
    router, lab = site.routers["island"], site.lab
    host = host_of(lab, router)
    lines = (
        "add table inet byhand",
        "add chain inet byhand forward { type filter hook forward priority -10; }",
        "add rule inet byhand forward meta l4proto icmp drop",
    )
    for line in lines:
        in_router(lab, router, host, "nft", line)
    try:
        yield
    finally:
        in_router(lab, router, host, "nft", "delete table inet byhand", check=False)


@contextlib.contextmanager
def route_by_hand(site: Site) -> Iterator[None]:
    """A route of a router is missing."""
    router, lab = site.routers["island"], site.lab
    host, prefix = host_of(lab, router), site.networks["shore"]["by_version"][4]["cidr"]
    route = in_router(lab, router, host, "ip", "route", "show", prefix).strip()
    in_router(lab, router, host, "ip", "route", "del", prefix)
    try:
        yield
    finally:
        in_router(lab, router, host, "ip", "route", "replace", *route.split(), check=False)


PASSING = [
    case
    for kind in KINDS
    for case in (
        C(f"{kind}: routed", between(f"{kind}-left", f"{kind}-right"), ping(f"{kind}-left", four(f"{kind}-right"))),
        C(f"{kind}: SNAT", towards(f"{kind}-left", MACHINE), ping(f"{kind}-left", MACHINE)),
        C(f"{kind}: floating IP out", towards(f"{kind}-right", MACHINE), ping(f"{kind}-right", MACHINE)),
        C(f"{kind}: floating IP in", outside(public(kind)), ping(EXTERNAL, public(kind))),
        C(f"{kind}: hairpin", towards(f"{kind}-left", public(kind)), ping(f"{kind}-left", public(kind))),
    )
]
IPV6 = [
    C(
        f"{kind}: IPv6",
        between(f"{kind}-left", f"{kind}-right", ip_version=6, protocol="ipv6-icmp"),
        ping(f"{kind}-left", lambda s, kind=kind: s.guests[f"{kind}-right"].addresses[6]),
    )
    for kind in ("legacy", "dvr")
]
FORWARDING = [
    C(
        f"{kind}: port forwarding",
        outside(made("forwarded"), protocol="tcp", destination_port=FORWARDED),
        lambda s, kind=kind: connects(s.lab, EXTERNAL, f"{kind}-left", s.made["forwarded"], FORWARDED, 22),
        change=lambda s, kind=kind: forwarded(s, kind),
    )
    for kind in ("legacy", "dvr-ha")
]
DROPPED = [
    *(
        C(
            f"{kind}: router down",
            between(f"{kind}-left", f"{kind}-right"),
            ping(f"{kind}-left", four(f"{kind}-right")),
            "router-admin-down",
            router(kind),
            lambda s, kind=kind: updated(s.lab, "router", s.routers[kind]["id"], admin_state_up=False),
        )
        for kind in ("legacy", "dvr")
    ),
    C("no route", towards("island", MACHINE), ping("island", MACHINE), "no-route", router("island")),
    C("two address scopes", between("red", "green"), ping("red", four("green")), "address-scope"),
    C("no router", towards("lonely", MACHINE), ping("lonely", MACHINE), "no-router"),
    C(
        "no agent serves the router",
        between("island", "shore"),
        ping("island", four("shore")),
        "router-not-scheduled",
        router("island"),
        unscheduled,
    ),
    C(
        "the security group behind a router",
        between("dvr-left", "dvr-right"),
        ping("dvr-left", four("dvr-right")),
        "security-group-ingress",
        lambda s: s.closed,
        lambda s: in_groups(s.guests["dvr-right"], s.closed),
    ),
    C(
        "the security group behind a floating IP",
        outside(public("legacy")),
        ping(EXTERNAL, public("legacy")),
        "security-group-ingress",
        lambda s: s.closed,
        lambda s: in_groups(s.guests["legacy-right"], s.closed),
    ),
    C("no floating IP", outside(four("legacy-left")), ping(EXTERNAL, four("legacy-left")), "no-floating-ip"),
    C(
        "a floating IP of no port",
        outside(made("idle")),
        ping(EXTERNAL, made("idle")),
        "no-floating-ip",
        change=idle_floating_ip,
    ),
    C(
        "no route behind an extra route",
        towards("island", BEHIND),
        ping("island", BEHIND),
        "no-such-address",
        change=routed("island", "10.77.0.0/24", lambda s: "10.0.31.250"),
    ),
    C(
        "too big behind the router",
        between("legacy-left", "legacy-right", packet_size=1400),
        ping("legacy-left", four("legacy-right"), "-M", "do", "-s", "1372"),
        "packet-too-big",
    ),
    C(
        "a firewall group of a port",
        between("legacy-left", "legacy-right"),
        ping("legacy-left", four("legacy-right")),
        "firewall-group",
        made("firewall"),
        firewall(lambda s: s.guests["legacy-right"].port_id, protocol="icmp"),
    ),
    C(
        "legacy: a firewall group of the router",
        between("legacy-left", "legacy-right"),
        ping("legacy-left", four("legacy-right")),
        "firewall-group",
        made("firewall"),
        firewall(lambda s: s.interface("legacy", "legacy-right"), protocol="icmp"),
    ),
    C(
        "dvr: a firewall group of the router",
        between("dvr-left", "dvr-right", protocol="tcp", destination_port=80),
        lambda s: connects(s.lab, "dvr-left", "dvr-right", s.four("dvr-right")),
        "firewall-group",
        made("firewall"),
        firewall(lambda s: s.interface("dvr", "dvr-right"), protocol="tcp"),
    ),
    *(
        C(
            f"{kind}: {protocol} that could be a reply, by a firewall group of the router",
            between(f"{kind}-left", f"{kind}-right", protocol=protocol, **more),
            fate(f"{kind}-left", f"{kind}-right"),
            "firewall-group",
            made("firewall"),
            firewall(lambda s, kind=kind: s.interface(kind, f"{kind}-right"), protocol=protocol),
        )
        for kind in ("dvr", "dvr-ha")
        for protocol, more, fate in (
            ("icmp", {}, lambda source, target: ping(source, four(target))),
            ("udp", {"destination_port": 5000}, datagram),
        )
    ),
    *(
        C(
            f"dvr: {protocol} and its replies, by a firewall group of the router",
            between("dvr-left", "dvr-right", protocol=protocol, **more),
            fate,
            change=firewall(lambda s: s.interface("dvr", "dvr-left"), protocol=protocol),
        )
        for protocol, more, fate in (
            ("icmp", {}, ping("dvr-left", four("dvr-right"))),
            ("udp", {"destination_port": 5000}, datagram("dvr-left", "dvr-right")),
            ("tcp", {"destination_port": 80}, lambda s: connects(s.lab, "dvr-left", "dvr-right", s.four("dvr-right"))),
        )
    ),
    C(
        "another protocol than the firewall group denies",
        between("legacy-left", "legacy-right"),
        ping("legacy-left", four("legacy-right")),
        change=firewall(lambda s: s.interface("legacy", "legacy-right"), protocol="tcp"),
    ),
]
ROUTES = [
    C(
        "an extra route",
        towards("legacy-left", BEHIND),
        ping("legacy-left", BEHIND),
        change=routed("legacy", "10.77.0.0/24", four("gate")),
    ),
]
BY_HAND = [
    C(
        "an nft rule by hand",
        between("island", "shore"),
        ping("island", four("shore")),
        "drift",
        change=rule_by_hand,
        agrees=False,
    ),
    C(
        "a route that is missing",
        between("island", "shore"),
        ping("island", four("shore")),
        "drift",
        change=route_by_hand,
        agrees=False,
    ),
]
CASES = [*PASSING, *IPV6, *FORWARDING, *DROPPED, *ROUTES, *BY_HAND]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_trace_agrees_with_real_packets(case: C, site: Site) -> None:
    check(site.lab, case, site)
