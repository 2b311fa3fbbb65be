"""The metadata role before the first `synced`: the proxy loses no socket, network or port; after it, it does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from neutrino import __version__
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.metadata.channel import Channel, ChannelClosed, connect, listen
from neutrino.agent.metadata.haproxy import NeutronProxies
from neutrino.agent.metadata.messages import (
    AGENT_MESSAGES,
    PROXY_MESSAGES,
    AgentMessage,
    Hello,
    Instance,
    Listener,
    ProxySettings,
    SetListener,
    UpdatePorts,
)
from neutrino.agent.metadata.role import MetadataOptions, MetadataRole
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.process.api import Daemon, ForeignProcess
from neutrino.feed.state import StateChange
from neutrino.model.agents import METADATA, AgentState
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import Object
from tests.fakes.process import FakeProcesses
from tests.support.metadata import HOST, Feed, dhcp_port, network, port, router_of
from tests.support.unsynced import eventually

HAPROXY = ForeignProcess(11, ("haproxy", "-f", "/var/lib/neutron/ns-metadata-proxy/blue.conf"))
OPERATORS = ForeignProcess(12, ("haproxy", "-f", "/etc/haproxy/haproxy.cfg"))
BLUE, RED = network("blue", "10.0.0.0/24", "fd00::/64"), network("red")
VM = port("blue", 5, "10.0.0.5")
ROUTED = port("green", 6, "10.0.1.6")
MARKER = port(
    "red", 9, "10.0.0.9", device_id="the marker"
)  # in every cache: once the proxy has it, everything was sent


@dataclass
class Cache:
    """The contents of a cache."""

    networks: tuple[DhcpNetwork, ...] = (BLUE, RED)
    routers: tuple[Router, ...] = (router_of("green", "yellow"),)
    ports: tuple[DhcpPort, ...] = (dhcp_port("blue"), dhcp_port("red"), VM, ROUTED)

    def objects(self) -> list[tuple[str, Object]]:
        several: list[tuple[str, Object]] = [("dhcp_network", each) for each in self.networks]
        several += [("router", each) for each in self.routers]
        return several + [("dhcp_port", each) for each in (*self.ports, MARKER)]


PORTS = Cache().ports
CAUSES = {
    "everything gone from the cache": Cache((), (), ()),
    "network gone": Cache(networks=(RED,)),
    "network's DHCP off": Cache(networks=(network("blue", enable_dhcp=False), RED)),
    "network moved to another host": Cache(ports=(dhcp_port("red"), VM, ROUTED)),
    "IPv6 subnet gone": Cache(networks=(network("blue"), RED)),
    "router gone": Cache(routers=()),
    "router's admin state down": Cache(routers=(router_of("green", "yellow", admin_state_up=False),)),
    "interface of the router gone": Cache(routers=(router_of("green"),)),
    "port gone": Cache(ports=tuple(each for each in PORTS if each != VM)),
    "port without an instance": Cache(
        ports=(*(each for each in PORTS if each != VM), msgspec.structs.replace(VM, device_id=""))
    ),
}


@dataclass
class MetadataProcess:
    """The proxy's side of the control socket; its state outlives agents."""

    path: Path
    listeners: dict[str, Listener] = field(default_factory=dict)
    ports: dict[str, Instance] = field(default_factory=dict)
    stopped: bool = False

    def state(self) -> set[str]:
        found = {f"port {each}" for each in list(self.ports.values())}
        for key, each in dict(self.listeners).items():
            found |= {f"{key} serves {each_network}" for each_network in each.sources.links.values()}
            found |= {f"{key} IPv4"} | ({f"{key} IPv6"} if each.ipv6 else set())
        return found

    def run(self) -> None:
        """In a thread, until the agents' test is over."""
        with listen(str(self.path)) as control:
            while True:
                connection, _ = control.accept()
                with connection, contextlib.suppress(ChannelClosed):
                    if self.stopped:
                        return
                    self._serve(Channel(connection, AGENT_MESSAGES))

    def stop(self) -> None:
        self.stopped = True
        connect(str(self.path), PROXY_MESSAGES, 1.0).socket.close()

    def _serve(self, channel: Channel[AgentMessage]) -> None:
        channel.send(Hello(__version__, self.listeners))
        while True:
            message, descriptors = channel.receive()
            for each in descriptors:
                socket.close(each)
            self._handle(message)

    def _handle(self, message: AgentMessage) -> None:
        if isinstance(message, SetListener) and message.listener is not None:
            self.listeners[message.namespace] = message.listener
        elif isinstance(message, SetListener):
            del self.listeners[message.namespace]
        elif isinstance(message, UpdatePorts):
            kept = {} if message.snapshot else self.ports
            self.ports = {key: each for key, each in kept.items() if key not in message.gone}
            self.ports.update({each.port_id: each for each in message.put})


class AnySockets:
    """Every namespace exists."""

    def inode(self, namespace: str) -> int | None:
        return 1

    def open(self, namespace: str, wanted: Listener) -> tuple[Listener, list[socket.socket]]:
        return msgspec.structs.replace(wanted, inode=1), []


class Agent:
    """The role on a host with haproxy processes of Neutron's agents."""

    def __init__(self, directory: Path, cache: Cache, *, synced: bool) -> None:
        self.feed = Feed()
        self.signals: list[tuple[ForeignProcess, int]] = []
        dhcp = DhcpSettings(HOST, str(directory), enable_isolated_metadata=True)
        options = MetadataOptions(str(directory / "metadata_proxy"), 9697, dhcp, ProxySettings())
        described = AgentState(METADATA, "neutron-metadata-agent", HOST, "N/A")
        self.role = MetadataRole(
            self.feed,
            options,
            Daemon("metadata", ("metadata",)),
            Supervisor(FakeProcesses()),
            AnySockets(),
            NeutronProxies(self),
            described,
        )
        for kind, each in cache.objects():
            self.feed.put(kind, each.id, each)
            self.role.changed(StateChange(kind, each.id, None, each))
        if synced:
            self.synced()

    def inside(self, namespace: str) -> list[ForeignProcess]:
        return [HAPROXY, OPERATORS] if namespace == "qdhcp-blue" else []

    def by_namespace(self, namespaces: Collection[str]) -> dict[str, list[ForeignProcess]]:
        return {name: self.inside(name) for name in namespaces}

    def send(self, process: ForeignProcess, number: int) -> bool:
        self.signals.append((process, number))
        return True

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        raise AssertionError("requests would be broken off")

    def synced(self) -> None:
        self.feed.is_synced = True
        self.role.synced()

    async def __aenter__(self) -> Agent:
        self._task = asyncio.create_task(self.role.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def has_sent(self) -> None:
        """Wait until the role has sent everything, and waits for a change."""
        await eventually(lambda: not self.role._proxy_problem, "the role has not sent everything")


@pytest.mark.parametrize("cause", CAUSES)
def test_nothing_is_removed_from_the_proxy_before_the_first_sync(cause: str, tmp_path: Path) -> None:
    process = MetadataProcess(tmp_path / "metadata_proxy")

    async def scenario() -> None:
        running = asyncio.create_task(asyncio.to_thread(process.run))
        await eventually(process.path.exists, "the proxy does not listen")
        try:
            async with Agent(tmp_path, Cache(), synced=True) as agent:
                await agent.has_sent()
                await eventually(lambda: len(process.listeners) == 3 and len(process.ports) == 3, "incomplete")
            before = process.state()
            async with Agent(tmp_path, CAUSES[cause], synced=False) as agent:
                await agent.has_sent()
                new = port("red", 11, "10.0.0.11")  # once the proxy has it, everything before was received
                agent.feed.put("dhcp_port", new.id, new)
                agent.role.changed(StateChange("dhcp_port", new.id, None, new))
                await eventually(lambda: new.id in process.ports, "a port is not sent")
                assert before - process.state() == set()
                agent.synced()
                await eventually(lambda: before - process.state(), "stale state stays after the sync")
        finally:
            process.stop()
            await running

    asyncio.run(scenario())


def test_neutrons_haproxy_is_ended_after_the_first_sync_when_ours_listens(tmp_path: Path) -> None:
    process = MetadataProcess(tmp_path / "metadata_proxy")

    async def scenario() -> None:
        running = asyncio.create_task(asyncio.to_thread(process.run))
        await eventually(process.path.exists, "the proxy does not listen")
        try:
            async with Agent(tmp_path, Cache(), synced=False) as agent:
                await agent.has_sent()
                await eventually(lambda: "qdhcp-blue" in process.listeners, "the proxy does not listen there")
                assert agent.signals == []
                agent.synced()
                await eventually(lambda: bool(agent.signals), "haproxy is not ended")
                assert agent.signals == [(HAPROXY, signal.SIGUSR1)]
            async with Agent(tmp_path, Cache(), synced=True) as agent:  # an agent that was killed in between
                await eventually(lambda: agent.signals == [(HAPROXY, signal.SIGUSR1)], "haproxy is not ended")
        finally:
            process.stop()
            await running

    asyncio.run(scenario())


class IncompatibleProcess(MetadataProcess):
    """A proxy of a release with other messages."""

    def _serve(self, channel: Channel[AgentMessage]) -> None:
        channel.send(UpdatePorts())


def test_a_proxy_whose_first_message_cannot_be_read_is_restarted(tmp_path: Path) -> None:
    """Without that, the agent would connect to it again and again."""
    process = IncompatibleProcess(tmp_path / "metadata_proxy")

    async def scenario() -> None:
        running = asyncio.create_task(asyncio.to_thread(process.run))
        await eventually(process.path.exists, "the proxy does not listen")
        try:
            async with Agent(tmp_path, Cache(), synced=True) as agent:
                processes = agent.role.supervisor.processes
                assert isinstance(processes, FakeProcesses)
                await eventually(lambda: len(processes.started) > 1, "the proxy is not restarted")
        finally:
            process.stop()
            await running

    asyncio.run(scenario())
