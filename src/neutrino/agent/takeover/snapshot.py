"""What Neutron's agents have made on a host, saved before it is converted: enough to give the host back to them.

Neutron's agents repair what differs when they are started. So the snapshot has what has to be there before that, for
packets to pass meanwhile: flows, rules of hybrid ports, iptables rules, addresses and routes of namespaces, and how daemons
were started.
"""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from neutrino import daemon_files, private
from neutrino.agent.takeover.daemons import SavedDaemon
from neutrino.agent.takeover.hybrid import SavedFirewall
from neutrino.agent.takeover.phase import directory
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import Address, Neighbour, ProxyNeighbour, Route, Rule
from neutrino.dataplane.openflow.api import Meter, OpenFlow, parse_flow

FILE: Final = "snapshot.json"
FORMAT: Final = 1
NAMESPACES: Final = ("qrouter-", "snat-", "fip-", "qdhcp-")
_MAX_BYTES: Final = 1 << 30


class SnapshotError(Exception):
    """There is no snapshot, or it cannot be used."""


@dataclasses.dataclass(frozen=True)
class SavedBridge:
    flows: tuple[str, ...]  # in the syntax of ovs-ofctl
    meters: dict[int, Meter] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class SavedNamespace:
    rules: dict[int, str]  # IP version, to the output of iptables-save
    devices: tuple[str, ...] = ()
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[Route] = frozenset()
    policy_rules: frozenset[Rule] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()
    proxies: frozenset[ProxyNeighbour] = frozenset()


@dataclasses.dataclass(frozen=True)
class HostSnapshot:
    taken_at: str
    bridges: dict[str, SavedBridge]
    namespaces: dict[str, SavedNamespace]
    daemons: tuple[SavedDaemon, ...] = ()
    hybrid: SavedFirewall = dataclasses.field(default_factory=SavedFirewall)
    instance_ports: dict[str, int] | None = None  # ofports by device; None: written before these were saved
    format: int = FORMAT

    def text(self) -> str:
        flows = sum(len(bridge.flows) for bridge in self.bridges.values())
        switch = f"{flows} flows of {len(self.bridges)} bridges"
        hybrid = f"iptables rules of {len(self.hybrid.devices())} hybrid ports, " if self.hybrid else ""
        return f"{switch}, {hybrid}{len(self.namespaces)} namespaces, {len(self.daemons)} daemons"


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads a host. Blocking."""

    openflow: OpenFlow
    netlink: Netlink
    read_daemons: Callable[[], tuple[SavedDaemon, ...]]
    save_rules: Callable[[str], dict[int, str]]  # the output of iptables-save in a namespace, by IP version
    read_hybrid: Callable[[], SavedFirewall]
    read_ports: Callable[[], dict[str, int]]  # ofports of instances, by device

    def read(self, bridges: Iterable[str], taken_at: str) -> HostSnapshot:
        names = sorted(name for name in self.netlink.namespaces() if name.startswith(NAMESPACES))
        return HostSnapshot(
            taken_at,
            {bridge: self._bridge(bridge) for bridge in bridges},
            {name: self._namespace(name) for name in names},
            self.read_daemons(),
            self.read_hybrid(),
            self.read_ports(),
        )

    def _bridge(self, name: str) -> SavedBridge:
        flows = self.openflow.read_flows(name, 0, 0)
        return SavedBridge(tuple(flow.text() for flow in sorted(flows)), self.openflow.read_meters(name))

    def _namespace(self, name: str) -> SavedNamespace:
        state = self.netlink.read(name)
        return SavedNamespace(
            self.save_rules(name),
            tuple(sorted(state.devices)),
            state.addresses,
            state.routes,
            state.rules,
            state.neighbours,
            state.proxies,
        )


def write_snapshot(state_path: str | Path, snapshot: HostSnapshot) -> Path:
    """Only its owner can read it: files of daemons have passwords."""
    private.own_directory(directory(state_path))
    path = directory(state_path) / FILE
    daemon_files.write(path, msgspec.json.encode(snapshot).decode())
    return path


def read_snapshot(state_path: str | Path) -> HostSnapshot:
    path = directory(state_path) / FILE
    text = daemon_files.read(path, _MAX_BYTES)
    if text is None:
        raise SnapshotError(f"there is no snapshot in {path.parent}: this host was not converted by this agent")
    try:
        snapshot = msgspec.json.decode(text, type=HostSnapshot)
        for bridge in snapshot.bridges.values():
            for line in bridge.flows:
                parse_flow(line)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SnapshotError(f"{path} cannot be read: {error}") from None
    if snapshot.format != FORMAT:
        raise SnapshotError(f"{path} was written by another release (format {snapshot.format})")
    return snapshot
