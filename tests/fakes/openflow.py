"""An OpenFlow switch in memory: it takes flows like the real one, and forwards packets by them.

`send` puts a packet into a port and returns every port at which it, or a copy of it, leaves: after following patch ports
between bridges, recirculation through conntrack, learned flows and the MAC table behind NORMAL. A bridge forwards
nothing of its own accord, as one in secure fail mode.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from neutrino.dataplane.openflow.api import (
    DatapathFeatures,
    Flow,
    FlowsRejected,
    Meter,
    MetersRejected,
    OpenFlowError,
    PacketCount,
    flow,
)
from neutrino.dataplane.openflow.text import arguments, field_name, parse_number, parse_set_field, split_actions
from neutrino.model.rates import Counted
from tests.fakes.openflow_conntrack import FakeConntrack
from tests.fakes.openflow_tables import FakeTables
from tests.fakes.packet import Packet

_PRESENT = 0x1000
_LIMIT = 200  # resubmits of one packet
_ND_EXTENSION = {"nd_reserved", "nd_options_type"}
_METER = re.compile(r"(?:meter:|meter_id=)(\d+)")
_MAX_METER = 0xFFFF0000


@dataclasses.dataclass(frozen=True)
class FakePort:
    number: int
    name: str
    tag: int | None = None  # of an access port; None is a trunk
    peer: tuple[str, str] | None = None  # bridge and port at the other end of a patch
    tunnel: bool = False


@dataclasses.dataclass(frozen=True)
class Delivery:
    """A packet that left the switch."""

    bridge: str
    port: str
    packet: Packet
    queue: int = 0


class FakeBridge:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tables = FakeTables()
        self.ports: dict[int, FakePort] = {}
        self.macs: dict[tuple[int, int], int] = {}  # VLAN and address, to port
        self.meters: dict[int, Meter] = {}
        self.copied: list[tuple[int, int]] = []  # table and cookie of flows that sent a copy to a controller
        self.metered: Counter[int] = Counter()  # packets that each meter has seen; none is dropped for its rate

    def port_named(self, name: str) -> FakePort:
        return next(port for port in self.ports.values() if port.name == name)


class FakeSwitch:
    """Implements `OpenFlow` for any number of bridges that share a connection tracker, as those of one host do."""

    def __init__(self) -> None:
        self.counters: dict[str, dict[int, Counted]] = {}  # of ports, by bridge and number
        self.reads: list[str] = []  # bridges whose flows were read, not only counted
        self.bridges: dict[str, FakeBridge] = {}
        self.conntrack = FakeConntrack()
        self.features = DatapathFeatures()

    def add_bridge(self, name: str) -> FakeBridge:
        return self.bridges.setdefault(name, FakeBridge(name))

    def set_port(self, bridge: str, port: FakePort) -> None:
        self.bridges[bridge].ports[port.number] = port

    def read_flows(self, bridge: str, cookie: int, mask: int) -> frozenset[Flow]:
        self.reads.append(bridge)
        return self._selected(bridge, cookie, mask)

    def _selected(self, bridge: str, cookie: int, mask: int) -> frozenset[Flow]:
        flows = [*self._bridge(bridge).tables.flows.values()]  # a copy: a role may write in another thread meanwhile
        return frozenset(entry for entry in flows if entry.cookie & mask == cookie & mask)

    def count_flows(self, bridge: str, cookie: int, mask: int) -> int:
        return len(self._selected(bridge, cookie, mask))

    def count_packets(self, bridge: str, match: str, tables: Collection[int]) -> dict[str, PacketCount]:
        return {}  # it keeps no statistics of flows

    def read_port_counters(self, bridge: str) -> dict[int, Counted]:
        return {number: Counted() for number in self._bridge(bridge).ports} | self.counters.get(bridge, {})

    def apply_flows(self, bridge: str, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        tables, new = self._bridge(bridge).tables, [*add]
        reasons = {entry.key: "OFPBAC_BAD_SET_ARGUMENT" for entry in new if not self._supports(entry)}
        meters = self._bridge(bridge).meters
        unknown = (entry for entry in new if any(number not in meters for number in _meters_of(entry)))
        reasons |= {entry.key: "OFPMMFC_INVALID_METER" for entry in unknown}
        if reasons:
            raise FlowsRejected(", ".join(sorted({*reasons.values()})), reasons)
        tables.change(add=new, delete=delete)

    def flush_megaflows(self) -> None:
        """Nothing: packets are always looked up in the flows."""

    def read_meters(self, bridge: str) -> dict[int, Meter]:
        return dict(self._bridge(bridge).meters)

    def apply_meters(
        self, bridge: str, *, add: Mapping[int, Meter], change: Mapping[int, Meter], delete: Iterable[int]
    ) -> None:
        made = self._bridge(bridge)
        for number in delete:
            made.meters.pop(number, None)
            using = [entry for entry in made.tables.flows.values() if number in _meters_of(entry)]
            made.tables.change(add=[], delete=using)
        reasons = {number: "OFPMMFC_UNKNOWN_METER" for number in change if number not in made.meters}
        reasons |= {number: "OFPMMFC_METER_EXISTS" for number in add if number in made.meters}
        reasons |= {number: "OFPMMFC_INVALID_METER" for number in add if number > _MAX_METER}
        made.meters |= {number: meter for number, meter in {**change, **add}.items() if number not in reasons}
        if reasons:
            raise MetersRejected(reasons)

    def read_features(self, bridge: str) -> DatapathFeatures:
        self._bridge(bridge)
        return self.features

    def _supports(self, entry: Flow) -> bool:
        return self.features.nd_extension or not any(
            action.startswith("set_field:") and parse_set_field(action)[0] in _ND_EXTENSION
            for action in split_actions(entry.actions)
        )

    def send(self, bridge: str, port: str, packet: Packet) -> list[Delivery]:
        """Where a packet that enters a port leaves the switch."""
        journey = _Journey(self)
        journey.receive(self._bridge(bridge), self._bridge(bridge).port_named(port), packet)
        return journey.deliveries

    def _bridge(self, name: str) -> FakeBridge:
        if name not in self.bridges:
            raise OpenFlowError(f"{name} is not a bridge")
        return self.bridges[name]


def _meters_of(entry: Flow) -> set[int]:
    return {int(number) for number in _METER.findall(entry.actions)}


class _Journey:
    """One packet's way through the bridges, and where its copies came out."""

    def __init__(self, switch: FakeSwitch) -> None:
        self.switch = switch
        self.deliveries: list[Delivery] = []
        self._steps = 0

    def receive(self, bridge: FakeBridge, port: FakePort, packet: Packet, queue: int = 0) -> None:
        fields = {**packet.fields, "in_port": port.number}
        if not port.tunnel:
            fields.pop("tun_id", None)
        copy = _Copy(self, bridge, dataclasses.replace(packet, fields=fields))
        copy.queue = queue  # a patch port keeps it
        copy.table(0)

    def leave(self, bridge: FakeBridge, port: FakePort, packet: Packet, queue: int = 0) -> None:
        if port.peer is not None:
            peer_bridge = self.switch.bridges[port.peer[0]]
            self.receive(peer_bridge, peer_bridge.port_named(port.peer[1]), packet, queue)
            return
        self.deliveries.append(Delivery(bridge.name, port.name, packet, queue))

    def step(self) -> None:
        self._steps += 1
        if self._steps > _LIMIT:
            raise RuntimeError("the packet is in a loop")


class _Copy:
    """A packet inside one bridge: its fields and registers, changed as actions run."""

    def __init__(self, journey: _Journey, bridge: FakeBridge, packet: Packet) -> None:
        self._journey = journey
        self._bridge = bridge
        self._packet = packet
        self.fields = dict(packet.fields)
        self.tags = packet.inner_tags
        self.queue = 0

    def table(self, number: int) -> None:
        self._journey.step()
        found = self._bridge.tables.look_up(number, self.fields)
        if found is not None:
            self._found = found
            self.run(found.actions)

    def run(self, actions: str) -> None:
        for action in split_actions(actions):
            self._act(action)

    def _act(self, action: str) -> None:
        name = action.partition("(")[0].partition(":")[0]
        if name == "resubmit":
            self.table(int(arguments(action).partition(",")[2]))
        elif name == "set_field":
            self._set(action)
        elif name == "move":
            source, _, target = action.removeprefix("move:").partition("->")
            self.fields[field_name(target)] = self.fields.get(field_name(source), 0)
        elif name == "push_vlan":
            self.tags = (self.fields["vlan_tci"], *self.tags) if self.fields.get("vlan_tci", 0) else self.tags
            self.fields["vlan_tci"] = _PRESENT
        elif name == "pop_vlan":
            self.fields["vlan_tci"], self.tags = (self.tags[0], self.tags[1:]) if self.tags else (0, ())
        elif name == "output":
            self._output(action.removeprefix("output:"))
        elif name == "clone":
            self._clone().run(arguments(action))
        elif name == "ct_clear":
            self.fields = {field: value for field, value in self.fields.items() if not field.startswith("ct_")}
        elif name == "ct":
            self._track(split_actions(arguments(action)))
        elif name == "learn":
            self._learn(split_actions(arguments(action)))
        elif name == "meter":
            self._bridge.metered[int(action.removeprefix("meter:"))] += 1
        elif name == "controller":
            self._bridge.copied.append((self._found.table, self._found.cookie))
        elif name == "set_queue":
            self.queue = int(action.removeprefix("set_queue:"))
        elif name == "NORMAL":
            self._normal()
        elif name == "IN_PORT":
            self._leave(self._bridge.ports[self.fields["in_port"]])
        elif name != "drop":
            raise NotImplementedError(f"action {action!r}")

    def _clone(self) -> _Copy:
        copy = _Copy(self._journey, self._bridge, dataclasses.replace(self._packet, fields=self.fields))
        copy.tags, copy.queue = self.tags, self.queue
        return copy

    def _set(self, action: str) -> None:
        field, number = parse_set_field(action)
        if field == "vlan_vid":
            self.fields["vlan_tci"] = number
        else:
            self.fields[field] = number

    def _output(self, target: str) -> None:
        number = int(target) if target.isdigit() else self.fields.get(field_name(target), 0)
        port = self._bridge.ports.get(number)
        if port is not None and number != self.fields["in_port"]:
            self._leave(port)

    def _leave(self, port: FakePort) -> None:
        self._journey.leave(self._bridge, port, self._outside(self.fields, port), self.queue)

    def _outside(self, fields: dict[str, int], port: FakePort) -> Packet:
        """The packet without what it carries only inside a bridge."""
        hidden = {"in_port", "conj_id", "metadata", *(name for name in fields if name.startswith("ct_"))}
        if not port.tunnel:
            hidden.add("tun_id")
        seen = {name: value for name, value in fields.items() if name not in hidden and not name.startswith("reg")}
        if not seen.get("vlan_tci"):
            seen.pop("vlan_tci", None)
        return dataclasses.replace(self._packet, fields=seen, inner_tags=self.tags)

    # --- connections ---

    def _track(self, parts: tuple[str, ...]) -> None:
        settings = dict(part.partition("=")[::2] for part in parts if not part.startswith(("exec(", "nat")))
        nat = next((part for part in parts if part.startswith("nat")), "")
        zone = self._zone(settings.get("zone", "0"))
        packet = dataclasses.replace(self._packet, fields=self.fields)
        conntrack = self._journey.switch.conntrack
        if "commit" in settings:
            inner = [part for part in parts if part.startswith("exec(")]
            marks = [parse_set_field(action)[1] for part in inner for action in split_actions(arguments(part))]
            to = parse_number("nw_dst", arguments(nat).removeprefix("dst=")) if "dst=" in nat else None
            conntrack.commit(zone, packet, marks[-1] if marks else None, to)
        if "table" in settings:
            state, mark = conntrack.look_up(zone, packet)
            copy = self._clone()
            copy.fields |= {"ct_state": state, "ct_mark": mark, "ct_zone": zone, **conntrack.original(zone, packet)}
            copy.fields |= conntrack.translate(zone, packet) if nat else {}
            copy.table(int(settings["table"]))

    def _zone(self, text: str) -> int:
        return int(text, 0) if text[0].isdigit() else self.fields.get(field_name(text), 0) & 0xFFFF

    # --- learning ---

    def _learn(self, parts: tuple[str, ...]) -> None:
        settings: dict[str, int] = {}
        match: list[str] = []
        actions: list[str] = []
        for part in parts:
            left, equals, right = part.partition("=")
            if part.startswith("output:"):
                actions.append(f"output:{self.fields[field_name(part.removeprefix('output:'))]}")
            elif part.startswith("load:"):
                value, _, target = part.removeprefix("load:").partition("->")
                actions.append(self._learned_load(value, target))
            elif equals and left.islower():
                settings[left] = int(right, 0)
            elif equals:
                match.append(f"{field_name(left)}={Packet(self.fields)[right]}")
            elif part.startswith("NXM_OF_VLAN_TCI"):  # [0..11]: without its priority bits and the one that it is there
                match.append(f"vlan_tci={self.fields['vlan_tci'] & 0xFFF:#x}/0xfff")
            elif part != "delete_learned":  # see FakeTables
                match.append(f"{field_name(part)}={self.fields.get(field_name(part), 0)}")
        learned = flow(
            settings["table"], settings["priority"], ",".join(match), ",".join(actions), cookie=settings["cookie"]
        )
        self._bridge.tables.change(add=[learned], delete=[])

    def _learned_load(self, value: str, target: str) -> str:
        number = int(value, 0) if value[0].isdigit() else self.fields.get(field_name(value), 0)
        if target.startswith("NXM_OF_VLAN_TCI"):
            return f"push_vlan:0x8100,set_field:{number & 0x1FFF}->vlan_vid" if number & _PRESENT else "pop_vlan"
        return f"set_field:{number}->{field_name(target)}"

    # --- a switch that learns ---

    def _normal(self) -> None:
        source = self._bridge.ports[self.fields["in_port"]]
        tci = self.fields.get("vlan_tci", 0)
        if source.tag is not None and tci & _PRESENT:
            return  # an access port takes no tags
        vlan = source.tag if source.tag is not None else tci & 0xFFF
        self._bridge.macs[vlan, self.fields["dl_src"]] = source.number
        known = self._bridge.macs.get((vlan, self.fields["dl_dst"]))
        for port in list(self._bridge.ports.values()):
            member = port.tag in (None, vlan)
            if port.number != source.number and member and known in (None, port.number):
                tag = _PRESENT | vlan if port.tag is None and vlan else 0
                fields = {**self.fields, "vlan_tci": tag}
                self._journey.leave(self._bridge, port, self._outside(fields, port), self.queue)
