"""A whole Open vSwitch in memory: the fake database and the fake switch, which follows it as ovs-vswitchd does.

A port that is added to the database appears in the switch under its number, with its tag and its patch; packets can be sent
into it at once. A bridge that gets its first controller, or loses its last one, loses its flows. For tests of what runs
on a host, and for hosts that are simulated in numbers.
"""

from __future__ import annotations

from neutrino.dataplane.ovsdb.api import Interface, InterfaceEvent, Port, Snapshot
from tests.fakes.conntrack import FakeOvsConntrack
from tests.fakes.openflow import FakePort, FakeSwitch
from tests.fakes.ovsdb import FakeOvsdb

_TUNNELS = ("gre", "vxlan", "geneve")


class FakeOpenVSwitch:
    """`ovsdb`, `openflow` and `conntrack` are the drivers that an agent takes."""

    def __init__(self) -> None:
        self.ovsdb = FakeOvsdb()
        self.openflow = FakeSwitch()
        self.conntrack = FakeOvsConntrack(self.openflow.conntrack)
        self._controlled: dict[str, bool] = {}  # bridges, and whether they have a controller
        self.ovsdb.subscribe(self._follow)

    def restart(self) -> None:
        """As when ovs-vswitchd is restarted: the configuration stays, flows and connections are gone."""
        self.openflow.bridges.clear()
        self.openflow.conntrack.flush()
        self._follow(())

    def _follow(self, _: tuple[InterfaceEvent, ...]) -> None:
        snapshot = self.ovsdb.read()
        for name in [*self.openflow.bridges]:
            if name not in snapshot.bridges:
                del self.openflow.bridges[name]
        places = {name: bridge for name, (bridge, _, _) in snapshot.interfaces().items()}
        for bridge in snapshot.bridges.values():
            made = self.openflow.add_bridge(bridge.name)
            if self._controlled.get(bridge.name, False) != bool(bridge.controllers):
                made.tables.flows.clear()
            self._controlled[bridge.name] = bool(bridge.controllers)
            made.ports = {
                interface.ofport: _fake_port(port, interface, places)
                for port in bridge.ports.values()
                for interface in port.interfaces
                if interface.ofport is not None and interface.name != bridge.name
            }

    @property
    def snapshot(self) -> Snapshot:
        return self.ovsdb.read()


def _fake_port(port: Port, interface: Interface, places: dict[str, str]) -> FakePort:
    peer = interface.options.get("peer", "")
    return FakePort(
        number=interface.ofport or 0,
        name=interface.name,
        tag=port.tag,
        peer=(places[peer], peer) if interface.type == "patch" and peer in places else None,
        tunnel=interface.type in _TUNNELS,
    )
