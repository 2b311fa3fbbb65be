"""Neutron's haproxy is replaced by our metadata proxy, and back, while instances send requests; all of them are real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socketserver
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from neutrino.agent.metadata.haproxy import NeutronProxies
from neutrino.agent.takeover.daemons import OurDaemons, read_daemons, restart
from neutrino.dataplane.process.foreign import RealForeignProcesses
from tests.support.metadata import Host, isolated, network, nova, port, router_of, settings_for, until
from tests.support.neutron_daemons import METADATA, Neutron
from tests.support.waiting import eventually

NEUTRON = "answered by Neutron's agent"


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/slow"):
            time.sleep(4)
        self.send_response(200)
        self.send_header("Content-Length", str(len(NEUTRON)))
        self.end_headers()
        self.wfile.write(NEUTRON.encode())

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None: ...


class _Agent(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Neutron's metadata agent."""

    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def neutron_agent(path: Path) -> Iterator[None]:
    with _Agent(str(path), _Request) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with nova() as server:
        made = Host(tmp_path / "ours", settings_for(server))
        made.directory.mkdir()
        yield made
        made.close()


@pytest.fixture
def neutron(tmp_path: Path) -> Iterator[Neutron]:
    made = Neutron(tmp_path / "neutron")
    with neutron_agent(made.socket):
        yield made
    for file in made.pids.iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


class Requests(threading.Thread):
    """An instance that sends a request every 20 ms, each on a connection of its own."""

    def __init__(self, host: Host, instance: str, **where: object) -> None:
        super().__init__()
        self.host, self.instance, self.where = host, instance, where
        self.answers: list[str] = []
        self.failures: list[str] = []
        self.slowest = 0.0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            started = time.monotonic()
            try:
                status, text = self.host.fetch(self.instance, **self.where)
                self.answers.append(text)
                if status != 200:
                    self.failures.append(f"{status} {text}")
            except OSError as error:
                self.failures.append(repr(error))
            self.slowest = max(self.slowest, time.monotonic() - started)

    @contextlib.contextmanager
    def running(self) -> Iterator[Requests]:
        self.start()
        try:
            yield self
        finally:
            self.done.set()
            self.join()


def others(host: Host, namespace: str) -> list[str]:
    return NeutronProxies(RealForeignProcesses(host.namespaces)).find([namespace])


def haproxies(host: Host, namespace: str) -> list[int]:
    inside = RealForeignProcesses(host.namespaces).inside(namespace)
    return [each.pid for each in inside if "haproxy" in each.programs]


@pytest.mark.parametrize("kind", ["network", "router"])
def test_no_request_is_refused_or_broken_off(host: Host, neutron: Neutron, kind: str) -> None:
    object_id = str(uuid.uuid4())
    if kind == "network":
        name, where = f"qdhcp-{object_id}", {}
        instance = isolated(host, object_id, 5)
        host.feed.put("dhcp_network", object_id, network(object_id, "10.0.0.0/24", "fd00::/64"))
        host.run(name, "ip", "address", "add", "fe80::a9fe:a9fe/128", "dev", "br0", "nodad")
        file = neutron.haproxy_file(name, METADATA, 80, "bind [fe80::a9fe:a9fe]:80 interface br0")
    else:
        name, where = f"qrouter-{object_id}", {"where": "10.0.0.1", "number": 9697}
        instance, device = port("green", 5, "10.0.0.5"), f"qr-{object_id}-g"[:14]
        host.namespace(name)
        host.link(name, device, "10.0.0.1/24", "fd00::1/64")
        host.instance(object_id, name, instance, "default via 10.0.0.1", bridge=device)
        host.feed.put("dhcp_port", instance.id, instance)
        host.feed.put("router", object_id, router_of("green", router_id=object_id, ipv6=True))
        file = neutron.haproxy_file(name)
    host.run(name, "haproxy", "-f", str(file))
    assert others(host, name) == [name]
    assert host.fetch(object_id, **where) == (200, NEUTRON)
    (saved,) = (each for each in read_daemons(host.namespaces) if each.object_id == object_id)
    slow: list[tuple[int, str]] = []

    opened = threading.Thread(target=lambda: slow.append(host.fetch(object_id, "/slow", **where)))

    async def convert() -> None:
        host.feed.synced()
        opened.start()
        await asyncio.sleep(0.2)
        async with host.agent() as role:
            await until(lambda: requests.answers[-10:] == [instance.device_id] * 10)
            assert (await role.find()).plan == "", "one that completes its requests is no difference"

    with Requests(host, object_id, **where).running() as requests:
        asyncio.run(convert())
        ours = OurDaemons(str(host.directory), host.options.socket, host.namespaces)
        assert restart([saved], ours) == []
        eventually(lambda: requests.answers[-10:] == [NEUTRON] * 10)
        opened.join()
        eventually(lambda: len(haproxies(host, name)) == 1)
    assert slow == [(200, NEUTRON)], "the request that haproxy had is completed"
    assert requests.failures == []
    assert set(requests.answers) == {NEUTRON, instance.device_id}
    assert host.pid is None
    assert haproxies(host, name) == [int((neutron.pids / f"{object_id}.pid.haproxy").read_text())]


def test_a_replacement_that_was_interrupted_is_completed(host: Host, neutron: Neutron) -> None:
    """An agent that has not synced ends nothing; the next one finds our listener there already."""
    network_id = str(uuid.uuid4())
    name, instance = f"qdhcp-{network_id}", isolated(host, network_id, 5)
    host.run(name, "haproxy", "-f", str(neutron.haproxy_file(name, METADATA, 80)))

    async def interrupted() -> None:
        async with host.agent() as role:
            await until(lambda: name in role._listeners)
            assert others(host, name) == [name]

    async def completed() -> None:
        host.feed.synced()
        async with host.agent():
            await until(lambda: not others(host, name), 10)
            assert await host.fetch_async(network_id) == (200, instance.device_id)

    asyncio.run(interrupted())
    asyncio.run(completed())
