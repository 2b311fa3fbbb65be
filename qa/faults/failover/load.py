"""Clients of the API: writers through the load balancer, and one prober for each server."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qa.faults.failover.ledger import Answer, Entry, Outcome

TIMEOUT = 90.0
PROJECT = "failover"
MOST = 40  # objects of each kind that a writer keeps


class Http:
    """A client of one address, with a connection that it keeps."""

    def __init__(self, port: int, target: str) -> None:
        self._port = port
        self._target = target
        self._kept: http.client.HTTPConnection | None = None

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[Answer, Any]:
        connection, self._kept = self._kept or self._connect(), None
        headers = {"Content-Type": "application/json", "X-Project-Id": PROJECT, "X-Roles": "admin"}
        about = f"{method} {path.split('/')[2]}"
        began = time.monotonic()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return Answer(0, type(error).__name__, began, time.monotonic(), self._target, about), None
        self._kept = connection
        content: Any = None
        try:
            content = json.loads(data) if data else None
        except ValueError:  # a page of the load balancer
            self._kept = None
        failure = content.get("NeutronError") if isinstance(content, dict) else None
        kind = failure["type"] if isinstance(failure, dict) else ""
        return Answer(response.status, kind, began, time.monotonic(), self._target, about), content

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)


@dataclass
class Load:
    """All clients, and what they wrote."""

    proxy: int
    servers: Sequence[int]
    hosts: Sequence[str]
    writers: int = 4
    pause: float = 0.03
    run: int = 0  # number of the run: tokens of several runs differ
    answers: list[Answer] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def targets(self) -> list[str]:
        return [f"server{n}" for n in range(1, len(self.servers) + 1)]

    def start(self, network: str) -> None:
        work = [(self._write, (number, network)) for number in range(self.writers)]
        probes = [(self._probe, (port, name, network)) for port, name in zip(self.servers, self.targets, strict=True)]
        for target, arguments in (*work, *probes):
            thread = threading.Thread(target=self._guarded, args=(target, arguments), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(TIMEOUT + 10)

    def _guarded(self, target: Any, arguments: Any) -> None:
        try:
            target(*arguments)
        except BaseException as error:
            self.failures.append(error)

    def _write(self, number: int, network: str) -> None:
        writer = Writer(self, Http(self.proxy, "proxy"), f"r{self.run}w{number}", network, random.Random(number))
        while not self.over.wait(self.pause * (0.5 + random.random())):
            writer.step()

    def _probe(self, port: int, name: str, network: str) -> None:
        """Renames one port through one server: the stall of that server."""
        writer = Writer(self, Http(port, name), f"r{self.run}{name}", network, random.Random(name))
        while not writer.ports and not self.over.is_set():
            writer.create("port")
        while not self.over.wait(0.1):
            writer.rename(writer.ports[0])


@dataclass
class Owned:
    id: str
    entry: Entry


class Writer:
    """One client, which changes only objects that it created."""

    def __init__(self, load: Load, http: Http, name: str, network: str, rng: random.Random) -> None:
        self._load = load
        self._http = http
        self._name = name
        self._network = network
        self._rng = rng
        self._number = 0
        self.ports: list[Owned] = []
        self.networks: list[Owned] = []

    def step(self) -> None:
        choice = self._rng.random()
        if choice < 0.4 and len(self.ports) < MOST:
            self.create("port")
        elif choice < 0.7 and self.ports:
            self.rename(self._rng.choice(self.ports))
        elif choice < 0.85 and self.ports:
            self._delete("port", self.ports)
        elif choice < 0.95 and len(self.networks) < MOST:
            self.create("network")
        elif self.networks:
            self._delete("network", self.networks)

    def create(self, kind: str) -> None:
        self._number += 1
        token = f"{self._name}-{self._number}"
        values: dict[str, Any] = {"description": token, "name": token}
        if kind == "port":
            host = self._rng.choice(self._load.hosts)
            values |= {"network_id": self._network, "device_owner": "compute:nova", "binding:host_id": host}
        answer, body = self._http("POST", f"/v2.0/{kind}s", {kind: values})
        entry = Entry(kind, token, answer.outcome, {token})
        self._note(answer, entry)
        if answer.outcome is Outcome.ACKNOWLEDGED:
            owned = self.ports if kind == "port" else self.networks
            owned.append(Owned(body[kind]["id"], entry))

    def rename(self, owned: Owned) -> None:
        self._number += 1
        name = f"{self._name}-{self._number}-renamed"
        answer, _ = self._http("PUT", f"/v2.0/ports/{owned.id}", {"port": {"name": name}})
        owned.entry.renamed(name, answer.outcome)
        self._note(answer)

    def _delete(self, kind: str, owned: list[Owned]) -> None:
        one = owned.pop(self._rng.randrange(len(owned)))
        answer, _ = self._http("DELETE", f"/v2.0/{kind}s/{one.id}")
        one.entry.delete(answer.outcome)
        self._note(answer)
        if answer.outcome is Outcome.REFUSED:
            owned.append(one)

    def _note(self, answer: Answer, entry: Entry | None = None) -> None:
        if entry is not None:
            self._load.entries.append(entry)
        self._load.answers.append(answer)
        if answer.outcome is not Outcome.ACKNOWLEDGED:
            time.sleep(0.2)  # as a client that retries
