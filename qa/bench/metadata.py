"""Benchmark of the metadata proxy of one host: memory for many networks, and requests per second.

  python -m qa.bench.metadata [--networks 100] [--ports 10] [--seconds 5]

The role, the process, the namespaces and their sockets are real. Nova is a process that answers at once, so that what is
measured is the host; instances are connections from inside namespaces, made by a third process. All three share the
machine's processors. Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.metadata import Host, dhcp_port, network, port, settings_for_port, until

BODY = b"i-0123456789abcdef0123456789abcdef0123"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
REQUEST = b"GET /latest/meta-data/instance-id HTTP/1.1\r\nHost: 169.254.169.254\r\n%s\r\n"
TARGET = ("169.254.169.254", 80)


@dataclass
class Load:
    requests: int = 0
    seconds: float = 0.0
    times: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


# --- Nova -------------------------------------------------------------------------------------------------------------


class _Nova(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while b"\r\n\r\n" in self._data:
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            right = b"x-instance-id-signature: " in head.lower()
            self._transport.write(ANSWER if right else b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def _serve_nova(ready: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Nova, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def nova() -> Iterator[int]:
    """Its port."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve_nova, args=(there,), daemon=True)
    process.start()
    try:
        if not here.poll(20):
            raise RuntimeError("Nova's stand-in does not start")
        yield here.recv()
    finally:
        process.terminate()
        process.join()


# --- instances --------------------------------------------------------------------------------------------------------


def _ask(host: Host, names: list[str], connections: int, seconds: float) -> Load:
    """Keep-alive connections, each with one request in flight."""
    ready = selectors.DefaultSelector()
    since: dict[int, float] = {}
    for number in range(connections):
        name = names[number % len(names)]
        made = host.namespaces.run(name, lambda: socket.create_connection(TARGET, 10))
        ready.register(made, selectors.EVENT_READ)
        made.sendall(REQUEST % b"")
        since[made.fileno()] = time.perf_counter()
    times: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for key, _ in ready.select(1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            data = connection.recv(65536)
            if BODY not in data:
                raise RuntimeError(f"not the answer: {data!r}")
            now = time.perf_counter()
            times.append(now - since[connection.fileno()])
            connection.sendall(REQUEST % b"")
            since[connection.fileno()] = now
    took = time.perf_counter() - start
    for key in list(ready.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    return Load(len(times), took, tuple(times))


def _ask_anew(host: Host, name: str, seconds: float) -> Load:
    """A connection for each request, as curl and cloud-init do."""

    def inside() -> Load:
        times: list[float] = []
        start = time.perf_counter()
        while (begun := time.perf_counter()) - start < seconds:
            with socket.create_connection(TARGET, 10) as made:
                made.sendall(REQUEST % b"Connection: close\r\n")
                data = b""
                while part := made.recv(65536):
                    data += part
            if BODY not in data:
                raise RuntimeError(f"not the answer: {data!r}")
            times.append(time.perf_counter() - begun)
        return Load(len(times), time.perf_counter() - start, tuple(times))

    return host.namespaces.run(name, inside)


# --- all of it --------------------------------------------------------------------------------------------------------


def pss(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def cpu(pid: int) -> float:
    """CPU seconds of the process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def measure(host: Host, networks: int, ports: int, seconds: float) -> None:
    own = dict[str, str]()
    for number in range(networks):
        name = f"n{number:03d}"
        if number < 4:
            host.namespace(f"qdhcp-{name}", "10.0.0.2/24", "169.254.169.254/32")
        else:
            host.netlink.create_namespace(f"qdhcp-{name}")
    start = time.perf_counter()
    async with host.agent() as role:
        host.feed.synced()
        await until(lambda: not next(iter(role.describe())).configurations["problems"], 20)
        pid = host.pid
        assert pid is not None
        await asyncio.sleep(0.5)
        print(f"process without networks           {pss(pid) / 1024:8.1f} MB PSS")
        begun = time.perf_counter()
        for number in range(networks):
            name = f"n{number:03d}"
            host.feed.put("dhcp_network", name, network(name))
            for each in (dhcp_port(name), *(port(name, 5 + k, f"10.0.0.{5 + k}") for k in range(ports))):
                host.feed.put("dhcp_port", each.id, each)
        await until(lambda: next(iter(role.describe())).configurations["listening"] == networks, 60)
        print(f"{networks} networks with {ports} ports sent in {time.perf_counter() - begun:8.2f} s")
        await asyncio.sleep(0.5)
        print(f"process with them                  {pss(pid) / 1024:8.1f} MB PSS")
        for number in range(min(4, networks)):
            name = f"n{number:03d}"
            await asyncio.to_thread(host.instance, f"vm{number}", f"qdhcp-{name}", port(name, 5, "10.0.0.5"))
            own[f"vm{number}"] = name
        await until(lambda: all(_answers(host, name) for name in own), 20)
    # The agent has ended and the proxy keeps serving, so that the load has this process for itself.
    names = list(own)
    loads: tuple[tuple[str, Callable[[], Load]], ...] = (
        ("1 connection", lambda: _ask(host, names[:1], 1, seconds)),
        ("16 connections", lambda: _ask(host, names, 16, seconds)),
        ("64 connections", lambda: _ask(host, names, 64, seconds)),
        ("a connection for each", lambda: _ask_anew(host, names[0], seconds)),
    )
    for text, ask in loads:
        before = cpu(pid)
        load = ask()
        spent = (cpu(pid) - before) / load.requests
        middle, late = statistics.median(load.times), statistics.quantiles(load.times, n=100)[98]
        times = f"median {middle * 1e3:6.2f} ms   99 % {late * 1e3:6.2f} ms   CPU {spent * 1e3:5.2f} ms"
        print(f"{text:22} {load.rate:10,.0f} requests/s   {times}")
    print(f"process after the load             {pss(pid) / 1024:8.1f} MB PSS")
    print(f"all of it took {time.perf_counter() - start:.0f} s")


def _answers(host: Host, name: str) -> bool:
    try:
        return host.fetch(name)[0] == 200
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--ports", type=int, default=10, help="of instances, on each network")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of load")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root")
    with tempfile.TemporaryDirectory(prefix="neutrino-metadata-") as directory, nova() as number:
        host = Host(Path(directory), settings_for_port(number))
        try:
            asyncio.run(measure(host, args.networks, args.ports, args.seconds))
        finally:
            host.close()


if __name__ == "__main__":
    main()
