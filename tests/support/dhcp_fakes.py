"""The DHCP role on fakes: a dnsmasq in memory, whose process is the test's own, and the host around it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from neutrino.agent.dhcp import command
from neutrino.agent.dhcp.dnsmasq import Found
from neutrino.agent.dhcp.reconcile import Reconciler
from neutrino.agent.dhcp.role import DhcpRole
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.feed.state import StateChange
from neutrino.model.agents import DHCP, AgentState
from neutrino.model.state import Object
from tests.fakes.netlink import FakeNetlink
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.dhcp import HOST, settings
from tests.support.metadata import Feed


class FakeDnsmasq:
    """Its files and processes by network, as `Dnsmasq` shows them."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, str]] = {}
        self.commands: dict[str, tuple[str, ...]] = {}  # of those that run
        self.reloads: list[str] = []

    def networks(self) -> frozenset[str]:
        return frozenset(self.files)

    def read(self, network_id: str) -> Found:
        argv = self.commands.get(network_id)
        return Found(os.getpid() if argv else None, argv, dict(self.files.get(network_id, {})))

    def is_running(self, network_id: str) -> bool:
        return network_id in self.commands

    def write(self, network_id: str, files: Mapping[str, str]) -> None:
        self.files.setdefault(network_id, {}).update(files)

    def start(self, namespace: str, argv: Sequence[str]) -> None:
        network_id = namespace.removeprefix("qdhcp-")
        assert network_id not in self.commands
        self.commands[network_id] = tuple(argv)

    def reload(self, network_id: str) -> None:
        self.reloads.append(network_id)

    def stop(self, network_id: str) -> None:
        self.commands.pop(network_id, None)

    def forget(self, network_id: str) -> None:
        self.files.pop(network_id, None)

    def release(self, namespace: str, argv: Sequence[str]) -> None:
        """As from the client: the lease of that address is gone."""
        files = self.files[namespace.removeprefix("qdhcp-")]
        lines = files.get(command.LEASES, "").splitlines()
        files[command.LEASES] = "".join(f"{line}\n" for line in lines if not set(line.split()) & set(argv))


class DhcpHost:
    def __init__(self) -> None:
        self.netlink, self.ovsdb, self.dnsmasq = FakeNetlink(), FakeOvsdb(), FakeDnsmasq()
        self.ovsdb.apply([SetBridge("br-int")])
        self.restart()

    def restart(self) -> None:
        """An agent that remembers nothing but what the feed's cache does."""
        self.feed = Feed()
        self.reconciler = Reconciler(settings(use_veth=True), self.ovsdb, self.netlink, self.dnsmasq)  # type: ignore[arg-type]
        described = AgentState(DHCP, "neutron-dhcp-agent", HOST, "dhcp_agent")
        self.role = DhcpRole(self.feed, lambda: (self.ovsdb, self.reconciler), described)

    def cache(self, kind: str, *objects: Object) -> None:
        self.feed.state.objects[kind].update({each.id: each for each in objects})
        for each in objects:
            self.role.changed(StateChange(kind, each.id, None, each))

    def there(self) -> set[str]:
        """All that is on the host, a line for each thing."""
        found = {f"running {key} {argv}" for key, argv in self.dnsmasq.commands.items()}
        for key, files in self.dnsmasq.files.items():
            found |= {f"{key} {name} {line}" for name, text in files.items() for line in text.splitlines()}
        for name in self.netlink.namespaces():
            state = self.netlink.read(name)
            found |= {f"{name} device {each}" for each in state.devices}
            found |= {f"{name} address {each.device} {each.address}" for each in state.addresses}
            found |= {f"{name} {each}" for each in state.routes}
        return found | {f"plugged {name}" for bridge in self.ovsdb.read().bridges.values() for name in bridge.ports}
