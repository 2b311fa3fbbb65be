"""Hosts on fake switches with the flows of an agent, and an underlay between them, to send packets through.

`Cloud` connects hosts: packets into a tunnel port arrive at its remote host, packets out of the physical network's device
at all other hosts. `Cloud.send` returns the ports, on any host, where a packet is delivered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

from neutrino.agent.l2.desired import (
    Desired,
    HostState,
    L2Options,
    LocalPort,
    Plugged,
    TunnelPort,
    Uplink,
    UplinkPort,
    resolve,
    wanted_segments,
)
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner, with_tables
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.local_vlans import SegmentKey, allocate
from neutrino.agent.l2.pipeline import DEAD_VLAN, REG_PORT
from neutrino.agent.l2.plan import BridgePlan, Renderer, plan
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, DatapathFeatures, OpenFlow
from neutrino.model import state
from neutrino.model.firewall import FirewallGroup
from neutrino.model.packet_log import PacketLog
from neutrino.model.qos import QosPolicy
from neutrino.model.routing import Router
from tests.fakes.openflow import Delivery, FakePort, FakeSwitch
from tests.fakes.packet import Packet

TUNNEL_TYPES = ("gre", "vxlan", "geneve")


def mac(number: int) -> str:
    return f"fa:16:3e:00:00:{number:02x}"


def network(name: str, kind: str = "vxlan", number: int = 100, physical: str | None = None) -> state.Network:
    segment = state.Segment(id=f"{name}-segment", network_type=kind, segmentation_id=number, physical_network=physical)
    return state.Network(id=name, segments=(segment,))


def port(
    name: str, number: int, network_id: str = "net", host: str = "h1", *, groups: Iterable[str] = (), **changes: object
) -> state.Port:
    """Port `number` has MAC ...:number and the addresses 10.0.0.number and 2001:db8::number."""
    addresses = (f"10.0.0.{number}", f"2001:db8::{number:x}")
    whole = state.Port(
        id=name,
        network_id=network_id,
        mac_address=mac(number),
        host=host,
        fixed_ips=tuple(state.FixedIp("subnet", address) for address in addresses),
        security_groups=tuple(groups),
        device_owner="compute:nova",
    )
    return _changed(whole, changes)


def _changed(whole: state.Port, changes: Mapping[str, object]) -> state.Port:
    fields = {name: getattr(whole, name) for name in whole.__struct_fields__} | dict(changes)
    return state.Port(**fields)


def rule(direction: str = "ingress", ethertype: str = "IPv4", **values: object) -> state.Rule:
    return state.Rule(id="", direction=direction, ethertype=ethertype, **values)  # type: ignore[arg-type]


def group(name: str, *rules: state.Rule, stateful: bool = True) -> state.SecurityGroup:
    return state.SecurityGroup(id=name, rules=rules, stateful=stateful)


OPEN = group("open", *(rule(direction, family) for direction in ("ingress", "egress") for family in ("IPv4", "IPv6")))
OUT = group("out", rule("egress", "IPv4"), rule("egress", "IPv6"))


def by_id(objects: Iterable[state.Object]) -> dict[str, state.Object]:
    return {entry.id: entry for entry in objects}


class Passing(L2Extension):
    """Leads packets from and to all ports through tables of its own, and passes them on."""

    name = "passing"
    has_table = True
    has_ingress_table = True

    def units(self, desired: Desired) -> Iterator[Unit]:
        for each in desired.ports:
            yield Unit(port_owner(each), (desired.options, each.ofport), _pass_on)


def _pass_on(options: L2Options, ofport: int) -> Contribution:
    egress, ingress = options.extension_table("passing"), options.ingress_table("passing")
    flows = (
        egress.flow(1, f"in_port={ofport}", then=options.after_extension(egress)),
        ingress.flow(1, f"{REG_PORT}={ofport}", then=options.after_ingress(ingress)),
    )
    return Contribution({options.integration_bridge: flows})


@dataclasses.dataclass
class FakeHost:
    """One host: br-int, br-tun and br-phys on a fake switch."""

    name: str
    peers: tuple[str, ...] = ()
    options: L2Options = dataclasses.field(default_factory=L2Options)
    switch: FakeSwitch = dataclasses.field(default_factory=FakeSwitch)
    vlans: dict[SegmentKey, int] = dataclasses.field(default_factory=dict)
    extensions: tuple[L2Extension, ...] = BUILT_IN

    def __post_init__(self) -> None:
        self.renderer = Renderer(self.extensions)
        self.options = with_tables(self.options, self.extensions)
        self.ofports: dict[str, int] = {}
        self.extension_ports: dict[str, int] = {}
        self.desired: Desired | None = None
        for bridge in ("br-int", "br-tun", "br-phys"):
            self.switch.add_bridge(bridge)
        self.switch.set_port("br-int", FakePort(1, "int-br-phys", peer=("br-phys", "phy-br-phys")))
        self.switch.set_port("br-int", FakePort(2, "patch-tun", peer=("br-tun", "patch-int")))
        self.switch.set_port("br-tun", FakePort(1, "patch-int", peer=("br-int", "patch-tun")))
        self.switch.set_port("br-phys", FakePort(1, "phy-br-phys", peer=("br-int", "int-br-phys")))
        self.switch.set_port("br-phys", FakePort(2, "eth1"))
        for tunnel in self.tunnels():
            self.switch.set_port("br-tun", FakePort(tunnel.ofport, f"{tunnel.network_type}-{tunnel.host}", tunnel=True))

    def tunnels(self) -> tuple[TunnelPort, ...]:
        ends = [(kind, peer) for kind in TUNNEL_TYPES for peer in self.peers]
        return tuple(TunnelPort(10 + place, kind, peer) for place, (kind, peer) in enumerate(ends))

    def plugged(self) -> Plugged:
        return Plugged(
            ports=dict(self.ofports),
            devices={name: f"tap-{name}" for name in self.ofports},
            shaped=frozenset(name for name in self.ofports if name.startswith("shaped")),
            extension_ports=dict(self.extension_ports),
            uplinks=(Uplink("physnet1", "br-phys", 1, 1),),
            uplink_ports={"br-phys": (UplinkPort("eth1", ("eth1",)),)},
            patch_tun=2,
            patch_int=1,
            tunnels=self.tunnels(),
            features=self.switch.features,
        )

    def resolve(self, host_state: HostState) -> Desired:
        for name in host_state.ports:
            self.ofports.setdefault(name, 100 + len(self.ofports))
        plugged = self.plugged()
        self.vlans = allocate(wanted_segments(host_state, plugged), self.vlans)
        return resolve(host_state, plugged, self.vlans, self.options)

    def plans(self, desired: Desired, openflow: OpenFlow | None = None) -> list[BridgePlan]:
        openflow = openflow or self.switch
        rendered = self.renderer.render(desired)
        return [
            plan(
                *(name, rendered.flows[name], openflow.read_flows(name, COOKIE, COOKIE_MASK)),
                *(rendered.meters.get(name), openflow.read_meters(name)),
            )
            for name in sorted(rendered.flows)
        ]

    def apply(self, host_state: HostState) -> Desired:
        self._plug_rows(self.renderer.render(self.resolve(host_state)).rows)
        desired = self.desired = self.resolve(host_state)
        for bridge_plan in self.plans(desired):
            apply_plan(self.switch, bridge_plan)
        live: dict[int, LocalPort] = {entry.ofport: entry for entry in desired.ports}
        for name, ofport in self.ofports.items():
            tag = live[ofport].vlan if ofport in live else DEAD_VLAN
            self.switch.set_port("br-int", FakePort(ofport, name, tag=tag))
        return desired

    def _plug_rows(self, rows: Collection[str]) -> None:
        """The ports that extensions contribute get their numbers, which flows need, as from the switch."""
        self.extension_ports = {name: number for name, number in self.extension_ports.items() if name in rows}
        for name in sorted({*rows} - self.extension_ports.keys()):
            number = self.extension_ports[name] = max(self.extension_ports.values(), default=1000) + 1
            self.switch.set_port("br-int", FakePort(number, name))


def apply_plan(openflow: OpenFlow, difference: BridgePlan) -> None:
    bridge, meters = difference.bridge, difference.meters
    changed = {number: meter for number, (_, meter) in meters.change.items()}
    openflow.apply_meters(bridge, add=meters.add, change=changed, delete=())
    openflow.apply_flows(bridge, add=difference.set, delete=difference.delete)
    openflow.apply_meters(bridge, add={}, change={}, delete=meters.remove)


class Cloud:
    """Hosts that share networks; every host gets the objects that the server would send it."""

    def __init__(
        self,
        *hosts: str,
        options: L2Options | None = None,
        features: DatapathFeatures | None = None,
        extensions: tuple[L2Extension, ...] = (),
    ) -> None:
        self.hosts = {
            name: FakeHost(
                name,
                tuple(peer for peer in hosts if peer != name),
                dataclasses.replace(options or L2Options(), host=name),
                extensions=(*BUILT_IN, *extensions),
            )
            for name in hosts
        }
        for host in self.hosts.values():
            host.switch.features = features or DatapathFeatures()
        self.arrived: set[str] = set()  # ports whose instance has arrived by live migration

    def apply(self, *objects: state.Object) -> None:
        """Apply the whole state of the cloud; a port has the name of its host."""
        for name, host in self.hosts.items():
            host.apply(self.state_for(name, objects))

    def state_for(self, name: str, objects: Iterable[state.Object]) -> HostState:
        objects = tuple(objects)
        ports = [entry for entry in objects if isinstance(entry, state.Port)]
        targets = {entry.id: entry.host for entry in ports if not entry.active}
        return HostState(
            networks={entry.id: entry for entry in objects if isinstance(entry, state.Network)},
            ports={entry.id: entry for entry in ports if entry.host == name},
            security_groups={entry.id: entry for entry in objects if isinstance(entry, state.SecurityGroup)},
            group_members={entry.id: entry for entry in objects if isinstance(entry, state.GroupMembers)},
            address_groups={entry.id: entry for entry in objects if isinstance(entry, state.AddressGroup)},
            dvr_macs={entry.id: entry for entry in objects if isinstance(entry, state.DvrMac)},
            extension_objects={
                "firewall_group": {entry.id: entry for entry in objects if isinstance(entry, FirewallGroup)},
                "log": {entry.id: entry for entry in objects if isinstance(entry, PacketLog)},
                "qos_policy": {entry.id: entry for entry in objects if isinstance(entry, QosPolicy)},
                "router": {entry.id: entry for entry in objects if isinstance(entry, Router)},
            },
            hosts={
                peer: state.Host(
                    id=peer,
                    tunneling_ip=f"192.0.2.{number}",
                    tunnel_types=TUNNEL_TYPES,
                )
                for number, peer in enumerate(self.hosts, 1)
                if peer != name
            },
            forwarding={
                entry.id: state.Forwarding(
                    id=entry.id,
                    network_id=entry.network_id,
                    host=entry.host,
                    mac_address=entry.mac_address,
                    ip_addresses=tuple(fixed.ip_address for fixed in entry.fixed_ips),
                    migrates_to=targets.get(entry.id, "") if entry.migrating else "",
                )
                for entry in ports
                if (entry.host != name or entry.migrating) and not entry.copy and not entry.distributed and entry.active
            },
            waiting={entry.id: entry.id in self.arrived for entry in ports if entry.host == name and not entry.active},
        )

    def send(self, host: str, port_name: str, packet: Packet) -> dict[str, Packet]:
        """The ports where a packet ends, with what arrives there."""
        return {port_name: arrived for _, port_name, arrived in self._deliveries(host, port_name, packet)}

    def receivers(self, host: str, port_name: str, packet: Packet) -> set[tuple[str, str]]:
        """The hosts and ports where a packet ends: a port that migrates is on two."""
        return {(place, name) for place, name, _ in self._deliveries(host, port_name, packet)}

    def _deliveries(self, host: str, port_name: str, packet: Packet) -> Iterator[tuple[str, str, Packet]]:
        waiting = [(host, delivery) for delivery in self.hosts[host].switch.send("br-int", port_name, packet)]
        while waiting:
            place, delivery = waiting.pop(0)
            ends = [
                other for other, one in self.hosts.items() if delivery.port in one.extension_ports and other != place
            ]
            if delivery.bridge == "br-int" and ends:  # a tunnel between two hosts
                entering = (self.hosts[end].switch.send("br-int", delivery.port, delivery.packet) for end in ends)
                waiting += [(end, each) for end, several in zip(ends, entering, strict=True) for each in several]
            elif delivery.bridge == "br-int":
                yield place, delivery.port, delivery.packet
            else:
                waiting += self._across(place, delivery)

    def on_wire(self, host: str, port_name: str, packet: Packet) -> list[Delivery]:
        """What leaves the host: into tunnels or the physical network."""
        return [d for d in self.hosts[host].switch.send("br-int", port_name, packet) if d.bridge != "br-int"]

    def _across(self, place: str, delivery: Delivery) -> list[tuple[str, Delivery]]:
        if delivery.bridge == "br-phys":
            others = [name for name in self.hosts if name != place]
            entry = "eth1"
        else:
            kind, _, peer = delivery.port.partition("-")
            others, entry = [peer], f"{kind}-{place}"
        return [
            (name, further)
            for name in others
            for further in self.hosts[name].switch.send(delivery.bridge, entry, delivery.packet)
        ]
