"""Open vSwitch's database in memory: keeps rows, numbers ports as the switch does, notifies listeners."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from neutrino.dataplane.ovsdb.api import (
    NO_TAG,
    Bridge,
    Change,
    ConfigurePort,
    DeleteBridge,
    DeletePort,
    DeleteUnused,
    Interface,
    Listener,
    OvsdbError,
    Port,
    SetBridge,
    SetControllers,
    SetManager,
    SetPort,
    SetVlanLimit,
    Snapshot,
    compare,
)


class FakeOvsdb:
    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._listeners: list[Listener] = []
        self.applied: list[tuple[Change, ...]] = []

    def read(self) -> Snapshot:
        return self._snapshot

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        self._listeners.clear()

    def set_capabilities(self, datapath_types: tuple[str, ...], interface_types: tuple[str, ...]) -> None:
        """As ovs-vswitchd writes them when it starts."""
        values = {"datapath_types": datapath_types, "interface_types": interface_types}
        self._snapshot = dataclasses.replace(self._snapshot, **values)

    def set_foreign_qos(self, name: str) -> None:
        """Another program gives a port a QoS row."""
        bridges = dict(self._snapshot.bridges)
        for bridge in self._snapshot.bridges.values():
            if name in bridge.ports:
                port = dataclasses.replace(bridge.ports[name], foreign_qos=True)
                bridges[bridge.name] = dataclasses.replace(bridge, ports={**bridge.ports, name: port})
        self._snapshot = dataclasses.replace(self._snapshot, bridges=bridges)

    def lose_device(self, name: str) -> None:
        """The device of a port is deleted: the switch cannot open it any more."""
        before = self._snapshot
        bridge, port, interface = before.interfaces()[name]
        lost = dataclasses.replace(port, interfaces=(dataclasses.replace(interface, ofport=-1),))
        ports = {**before.bridges[bridge].ports, name: lost}
        bridges = {**before.bridges, bridge: dataclasses.replace(before.bridges[bridge], ports=ports)}
        self._snapshot = dataclasses.replace(before, bridges=bridges)
        for listener in list(self._listeners):
            listener(compare(before, self._snapshot))

    def apply(self, changes: Iterable[Change], *, wait: float = 0.0) -> None:
        given = tuple(changes)
        bridges = dict(self._snapshot.bridges)
        for change in given:
            _carry_out(change, bridges)
        self.applied.append(given)
        managers = self._snapshot.managers.union(each.target for each in given if isinstance(each, SetManager))
        collected = {row for each in given if isinstance(each, DeleteUnused) for row in each.rows}
        # The rows of a deleted port's QoS stay, as QoS and Queue are root tables.
        present = {name for bridge in bridges.values() for name in bridge.ports}
        left = {f"QoS of {name}" for name in _shaped(self._snapshot.bridges) - present}
        unused = (self._snapshot.unused - collected) | left
        before = self._snapshot
        limits = [each.limit for each in given if isinstance(each, SetVlanLimit)]
        self._snapshot = dataclasses.replace(
            before,
            bridges=bridges,
            managers=managers,
            unused=frozenset(unused),
            vlan_limit=limits[-1] if limits else before.vlan_limit,
        )
        events = compare(before, self._snapshot)
        for listener in list(self._listeners) if events else []:
            listener(events)


def _shaped(bridges: Mapping[str, Bridge]) -> set[str]:
    """The ports that have a QoS row of ours."""
    return {port.name for bridge in bridges.values() for port in bridge.ports.values() if port.settings.qos is not None}


def _carry_out(change: Change, bridges: dict[str, Bridge]) -> None:
    match change:
        case SetBridge():
            bridges[change.name] = _set_bridge(change, bridges.get(change.name))
        case DeleteBridge():
            bridges.pop(change.name, None)
        case SetPort():
            bridge = _existing(bridges, change.bridge)
            if not change.make and change.name not in bridge.ports:
                return
            for other in bridges.values():
                if other.name != change.bridge and change.name in other.ports:
                    raise OvsdbError(f"port {change.name} is on bridge {other.name}")
            ports = {**bridge.ports, change.name: _set_port(change, bridge)}
            bridges[change.bridge] = dataclasses.replace(bridge, ports=ports)
        case SetControllers():
            if change.bridge in bridges:
                bridges[change.bridge] = dataclasses.replace(bridges[change.bridge], controllers=change.targets)
        case DeletePort():
            bridge = _existing(bridges, change.bridge)
            kept = {name: port for name, port in bridge.ports.items() if name != change.name}
            bridges[change.bridge] = dataclasses.replace(bridge, ports=kept)
        case ConfigurePort():
            for bridge in bridges.values():
                if change.name in bridge.ports:
                    port = dataclasses.replace(bridge.ports[change.name], settings=change.settings)
                    bridges[bridge.name] = dataclasses.replace(bridge, ports={**bridge.ports, change.name: port})
                    return


def _existing(bridges: dict[str, Bridge], name: str) -> Bridge:
    if name not in bridges:
        raise OvsdbError(f"bridge {name} does not exist")
    return bridges[name]


def _set_bridge(change: SetBridge, bridge: Bridge | None) -> Bridge:
    if bridge is None:
        local = Interface(change.name, type="internal", ofport=65534)
        bridge = Bridge(change.name, ports={change.name: Port(change.name, interfaces=(local,))})
    return dataclasses.replace(
        bridge,
        datapath_type=change.datapath_type or bridge.datapath_type,
        fail_mode=change.fail_mode or bridge.fail_mode,
        external_ids={**bridge.external_ids, **change.external_ids},
        other_config={**bridge.other_config, **change.other_config},
    )


def _set_port(change: SetPort, bridge: Bridge) -> Port:
    port = bridge.ports.get(change.name) or Port(change.name, interfaces=(Interface(change.name),))
    (interface, *others) = port.interfaces
    interface = dataclasses.replace(
        interface,
        type=change.type or interface.type,
        ofport=interface.ofport or _free_number(bridge),
        options={**interface.options, **change.options},
        external_ids={**interface.external_ids, **change.external_ids},
    )
    tag = port.tag if change.tag is None else change.tag
    return dataclasses.replace(
        port,
        tag=None if tag == NO_TAG else tag,
        trunks=change.trunks or port.trunks,
        other_config={**port.other_config, **change.other_config},
        interfaces=(interface, *others),
    )


def _free_number(bridge: Bridge) -> int:
    taken = {interface.ofport for port in bridge.ports.values() for interface in port.interfaces}
    return next(number for number in range(1, 65280) if number not in taken)
