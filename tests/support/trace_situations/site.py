"""The cloud of the situations: networks and routers of every kind, on three hosts.

blue                  a, near on h1; far, ear on h2; free on h1 and ear without port security
tagged                a VLAN of a physical network: tagged1 on h1, tagged2 on h2
alone                 of type local: alone1 on h1, alone2 on h2
KIND-left, -right     for each kind of router: an instance on h3 and one on h2, which has a floating IP
dvr-, dvr-ha-beside   on the network of -right, on h3, the host of -left
legacy-left           keeper on h1 with the address of `vip`, a port that reserves it, and is behind a floating IP
legacy-right          gate on h1, without port security, with addresses behind it
island, shore         a router without a gateway; lonely: no router; red, green: one between two address scopes
behind                behind another router with the same external network
plain                 behind a router that does not translate
direct                on the external network itself
vpn1, vpn2            behind routers with a VPN connection between them
trunk                 an instance with subport `green` on h1, and green-peer on h2
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from neutrino.model.objects import Object
from tests.support import trunk_lab, vpn_lab
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests, make_network
from tests.support.lab_kinds import LabKind
from tests.support.routing_lab import (
    EXTERNAL,
    INTERFACES,
    MACHINE,
    SOON,
    external_network,
    floating_ip,
    host_of,
    make_router,
    place_router,
    tenant_network,
    wait_until_reachable,
)

KINDS: dict[str, dict[str, bool]] = {
    "legacy": {"distributed": False, "ha": False},
    "ha": {"distributed": False, "ha": True},
    "dvr": {"distributed": True, "ha": False},
    "dvr-ha": {"distributed": True, "ha": True},
}
LEGACY = KINDS["legacy"]
BEYOND = "198.51.100.1"  # an address of the machine outside that is on no subnet
BEHIND = "10.77.0.1"  # an address that `gate` has behind its port
UNLISTED = "10.0.11.240"  # an address of `gate` on its subnet that its port does not have
PAIRED = "10.0.0.230"
SMALL_MTU = 1300
UNSECURED = {"port_security_enabled": False, "security_groups": []}
# Agents do not repair what situations change by hand: the trace would race with them.
LAB = LabKind(hosts=3, roles=("l2", "l3"), agent="[agent]\nrepair_interval = 3600\ncheck_interval = 600\n")


@dataclasses.dataclass
class Site:
    """Implements `Place`."""

    lab: Lab
    out: Object
    groups: dict[str, str]
    guests: dict[str, Guest] = dataclasses.field(default_factory=dict)
    routers: dict[str, Object] = dataclasses.field(default_factory=dict)
    networks: dict[str, Object] = dataclasses.field(default_factory=dict)
    addresses: dict[str, str] = dataclasses.field(default_factory=dict)  # by name: floating IPs and others
    ports: dict[str, Object] = dataclasses.field(default_factory=dict)  # that are no instance's first one
    vms: dict[str, str] = dataclasses.field(default_factory=dict)  # of such ports
    made: dict[str, str] = dataclasses.field(default_factory=dict)  # ids of what a situation has created
    vpn: tuple[tuple[vpn_lab.Site, Object], ...] = ()

    def port(self, name: str) -> str:
        if name in self.guests:
            return self.guests[name].port_id
        return str(self.ports[name]["id"]) if name in self.ports else ""

    def vm(self, name: str) -> str:
        return self.vms.get(name, name)

    def object(self, name: str) -> str:
        kind, _, key = name.partition(" ")
        known = {"group": self.groups, "made": self.made}
        if kind in known:
            return known[kind][key]
        return str({"router": self.routers, "network": self.networks}[kind][key]["id"])

    def address(self, name: str, version: int = 4) -> str:
        if name in self.guests:
            return self.guests[name].addresses[version]
        if name in self.ports:
            return str(self.ports[name]["fixed_ips"][0]["ip_address"])
        return self.addresses.get(name, name)

    def interface(self, router: str, network: str) -> str:
        """The router's port on a network, of IPv4."""
        ports = self.lab.api.list("port", device_id=self.routers[router]["id"], network_id=self.networks[network]["id"])
        return str(next(p["id"] for p in ports if p["device_owner"] in INTERFACES and not _has_ipv6(p)))


def _has_ipv6(port: Object) -> bool:
    return ":" in str(port["fixed_ips"][0]["ip_address"])


@contextlib.contextmanager
def made_site(lab: Lab) -> Iterator[Site]:
    names = {"open": EVERYTHING, "closed": ()}
    groups = {name: make_group(lab, name, *rules)[0] for name, rules in names.items()}
    groups["mute"] = make_group(lab, "mute", lets_out=False)[0]
    site = Site(lab, external_network(lab), groups)
    lab.run(EXTERNAL, ["ip", "address", "add", f"{BEYOND}/32", "dev", "lo"])
    with contextlib.ExitStack() as stack:
        stack.callback(lab.run, EXTERNAL, ["ip", "address", "del", f"{BEYOND}/32", "dev", "lo"], check=False)
        specs = [*_flat(site), *_routed(site), *_odd(site)]
        site.guests.update({guest.name: guest for guest in make_guests(lab, *specs)})
        gate = site.guests["gate"]
        gate.ip("address", "add", f"{BEHIND}/32", "dev", "lo")
        gate.ip("address", "add", f"{UNLISTED}/24", "dev", "eth0")
        _virtual_address(site)
        for kind in KINDS:
            fip = floating_ip(lab, site.out, site.guests[f"{kind}-right"].port_id)
            site.addresses[f"floating IP of {kind}-right"] = fip["floating_ip_address"]
        _vpn(site)
        trunk = stack.enter_context(trunk_lab.made_site(lab))
        site.ports["green"], site.vms["green"] = trunk.ports[trunk_lab.GREEN], trunk_lab.VM
        peer = lab.vms.get(f"{trunk_lab.GREEN}-peer")
        site.ports[peer.name] = lab.api.show("port", peer.port_id)
        for kind in KINDS:
            wait_until_reachable(lab, f"{kind}-left", MACHINE, 3 * SOON)
            wait_until_reachable(lab, EXTERNAL, site.addresses[f"floating IP of {kind}-right"], SOON)
        yield site


def _flat(site: Site) -> list[Spec]:
    lab, open_ = site.lab, [site.groups["open"]]
    physical = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    blue = site.networks["blue"] = make_network(lab, "blue")
    tagged = site.networks["tagged"] = make_network(lab, "tagged", **physical)
    alone = site.networks["alone"] = make_network(lab, "alone", **{"provider:network_type": "local"})
    return [
        Spec("a", blue, "h1", open_, {"allowed_address_pairs": [{"ip_address": PAIRED}]}),
        Spec("near", blue, "h1", open_),
        Spec("far", blue, "h2", open_),
        Spec("free", blue, "h1", values=UNSECURED),
        Spec("ear", blue, "h2", values=UNSECURED),
        Spec("tagged1", tagged, "h1", open_),
        Spec("tagged2", tagged, "h2", open_),
        Spec("alone1", alone, "h1", open_),
        Spec("alone2", alone, "h2", open_),
    ]


def _routed(site: Site) -> list[Spec]:
    lab, specs = site.lab, []
    for number, (kind, attributes) in enumerate(KINDS.items()):
        for offset, side in enumerate(("left", "right")):
            small: dict[str, Any] = {"mtu": SMALL_MTU} if (kind, side) == ("legacy", "right") else {}
            site.networks[f"{kind}-{side}"] = tenant_network(lab, f"{kind}-{side}", 10 + 2 * number + offset, **small)
        networks = [site.networks[f"{kind}-{side}"] for side in ("left", "right")]
        site.routers[kind] = make_router(lab, site.out, *networks, **{**attributes, "name": kind})
        specs += [
            Spec(f"{kind}-{side}", net, host, [site.groups["open"]])
            for side, net, host in zip(("left", "right"), networks, ("h3", "h2"), strict=True)
        ]
        if attributes["distributed"]:
            specs.append(Spec(f"{kind}-beside", networks[1], "h3", [site.groups["open"]]))
    specs.append(Spec("gate", site.networks["legacy-right"], "h1", values=UNSECURED))
    return specs


def _odd(site: Site) -> list[Spec]:
    """Routers without a gateway, without translation, and between address scopes; a network without any."""
    lab, open_ = site.lab, [site.groups["open"]]
    for number, name in enumerate(("island", "shore", "lonely", "behind", "plain")):
        site.networks[name] = tenant_network(lab, name, 30 + number, six=False)
    island, shore = site.networks["island"], site.networks["shore"]
    site.routers["island"] = make_router(lab, None, island, shore, name="island", **LEGACY)
    for number, name in enumerate(("red", "green")):
        scope = lab.api.create("address_scope", name=name, ip_version=4)
        pool = {"prefixes": [f"10.{81 + number}.0.0/16"], "default_prefixlen": 24, "address_scope_id": scope["id"]}
        made = lab.api.create("network", name=f"scope-{name}")
        subnet = {"network_id": made["id"], "subnetpool_id": lab.api.create("subnetpool", name=name, **pool)["id"]}
        site.networks[f"scope-{name}"] = {**made, "by_version": {4: lab.api.create("subnet", ip_version=4, **subnet)}}
    scopes = [site.networks[f"scope-{name}"] for name in ("red", "green")]
    site.routers["scopes"] = make_router(lab, None, *scopes, name="scopes", **LEGACY)
    site.routers["other"] = make_router(lab, site.out, site.networks["behind"], name="other", **LEGACY)
    info = {"network_id": site.out["id"], "enable_snat": False}
    plain = make_router(lab, None, site.networks["plain"], name="plain", external_gateway_info=info, **LEGACY)
    site.routers["plain"] = lab.api.show("router", plain["id"])
    fixed = site.routers["plain"]["external_gateway_info"]["external_fixed_ips"]
    site.addresses["gateway of plain"] = next(f["ip_address"] for f in fixed if ":" not in f["ip_address"])
    names = ("island", "shore", "lonely", "behind", "plain", "scope-red", "scope-green")
    specs = [Spec(name, site.networks[name], "h1", open_) for name in names]
    return [*specs, Spec("direct", site.out, "h1", open_)]


def _virtual_address(site: Site) -> None:
    """As Octavia and users of keepalived make it: a port reserves the address, another one has it as a pair."""
    lab, network = site.lab, site.networks["legacy-left"]
    subnet = network["by_version"][4]["id"]
    fixed = {"fixed_ips": [{"subnet_id": subnet}]}
    vip = lab.api.create("port", network_id=network["id"], security_groups=[site.groups["open"]], **fixed)
    address = vip["fixed_ips"][0]["ip_address"]
    pairs = {"allowed_address_pairs": [{"ip_address": address}]}
    (keeper,) = make_guests(lab, Spec("keeper", network, "h1", [site.groups["open"]], pairs))
    keeper.ip("address", "add", f"{address}/32", "dev", "eth0")
    site.guests["keeper"], site.ports["vip"], site.vms["vip"] = keeper, vip, "keeper"
    fip = lab.api.create("floatingip", floating_network_id=site.out["id"], port_id=vip["id"])
    site.addresses["floating IP of vip"] = fip["floating_ip_address"]


def _vpn(site: Site) -> None:
    lab, ends = site.lab, []
    for number, name in enumerate(("vpn1", "vpn2")):
        end = vpn_lab.make_site(lab, site.out, name, 50 + number, lambda router: host_of(lab, router), **LEGACY)
        place_router(lab, end.router, f"h{number + 1}")
        end = dataclasses.replace(end, host=f"h{number + 1}")
        ends.append(end)
        site.routers[name], site.vms[name] = end.router, name
        site.ports[name] = lab.api.show("port", lab.vms.get(name).port_id)
    ike = vpn_lab.made(lab, "ikepolicies", "ikepolicy", ike_version="v2")
    ipsec = vpn_lab.made(lab, "ipsecpolicies", "ipsecpolicy")
    dpd = {"action": "restart", "interval": 2, "timeout": 6}
    first = ends[0].connect(ends[1], ike, ipsec, dpd=dpd)
    second = ends[1].connect(ends[0], ike, ipsec, dpd=dpd)
    site.vpn = (ends[0], first), (ends[1], second)
    for end, connection in site.vpn:
        end.wait_for(connection, "ACTIVE")
