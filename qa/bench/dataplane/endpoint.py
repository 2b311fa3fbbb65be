"""One end of a measurement, run in an instance's namespace; needs nothing but Python.

python endpoint.py accept PORT                          accepts TCP connections and closes each, until it is ended
python endpoint.py connect TARGET PORT SECONDS COUNT    opens connections, COUNT at a time; JSON
python endpoint.py echo PORT                            answers datagrams, until it is ended
python endpoint.py ping TARGET PORT SECONDS             one datagram after the other; times of round trips as JSON
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys
import time

BACKLOG = 4096
WARM_UP = 50  # round trips that are not counted: the first ones are looked up in all tables
PATIENCE = 1.0  # seconds until a datagram is lost
_PAYLOAD = 64


def accept(port: int) -> None:
    """The server closes first: a client's port is free at once, and no connection waits for time-outs there."""
    with socket.create_server(("0.0.0.0", port), backlog=BACKLOG) as server:
        server.setblocking(False)
        poller = select.epoll()
        poller.register(server, select.EPOLLIN)
        _announce()
        while True:
            poller.poll()
            with contextlib.suppress(BlockingIOError, ConnectionError):
                while True:
                    connection, _ = server.accept()
                    connection.close()


class Connections:
    """Connections that are being opened, and the number of those that the server has accepted and closed."""

    def __init__(self, target: str, port: int) -> None:
        self._address = target, port
        self._poller = select.epoll()
        self._pending: dict[int, socket.socket] = {}
        self.done = self.failed = 0

    def open(self) -> None:
        link = socket.socket()
        link.setblocking(False)
        link.connect_ex(self._address)
        number = link.fileno()
        self._pending[number] = link
        self._poller.register(number, select.EPOLLIN)

    def turn(self, wait: float) -> None:
        """Replace the connections that have ended, by new ones."""
        for number, _ in self._poller.poll(wait):
            with self._pending.pop(number) as link:
                try:
                    link.recv(1)
                    self.done += 1
                except OSError:
                    self.failed += 1
            self.open()

    def close(self) -> None:
        for link in self._pending.values():
            link.close()


def connect(target: str, port: int, seconds: float, count: int) -> dict[str, float]:
    connections = Connections(target, port)
    for _ in range(count):
        connections.open()
    started = now = time.perf_counter()
    while now - started < seconds:
        connections.turn(PATIENCE)
        now = time.perf_counter()
    connections.close()
    return {"connections": connections.done, "failed": connections.failed, "seconds": now - started}


def echo(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", port))
        _announce()
        while True:
            data, sender = server.recvfrom(2048)
            server.sendto(data, sender)


def ping(target: str, port: int, seconds: float) -> dict[str, float]:
    times: list[int] = []
    lost = number = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(PATIENCE)
        link.connect((target, port))
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            number += 1
            sent = time.perf_counter_ns()
            link.send(number.to_bytes(_PAYLOAD, "big"))
            try:
                while int.from_bytes(link.recv(2048), "big") != number:
                    pass  # a late answer to an earlier one
                times.append(time.perf_counter_ns() - sent)
            except TimeoutError:
                lost += 1
    counted = sorted(times[WARM_UP:])
    if not counted:
        raise SystemExit(f"{target} has answered {len(times)} of {number} datagrams")
    return {
        "round_trips": len(counted),
        "lost": lost,
        "p50_us": counted[len(counted) // 2] / 1000,
        "p99_us": counted[int(len(counted) * 0.99)] / 1000,
    }


def _announce() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def main(name: str, *words: str) -> None:
    if name == "accept":
        accept(int(words[0]))
    elif name == "echo":
        echo(int(words[0]))
    elif name == "connect":
        target, port, seconds, count = words
        print(json.dumps(connect(target, int(port), float(seconds), int(count))))
    else:
        target, port, seconds = words
        print(json.dumps(ping(target, int(port), float(seconds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
