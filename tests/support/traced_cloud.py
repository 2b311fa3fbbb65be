"""A cloud as the values that a packet trace reads, built object by object, for tests of the pure path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

import msgspec

from neutrino.features.address_group.trace import TracedAddressGroups
from neutrino.features.firewall.trace import TracedFirewalls
from neutrino.features.local_ip.trace import Association, TracedLocalIps
from neutrino.features.qos.trace import TracedQos
from neutrino.features.trunk.trace import Subport, TracedTrunks
from neutrino.features.vpn.trace import TracedTunnels
from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.model.qos import QosPolicy
from neutrino.model.routing import (
    Delegation,
    FloatingIp,
    PortForwarding,
    Router,
    RouterAddress,
    RouterInterface,
    RouterRoute,
)
from neutrino.model.state import (
    AddressGroup,
    AddressPair,
    FixedIp,
    Member,
    Network,
    Port,
    Rule,
    SecurityGroup,
    Segment,
    Subnet,
)
from neutrino.model.trace import Packet, Verdict
from neutrino.server.trace.path import OUTSIDE_MAC, UNKNOWN_MAC, Origin, compute, compute_return
from neutrino.server.trace.steps.walk import Subject
from neutrino.server.trace.values import (
    Named,
    Path,
    Placement,
    Snapshot,
    TracedFloatingIp,
    TracedForwarding,
    TracedHost,
    TracedPort,
    TracedRouter,
)

OWN, OTHER = "own-project", "other-project"
ALLOW_ALL = "open"  # a security group that allows everything
_NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "gre": 47}


def mac(number: int) -> str:
    return f"fa:16:3e:00:{number // 256:02x}:{number % 256:02x}"


@dataclass
class Cloud:
    ports: dict[str, TracedPort] = field(default_factory=dict)
    networks: dict[str, Network] = field(default_factory=dict)
    groups: dict[str, SecurityGroup] = field(default_factory=dict)
    members: dict[str, frozenset[Member]] = field(default_factory=dict)
    address_groups: dict[str, AddressGroup] = field(default_factory=dict)
    policies: dict[str, QosPolicy] = field(default_factory=dict)
    firewalls: dict[str, FirewallGroup] = field(default_factory=dict)
    routers: dict[str, TracedRouter] = field(default_factory=dict)
    fips: dict[str, TracedFloatingIp] = field(default_factory=dict)
    forwardings: dict[str, TracedForwarding] = field(default_factory=dict)
    local_ips: list[Association] = field(default_factory=list)
    reserved_local_ips: dict[str, str] = field(default_factory=dict)  # port that reserves the address → local IP
    vpn_statuses: dict[str, str] = field(default_factory=dict)
    subports: dict[str, Subport] = field(default_factory=dict)
    hosts: dict[str, TracedHost] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)  # subnet → address scope

    def __post_init__(self) -> None:
        for number, name in enumerate(("h1", "h2", "h3"), 1):
            self.host(name, tunneling_ip=f"192.0.2.{number}")
        self.group(ALLOW_ALL, *(rule(d, e) for d in ("ingress", "egress") for e in ("IPv4", "IPv6")))

    # --- hosts, networks, ports -----------------------------------------------------------------------------------

    def host(self, name: str, **values: Any) -> None:
        known = {"tunnel_types": ("vxlan",), "physical_networks": ("physnet1",), "agent_mode": "legacy"}
        self.hosts[name] = TracedHost(name=name, **{**known, **values})

    def network(self, name: str, *cidrs: str, kind: str = "vxlan", **values: Any) -> str:
        number = 100 + len(self.networks)
        physical = "physnet1" if kind in ("vlan", "flat") else None
        tag = None if kind in ("flat", "local") else number
        segment = Segment(id=f"{name}-segment", network_type=kind, physical_network=physical, segmentation_id=tag)
        subnets = tuple(self._subnet(name, cidr) for cidr in cidrs)
        known = {"name": name, "project_id": OWN, "mtu": 1450, "segments": (segment,), "subnets": subnets}
        self.networks[name] = Network(id=name, **{**known, **values})
        return name

    def _subnet(self, network: str, cidr: str) -> Subnet:
        first = str(ip_network(cidr)[1])
        version = ip_network(cidr).version
        return Subnet(id=f"{network}-{cidr}", network_id=network, ip_version=version, cidr=cidr, gateway_ip=first)

    def change_network(self, name: str, **values: Any) -> None:
        self.networks[name] = msgspec.structs.replace(self.networks[name], **values)

    def change_subnets(self, name: str, **values: Any) -> None:
        several = self.networks[name].subnets
        self.change_network(name, subnets=tuple(msgspec.structs.replace(each, **values) for each in several))

    def port(self, name: str, network: str, *addresses: str, host: str = "h1", **values: Any) -> str:
        top = {k: values.pop(k) for k in ("status", "project_id", "blocks", "router_id") if k in values}
        known: dict[str, Any] = {
            "mac_address": mac(len(self.ports) + 1),
            "host": host,
            "vif_type": "ovs" if host else "unbound",
            "segment_id": f"{network}-segment",
            "security_groups": (ALLOW_ALL,),
            "device_owner": "compute:nova",
            "fixed_ips": tuple(FixedIp(self._subnet_of(network, each), each) for each in addresses),
        }
        made = Port(id=name, network_id=network, **{**known, **values})
        self.ports[name] = TracedPort(port=made, name=name, **{"project_id": OWN, **top})
        return name

    def change_port(self, name: str, **values: Any) -> None:
        top = {k: values.pop(k) for k in ("status", "project_id", "blocks") if k in values}
        port = msgspec.structs.replace(self.ports[name].port, **values)
        self.ports[name] = msgspec.structs.replace(self.ports[name], port=port, **top)

    def _subnet_of(self, network: str, address: str) -> str:
        several = self.networks[network].subnets
        return next(s.id for s in several if ip_address(address) in ip_network(s.cidr))

    # --- rules ----------------------------------------------------------------------------------------------------

    def group(self, name: str, *rules: Rule, stateful: bool = True) -> str:
        self.groups[name] = SecurityGroup(id=name, stateful=stateful, rules=rules)
        return name

    def firewall(self, name: str, ingress: Sequence[Any] = (), egress: Sequence[Any] = (), **values: Any) -> str:
        self.firewalls[name] = FirewallGroup(id=name, ingress=tuple(ingress), egress=tuple(egress), **values)
        return name

    # --- routers --------------------------------------------------------------------------------------------------

    def router(
        self, name: str, *networks: str, outside: str = "", hosts: Sequence[str] = ("h3",), **values: Any
    ) -> str:
        """A router with the first address of each subnet, and the third of the external network."""
        names = ("is_ha", "placements", "local_hosts", "agent_gateways", "disabled_hosts")
        top = {k: values.pop(k) for k in names if k in values}
        distributed = bool(values.get("distributed"))
        interfaces = tuple(self._interface(name, network, 1, hosts, distributed) for network in networks)
        gateway = self._interface(name, outside, 3 + len(self.routers), hosts, False) if outside else None
        snat: tuple[RouterInterface, ...] = ()
        if distributed and gateway is not None:
            snat = tuple(self._interface(name, network, 2, hosts, False, "sg") for network in networks)
        base = Router(
            id=name,
            name=name,
            gateway=gateway,
            interfaces=interfaces,
            snat_interfaces=snat,
            **{"project_id": OWN, **values},
        )
        known = {"placements": tuple(Placement(host) for host in hosts), **top}
        self.routers[name] = TracedRouter(router=base, **known)
        return name

    def _interface(
        self, router: str, network: str, index: int, hosts: Sequence[str], everywhere: bool, prefix: str = "qr"
    ) -> RouterInterface:
        subnets = self.networks[network].subnets
        addresses = [str(ip_network(subnet.cidr)[index]) for subnet in subnets]
        port = f"{prefix}-{router}-{network}"
        host = "" if everywhere or not hosts else hosts[0]
        owner = "network:router_interface"
        self.port(port, network, *addresses, host=host, device_owner=owner, router_id=router, security_groups=())
        return RouterInterface(
            id=port,
            network_id=network,
            mac_address=self.ports[port].port.mac_address,
            mtu=self.networks[network].mtu,
            addresses=tuple(
                RouterAddress(
                    ip_address=address,
                    subnet_id=subnet.id,
                    cidr=subnet.cidr,
                    gateway_ip=subnet.gateway_ip,
                    address_scope_id=self.scopes.get(subnet.id),
                )
                for address, subnet in zip(addresses, subnets, strict=True)
            ),
        )

    def change_router(self, name: str, **values: Any) -> None:
        top = {k: values.pop(k) for k in ("is_ha", "placements", "local_hosts", "agent_gateways") if k in values}
        base = msgspec.structs.replace(self.routers[name].router, **values)
        self.routers[name] = msgspec.structs.replace(self.routers[name], router=base, **top)

    def route(self, name: str, destination: str, nexthop: str) -> None:
        routes = (*self.routers[name].router.routes, RouterRoute(destination, nexthop))
        self.change_router(name, routes=routes)

    def filter_interface(self, name: str, network: str, group: str) -> None:
        for kind in ("interfaces", "snat_interfaces"):
            several = getattr(self.routers[name].router, kind)
            changed = tuple(
                msgspec.structs.replace(each, firewall_group_id=group) if each.network_id == network else each
                for each in several
            )
            self.change_router(name, **{kind: changed})

    def delegate(self, name: str, subnet: str) -> None:
        self.change_router(name, delegations=(Delegation(subnet, "2001:db8:1::/64"),))

    def agent_gateway(self, router: str, network: str, host: str, index: int = 50) -> None:
        """The host's own port on an external network, for floating IPs of distributed routers."""
        gateway = self._interface(f"{router}-{host}", network, index, (host,), False, "fg")
        self.ports.pop(gateway.id)
        known = dict(self.routers[router].agent_gateways)
        self.change_router(router, agent_gateways={**known, host: gateway})

    def fip(self, address: str, outside: str, router: str = "", port: str = "", **values: Any) -> str:
        name = f"fip-{address}"
        fixed = self.ports[port].port.fixed_ips[0].ip_address if port else ""
        self.fips[name] = TracedFloatingIp(
            id=name,
            floating_network_id=outside,
            floating_ip_address=address,
            router_id=router,
            port_id=port,
            fixed_ip_address=fixed,
            **{"project_id": OWN, **values},
        )
        if router and port:
            host = self.ports[port].port.host
            one = FloatingIp(id=name, floating_ip_address=address, fixed_ip_address=fixed, port_id=port, host=host)
            self.change_router(router, floating_ips=(*self.routers[router].router.floating_ips, one))
        return name

    def forward(self, fip: str, port: str, outer: int, inner: int, protocol: str = "tcp") -> str:
        known, name = self.fips[fip], f"forward-{outer}"
        one = PortForwarding(
            id=name,
            protocol=protocol,
            external_ip_address=known.floating_ip_address,
            external_port_first=outer,
            external_port_last=outer,
            internal_ip_address=self.ports[port].port.fixed_ips[0].ip_address,
            internal_port_first=inner,
            internal_port_last=inner,
        )
        router = self.routers[known.router_id].router
        self.change_router(known.router_id, port_forwardings=(*router.port_forwardings, one))
        self.forwardings[name] = TracedForwarding(fip, one.internal_ip_address)
        return name

    def further_gateway(self, router: str, network: str) -> str:
        """One more gateway of a router, with the ninth address of the network; its id."""
        gateway = self._interface(f"{router}-{len(self.ports)}", network, 9, ("h3",), False)
        port = msgspec.structs.replace(self.ports[gateway.id], router_id=router)
        self.ports[gateway.id] = port
        self.change_router(router, extra_gateways=(*self.routers[router].router.extra_gateways, gateway))
        return gateway.id

    def local_ip(self, address: str, port: str, mode: str = "translate") -> None:
        fixed = self.ports[port].port.fixed_ips[0].ip_address
        self.local_ips.append(
            Association(
                id=f"local-{address}",
                name=f"local-{address}",
                project_id=OWN,
                local_ip_address=address,
                ip_mode=mode,
                port_id=port,
                fixed_ip=fixed,
            )
        )

    # --- traces ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        subnets = {s.id: Named(s.id, n.project_id) for n in self.networks.values() for s in n.subnets}
        rules = {key: Named(key, OWN) for key in self.groups}
        policies = {k: (Subject("qos_policy", k, k, OWN, "QoS policy"), one) for k, one in self.policies.items()}
        of_ports = {key: port.port.firewall_group_id for key, port in self.ports.items()}
        firewalls = TracedFirewalls(self.firewalls, {key: Named(key, OWN) for key in self.firewalls}, of_ports)
        return Snapshot(
            ports=self.ports,
            networks=self.networks,
            security_groups=self.groups,
            members=self.members,
            routers=self.routers,
            floating_ips=self.fips,
            forwardings=self.forwardings,
            parts=(
                TracedAddressGroups(self.address_groups),
                firewalls,
                TracedLocalIps(
                    tuple(self.local_ips),
                    {
                        key: Subject("local_ip", name, name, OWN, "local IP")
                        for key, name in self.reserved_local_ips.items()
                    },
                ),
                TracedQos(policies),
                TracedTrunks(self.subports),
                TracedTunnels(self.vpn_statuses),
            ),
            hosts=self.hosts,
            named={**subnets, **rules},
        )

    def packet(self, source: str, destination: str, protocol: str = "icmp", port: int = 0, **values: Any) -> Packet:
        number = _NUMBERS[protocol]
        if number == 1 and ":" in source:
            number = 58
        kinds = {1: 8, 58: 128}
        known = {
            "eth_src": OUTSIDE_MAC,
            "eth_dst": UNKNOWN_MAC,
            "source_port": 40000 if number in (6, 17, 132) else 0,
            "destination_port": port or kinds.get(number, 0),
        }
        return Packet(source=source, destination=destination, protocol=number, **{**known, **values})

    def trace(
        self, sender: str, to: str, protocol: str = "icmp", port: int = 0, *, project: str | None = None, **values: Any
    ) -> Traced:
        """From a port to a port or an address, there and back."""
        version = 6 if ":" in to else 4
        fixed = [f.ip_address for f in self.ports[sender].port.fixed_ips]
        target = self.ports[to].port.fixed_ips[0].ip_address if to in self.ports else to
        version = 6 if ":" in target else 4
        towards = values.pop("towards", "")
        source = values.pop("source", "") or next(a for a in fixed if (":" in a) == (version == 6))
        packet = self.packet(
            source, target, protocol, port, **{"eth_src": self.ports[sender].port.mac_address, **values}
        )
        return self._both(Origin(port_id=sender, towards=towards), packet, project)

    def from_outside(
        self, network: str, to: str, protocol: str = "icmp", port: int = 0, source: str = "", **values: Any
    ) -> Traced:
        known = source or ("2001:db8:ffff::9" if ":" in to else "198.51.100.9")
        return self._both(Origin(network_id=network, **values), self.packet(known, to, protocol, port), None)

    def _both(self, origin: Origin, packet: Packet, project: str | None) -> Traced:
        snapshot = self.snapshot()
        there = compute(snapshot, origin, packet, project_id=project)
        back = compute_return(snapshot, there, project) if there.verdict is not Verdict.DROPPED else None
        return Traced(snapshot, origin, there, back)


@dataclass(frozen=True)
class Traced:
    snapshot: Snapshot
    origin: Origin
    there: Path
    back: Path | None

    @property
    def verdict(self) -> tuple[str, str]:
        return self.there.verdict.value, self.there.cause.value

    @property
    def returned(self) -> tuple[str, str]:
        return (self.back.verdict.value, self.back.cause.value) if self.back is not None else ("", "")

    @property
    def hosts(self) -> list[str]:
        return [hop.host for hop in self.there.hops]

    @property
    def texts(self) -> str:
        return "\n".join(f"{step.kind} {step.result} {step.text}" for step in self.there.steps)


def rule(direction: str, ethertype: str = "IPv4", **values: Any) -> Rule:
    return Rule(id=f"rule-{direction}-{ethertype}", direction=direction, ethertype=ethertype, **values)


def firewall_rule(action: str = "allow", version: int = 4, **values: Any) -> FirewallRule:
    return FirewallRule(id=f"fw-{action}", action=action, ip_version=version, **values)


def pair(address: str, address_mac: str = "") -> AddressPair:
    return AddressPair(address_mac, address)
