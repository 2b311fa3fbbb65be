"""The DHCP role on fakes: daemons, switch and namespaces in memory, dnsmasq's files in a temporary directory."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.dhcp.extension_api import DhcpExtension
from neutrino.agent.dhcp.reconcile import Reconciler
from neutrino.agent.dhcp.render import LEASES
from neutrino.agent.dhcp.role import DhcpRole
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.feed.state import StateChange
from neutrino.model.agents import DHCP, AgentState
from neutrino.model.state import Object
from tests.fakes.netlink import FakeNetlink
from tests.fakes.ovsdb import FakeOvsdb
from tests.fakes.process import FakeProcesses
from tests.support.dhcp import HOST, settings
from tests.support.metadata import Feed
from tests.support.unsynced import files_below

NOTES = ("pid", "pid.loaded", "dnsmasq.log")  # files that are about the process, not about the network


class FakeReleases(Dnsmasq):
    """Releases a lease as the running dnsmasq would: it is removed from the file."""

    def release(self, namespace: str, argv: Sequence[str]) -> None:
        path = self._directory / namespace.removeprefix("qdhcp-") / LEASES
        lines = path.read_text().splitlines()
        path.write_text("".join(f"{line}\n" for line in lines if not set(line.split()) & set(argv)))


class DhcpHost:
    def __init__(self, extensions: Collection[DhcpExtension] = ()) -> None:
        self._temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self._temporary.name) / "dhcp"
        self.netlink, self.ovsdb, self.processes = FakeNetlink(), FakeOvsdb(), FakeProcesses()
        self.extensions = extensions
        self.ovsdb.apply([SetBridge("br-int")])
        self.restart()

    def restart(self) -> None:
        """An agent that has lost its memory, but for the feed's cache."""
        self.feed = Feed()
        self.settings = settings(use_veth=True, dhcp_confs=str(self.directory))
        dnsmasq = FakeReleases(str(self.directory), None)  # type: ignore[arg-type]
        services = ServiceNamespaces(self.netlink, lambda: self.ovsdb)
        self.reconciler = Reconciler(self.settings, services, self.processes, dnsmasq, extensions=self.extensions)
        described = AgentState(DHCP, "neutron-dhcp-agent", HOST, "dhcp_agent")
        self.role = DhcpRole(self.feed, self.reconciler, described)

    def cache(self, kind: str, *objects: Object) -> None:
        self.feed.state.objects[kind].update({each.id: each for each in objects})
        for each in objects:
            self.role.changed(StateChange(kind, each.id, None, each))

    def is_running(self, network_id: str) -> bool:
        return f"dnsmasq {network_id}" in self.processes.running()

    def reloads(self) -> list[str]:
        return [name for name, number in self.processes.signals if number == signal.SIGHUP]

    def file(self, network_id: str, name: str) -> str:
        return (self.directory / network_id / name).read_text()

    def actual(self) -> set[str]:
        """The actual state of the host, a line for each thing."""
        argv = {daemon.name: daemon.argv for daemon in self.processes.started}
        found = {f"running {name} {argv[name]}" for name in self.processes.running()}
        for path, text in files_below(self.directory).items():
            if path.name not in NOTES:
                found |= {f"{path.parent.name} {path.name} {line}" for line in text.splitlines()}
        for name in self.netlink.namespaces():
            try:
                state = self.netlink.read(name)
            except NetlinkError:
                continue  # the role has removed it meanwhile
            found |= {f"{name} device {each}" for each in state.devices}
            found |= {f"{name} address {each.device} {each.address}" for each in state.addresses}
            found |= {f"{name} {each}" for each in state.routes}
        return found | {f"plugged {name}" for bridge in self.ovsdb.read().bridges.values() for name in bridge.ports}
