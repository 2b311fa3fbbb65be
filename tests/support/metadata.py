"""The metadata role with a real proxy, namespaces, and a Nova that checks signatures: for tests and the bench."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.metadata.haproxy import NeutronProxies
from neutrino.agent.metadata.messages import ProxySettings, RateLimit, Timeouts
from neutrino.agent.metadata.role import MetadataOptions, MetadataRole
from neutrino.agent.metadata.sockets import NamespaceSockets
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.netlink.api import SetDevice, SetItem, SetVeth
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.netlink.values import HOST as MACHINE
from neutrino.dataplane.netlink.values import address
from neutrino.dataplane.process.api import Daemon
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses
from neutrino.feed.state import State, StateChange
from neutrino.model.agents import METADATA, AgentState
from neutrino.model.dhcp import OWNER, DhcpNetwork, DhcpPort, device_id
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic, Router, RouterAddress, RouterInterface
from neutrino.model.state import FixedIp, Object, Subnet
from tests.support.nova_metadata import NovaMetadata

HOST = "h1"
SECRET = "a secret that is shared"
MAC_OF_DHCP = "fa:16:3e:00:00:01"
ADDRESSES = ("10.0.0.2/24", "169.254.169.254/32")  # of a DHCP namespace
TIMES = Timeouts(2, 5, 2, 5, 5)


class Feed:
    """The feed as the role sees it, with the test as the server."""

    def __init__(self) -> None:
        self.state = State()
        self.is_synced = False
        self.position = 1
        self.errors: list[tuple[str, str, str]] = []
        self.up: dict[str, int] = {}  # ports reported as up, with the revision
        self.ready: list[tuple[str, int]] = []  # ports reported as ready by the DHCP role, with the revision
        self.plugged: dict[str, int] = {}  # ports reported as plugged, with an inactive binding
        self.down: dict[str, str] = {}  # ports reported as down, with the reason
        self.role: MetadataRole | None = None

    def port_up(self, port_id: str, revision: int, *, inactive: bool = False) -> None:
        (self.plugged if inactive else self.up)[port_id] = revision

    def port_down(self, port_id: str, reason: str = "") -> None:
        self.down[port_id] = reason

    def port_ready(self, port_id: str, revision: int) -> None:
        self.ready.append((port_id, revision))

    def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "", role: str = "") -> None: ...

    def rates(self, seconds: int, ports: Mapping[str, Counted], tunnels: Mapping[str, Counted]) -> None: ...

    def traffic(self, counters: Sequence[MeteredTraffic], *, granular: bool) -> None: ...

    @property
    def is_traffic_acknowledged(self) -> bool:
        return True

    def error(self, kind: str, key: str, text: str) -> None:
        self.errors.append((kind, key, text))

    def put(self, kind: str, key: str, value: Object | None) -> None:
        old = self.state.objects[kind].get(key)
        if value is None:
            self.state.objects[kind].pop(key, None)
        else:
            self.state.objects[kind][key] = value
        if self.role is not None:
            self.role.changed(StateChange(kind, key, old, value))

    def synced(self) -> None:
        self.is_synced = True
        if self.role is not None:
            self.role.synced()


@contextlib.contextmanager
def nova(secret: str = SECRET) -> Iterator[NovaMetadata]:
    with NovaMetadata(("127.0.0.1", 0), secret) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def port(network_id: str, number: int, *addresses: str, **more: Any) -> DhcpPort:
    """An instance's port; the instance's id is in its device_id."""
    values: dict[str, Any] = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"port {network_id} {number}")),
        "network_id": network_id,
        "mac_address": f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}",
        "project_id": "project-1",
        "device_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"instance {network_id} {number}")),
        "device_owner": "compute:nova",
        "fixed_ips": tuple(FixedIp("subnet", text) for text in addresses),
    }
    return DhcpPort(**(values | more))


def network(network_id: str, *cidrs: str, **more: Any) -> DhcpNetwork:
    subnets = tuple(
        Subnet(id=f"{network_id}-{cidr}", network_id=network_id, ip_version=6 if ":" in cidr else 4, cidr=cidr, **more)
        for cidr in cidrs or ("10.0.0.0/24",)
    )
    return DhcpNetwork(id=network_id, project_id="project-1", subnets=subnets)


def dhcp_port(network_id: str) -> DhcpPort:
    own = {"device_owner": OWNER, "device_id": device_id(HOST, network_id), "mac_address": MAC_OF_DHCP}
    return port(network_id, 1, "10.0.0.2", **own)


class Host:
    """A host: its namespaces, its metadata process and, while `agent` runs, its agent."""

    _links = itertools.count()

    def __init__(self, directory: Path, settings: ProxySettings, **dhcp: Any) -> None:
        self.feed = Feed()
        self.directory = directory
        self.namespaces = Namespaces(str(directory / "netns"))
        self.netlink = RealNetlink(self.namespaces)
        self.processes = RealProcesses(str(directory), self.namespaces)
        self.monitor = directory / "monitor"
        self._mark = uuid.uuid4().hex[:6]
        self.options = MetadataOptions(
            socket=str(directory / "metadata_proxy"),
            metadata_port=9697,
            dhcp=DhcpSettings(HOST, str(directory), **({"enable_isolated_metadata": True} | dhcp)),
            settings=settings,
        )
        self.daemon = Daemon(
            "metadata",
            (
                *(sys.executable, "-m", "neutrino.cli.main", "metadata", "--socket", self.options.socket),
                *("--user", "65534", "--group", "65534", "--monitor-file", str(self.monitor)),
                *("--monitor-interval", "0.1"),
            ),
            log_file=str(directory / "metadata.log"),
        )

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[MetadataRole]:
        watch = Supervisor(self.processes)
        state = AgentState(METADATA, "neutron-metadata-agent", HOST, "N/A")
        sockets, neutron = NamespaceSockets(self.namespaces), NeutronProxies(RealForeignProcesses(self.namespaces))
        role = MetadataRole(self.feed, self.options, self.daemon, watch, sockets, neutron, state)
        self.feed.role = role
        task = asyncio.create_task(role.run())
        try:
            if self.feed.is_synced:
                role.synced()
            yield role
            assert not task.done(), task.result()
        finally:
            self.feed.role = None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def pid(self) -> int | None:
        found = self.processes.find("metadata")
        return found.pid if found is not None else None

    def close(self) -> None:
        found = self.processes.find("metadata")
        if found is not None:
            self.processes.stop(found, patience=1)
        for name in self.namespaces.names():
            self.namespaces.delete(name)
        subprocess.run(["umount", "--lazy", self.namespaces.directory], check=False, capture_output=True)

    # --- the dataplane ----------------------------------------------------------------------------------------------

    def namespace(self, name: str, *addresses: str) -> None:
        """One to be served from, with a bridge that instances are plugged into; it has these addresses."""
        self.netlink.create_namespace(name)
        self.netlink.apply(name, [SetDevice("lo", up=True)])
        self.link(name, "br0", *addresses)

    def link(self, name: str, bridge: str, *addresses: str) -> None:
        """A further bridge there, as a device of that name with these addresses."""
        self.run(name, "ip", "link", "add", bridge, "type", "bridge")
        self.run(name, "ip", "link", "set", bridge, "address", MAC_OF_DHCP)
        self.netlink.apply(name, [SetDevice(bridge, up=True)])
        self.netlink.apply(name, [SetItem(address(bridge, text, nodad=True)) for text in addresses])

    def instance(self, name: str, at: str, this: DhcpPort, *routes: str, bridge: str = "br0") -> None:
        """A namespace with the port's MAC and addresses, on the bridge of another; routes lead to that."""
        self.netlink.create_namespace(name)
        outer = f"w{next(self._links)}{self._mark}"[:15]
        self.netlink.apply(name, [SetDevice("lo", up=True), SetVeth("eth0", outer, MACHINE, this.mac_address, 1500)])
        self.run("", "ip", "link", "set", outer, "netns", self.namespaces.path(at))
        self.run(at, "ip", "link", "set", outer, "master", bridge, "up")
        self.netlink.apply(name, [SetDevice("eth0", up=True)])
        for fixed in this.fixed_ips:
            length = 64 if ":" in fixed.ip_address else 24
            self.netlink.apply(name, [SetItem(address("eth0", f"{fixed.ip_address}/{length}", nodad=True))])
        for route in routes or ("169.254.169.254/32 dev eth0",):
            self.run(name, "ip", "route", "add", *route.split())

    def run(self, namespace: str, *argv: str) -> None:
        def work() -> None:
            subprocess.run(argv, check=True, capture_output=True, timeout=20)

        self.namespaces.run(namespace, work)

    # --- requests -----------------------------------------------------------------------------------------------------

    def connect(self, instance: str, where: str = "169.254.169.254", number: int = 80) -> http.client.HTTPConnection:
        def work() -> socket.socket:
            target = where
            if where.startswith("fe80:"):
                target = f"{where}%eth0"
            return socket.create_connection((target, number), 5)

        made = http.client.HTTPConnection(where if ":" not in where else f"[{where}]", timeout=10)
        made.sock = self.namespaces.run(instance, work)
        return made

    def fetch(self, instance: str, path: str = "/latest/meta-data/instance-id", **more: Any) -> tuple[int, str]:
        """One request; its status and its text."""
        where = {key: more.pop(key) for key in ("where", "number") if key in more}
        connection = self.connect(instance, **where)
        try:
            connection.request(more.pop("method", "GET"), path, **more)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    async def fetch_async(
        self, instance: str, path: str = "/latest/meta-data/instance-id", **more: Any
    ) -> tuple[int, str]:
        return await asyncio.to_thread(self.fetch, instance, path, **more)


def isolated(host: Host, network_id: str, number: int, **values: Any) -> DhcpPort:
    """An isolated network with an instance at 10.0.0.5, called by the network's name."""
    host.namespace(f"qdhcp-{network_id}", *ADDRESSES)
    this = port(network_id, number, "10.0.0.5", **values)
    host.instance(network_id, f"qdhcp-{network_id}", this)
    host.feed.put("dhcp_network", network_id, network(network_id))
    own = dhcp_port(network_id)
    host.feed.put("dhcp_port", own.id, own)
    host.feed.put("dhcp_port", this.id, this)
    return this


def answers(host: Host, instance: str, this: DhcpPort) -> bool:
    try:
        return host.fetch(instance) == (200, this.device_id)
    except OSError:
        return False


def status(host: Host, instance: str) -> int:
    try:
        return host.fetch(instance)[0]
    except OSError:
        return 0


async def until(ready: Callable[[], bool], seconds: float = 30.0, what: str = "it") -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(ready):
            await asyncio.sleep(0.01)


def router_of(*networks: str, router_id: str = "r1", ipv6: bool = False, **more: Any) -> Router:
    addresses = (RouterAddress(ip_address="fd00::1", subnet_id="six", cidr="fd00::/64"),) if ipv6 else ()
    interfaces = (
        RouterInterface(id=f"{router_id}-{n}", network_id=n, mac_address="fa:16:3e:ff:00:01", addresses=addresses)
        for n in networks
    )
    return Router(id=router_id, interfaces=tuple(interfaces), **more)


def settings_for(server: NovaMetadata, **more: Any) -> ProxySettings:
    return settings_for_port(server.server_address[1], **more)


def settings_for_port(number: int, **more: Any) -> ProxySettings:
    return ProxySettings(nova_metadata_port=number, metadata_proxy_shared_secret=SECRET, **({"timeouts": TIMES} | more))


def rate_limit(versions: tuple[int, ...], base: tuple[int, int], burst: tuple[int, int]) -> RateLimit:
    """Each limit as requests and seconds."""
    return RateLimit(True, versions, base[1], base[0], burst[1], burst[0])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
