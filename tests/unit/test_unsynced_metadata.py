"""The metadata role before the first `synced`: the process loses no socket, no network and no port; after it, it does."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from neutrino import __version__
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.metadata.channel import Channel, ChannelClosed, listen
from neutrino.agent.metadata.desired import MetadataNamespace
from neutrino.agent.metadata.messages import (
    AGENT_MESSAGES,
    AgentMessage,
    Close,
    Hello,
    Instance,
    Listen,
    ListenerState,
    ListenerStates,
    ProxySettings,
    SetSources,
    UpdatePorts,
)
from neutrino.agent.metadata.role import MetadataOptions, MetadataRole
from neutrino.agent.metadata.sockets import Opened
from neutrino.agent.supervisor import Supervisor
from neutrino.dataplane.process.api import Daemon
from neutrino.feed.state import StateChange
from neutrino.model.agents import METADATA, AgentState
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import Object
from tests.fakes.process import FakeProcesses
from tests.support.metadata import HOST, Feed, dhcp_port, network, port, router_of
from tests.support.unsynced import eventually

BLUE, RED = network("blue", "10.0.0.0/24", "fd00::/64"), network("red")
VM = port("blue", 5, "10.0.0.5")
ROUTED = port("green", 6, "10.0.1.6")
MARKER = port("red", 9, "10.0.0.9", device_id="the marker")  # in every cache: that it is known shows that all was told


@dataclass
class World:
    """The contents of a cache."""

    networks: tuple[DhcpNetwork, ...] = (BLUE, RED)
    routers: tuple[Router, ...] = (router_of("green", "yellow"),)
    ports: tuple[DhcpPort, ...] = (dhcp_port("blue"), dhcp_port("red"), VM, ROUTED)

    def objects(self) -> list[tuple[str, Object]]:
        several: list[tuple[str, Object]] = [("dhcp_network", each) for each in self.networks]
        several += [("router", each) for each in self.routers]
        return several + [("dhcp_port", each) for each in (*self.ports, MARKER)]


PORTS = World().ports
CAUSES = {
    "everything gone from the cache": World((), (), ()),
    "network gone": World(networks=(RED,)),
    "network's DHCP off": World(networks=(network("blue", enable_dhcp=False), RED)),
    "network moved to another host": World(ports=(dhcp_port("red"), VM, ROUTED)),
    "IPv6 subnet gone": World(networks=(network("blue"), RED)),
    "router gone": World(routers=()),
    "router's admin state down": World(routers=(router_of("green", "yellow", admin_state_up=False),)),
    "interface of the router gone": World(routers=(router_of("green"),)),
    "port gone": World(ports=tuple(each for each in PORTS if each != VM)),
    "port without an instance": World(
        ports=(*(each for each in PORTS if each != VM), msgspec.structs.replace(VM, device_id=""))
    ),
}


@dataclass
class MetadataProcess:
    """The proxy's side of the control socket; its state outlives agents."""

    path: Path
    listening: dict[str, ListenerState] = field(default_factory=dict)
    ports: dict[str, Instance] = field(default_factory=dict)
    growing: dict[str, Instance] | None = None

    def there(self) -> set[str]:
        found = {f"port {each}" for each in self.ports.values()}
        for key, each in self.listening.items():
            found |= {f"{key} asked by {each_network}" for each_network in each.sources.links.values()}
            found |= {f"{key} socket {kind}" for kind in each.sockets}
        return found

    async def run(self) -> None:
        control = listen(str(self.path))
        control.setblocking(False)
        with control:
            while True:
                connection, _ = await asyncio.get_running_loop().sock_accept(control)
                await self._talk(Channel(connection, AGENT_MESSAGES))

    async def _talk(self, channel: Channel[AgentMessage]) -> None:
        try:
            await channel.send(ListenerStates(dict(self.listening)))
            await channel.send(Hello(__version__))
            while True:
                message, descriptors = await channel.receive()
                for each in descriptors:
                    socket.close(each)
                self._do(message)
        except ChannelClosed:
            channel.close()

    def _do(self, message: AgentMessage) -> None:
        if isinstance(message, Listen):
            self.listening[message.key] = message.listening
        elif isinstance(message, SetSources):
            known = self.listening[message.key]
            self.listening[message.key] = msgspec.structs.replace(known, sources=message.sources)
        elif isinstance(message, Close):
            del self.listening[message.key]
        elif isinstance(message, UpdatePorts):
            self._take(message)

    def _take(self, message: UpdatePorts) -> None:
        if message.step == "begin":
            self.growing = {}
        ports = self.ports if self.growing is None else self.growing
        for key in message.gone:
            ports.pop(key, None)
        ports.update({each.port_id: each for each in message.put})
        if message.step == "end" and self.growing is not None:
            self.ports, self.growing = self.growing, None


class AnySockets:
    """Every namespace is there."""

    def inode(self, namespace: str) -> int | None:
        return 1

    def open(self, place: MetadataNamespace) -> Opened:
        kinds = ("ipv4", "ipv6") if place.ipv6 else ("ipv4",)
        return Opened(ListenerState(1, place.port, place.ipv6, kinds, place.sources), [])  # type: ignore[arg-type]


class Agent:
    def __init__(self, directory: Path, world: World, *, synced: bool) -> None:
        self.feed = Feed()
        dhcp = DhcpSettings(HOST, str(directory), enable_isolated_metadata=True)
        options = MetadataOptions(HOST, str(directory / "metadata_proxy"), 9697, dhcp, ProxySettings())
        described = AgentState(METADATA, "neutron-metadata-agent", HOST, "N/A")
        self.role = MetadataRole(
            self.feed,
            options,
            Daemon("metadata", ("metadata",)),
            Supervisor(FakeProcesses()),
            AnySockets(),
            described,
        )
        for kind, each in world.objects():
            self.feed.put(kind, each.id, each)
            self.role.changed(StateChange(kind, each.id, None, each))
        if synced:
            self.synced()

    def synced(self) -> None:
        self.feed.is_synced = True
        self.role.synced()

    async def __aenter__(self) -> Agent:
        self._task = asyncio.create_task(self.role.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def told(self) -> None:
        """Until the role has told everything: it then waits for something to change."""
        await eventually(lambda: not self.role._proxy_problem, "the role has not told the process everything")


@pytest.mark.parametrize("cause", CAUSES)
def test_nothing_is_taken_from_the_process_before_the_first_sync(cause: str, tmp_path: Path) -> None:
    process = MetadataProcess(tmp_path / "metadata_proxy")

    async def scenario() -> None:
        running = asyncio.create_task(process.run())
        try:
            async with Agent(tmp_path, World(), synced=True) as agent:
                await agent.told()
                await eventually(lambda: len(process.listening) == 3 and len(process.ports) == 3, "it has not all")
            before = process.there()
            async with Agent(tmp_path, CAUSES[cause], synced=False) as agent:
                await agent.told()
                news = port("red", 11, "10.0.0.11")  # what is told after it shows that all before was heard
                agent.feed.put("dhcp_port", news.id, news)
                agent.role.changed(StateChange("dhcp_port", news.id, None, news))
                await eventually(lambda: news.id in process.ports, "a port is not told")
                assert before - process.there() == set()
                agent.synced()
                await eventually(lambda: before - process.there(), "what the server does not want stays after the sync")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
