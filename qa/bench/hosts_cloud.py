"""The cloud of the benchmark with many hosts: its networks and ports, made and measured through the API."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Sequence
from typing import Any

from qa.bench.client import Client, LoadError, Target
from qa.bench.layout import Network
from qa.bench.server import Running
from qa.bench.timing import Figures, figures, one_by_one

SECONDS = 900.0  # timeout of a step
BULK = 100
WARM_UP = 10  # requests before a measurement
EVERYWHERE = "everywhere"
PROJECT = uuid.uuid4().hex  # of the network for measurements


def client_of(server: Running, project: str = PROJECT) -> Client:
    headers = {"X-Project-Id": project, "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
    return Client(Target(server.url, headers, time.monotonic() + SECONDS))


def port_on(network_id: str, host: str) -> dict[str, Any]:
    return {"network_id": network_id, "binding:host_id": host, "device_owner": "compute:bench"}


class Cloud:
    def __init__(self, networks: Sequence[Network]) -> None:
        self.networks = networks
        self.ids: dict[str, tuple[str, str]] = {}  # network's id and project, by its name
        self._own = ""  # network for measurements, without hosts

    def fill(self, server: Running) -> None:
        """Create the networks, each in its own project, and their ports, a hundred per request."""
        for network in self.networks:
            project = uuid.uuid4().hex
            client = client_of(server, project)
            made = client.post("/networks", {"network": {"name": network.name}}).item()["id"]
            subnet = {"network_id": made, "ip_version": 4, "cidr": network.cidr}
            client.post("/subnets", {"subnet": subnet})
            self.ids[network.name] = made, project
            number = itertools.count()
            for start in range(0, len(network.hosts), BULK):
                several = [
                    {**port_on(made, host), "device_id": str(uuid.uuid4()), "name": f"{network.name}-{next(number)}"}
                    for host in network.hosts[start : start + BULK]
                ]
                ports = client.post("/ports", {"ports": several}).items()
                if any(port["binding:vif_type"] != "ovs" for port in ports):
                    raise LoadError(f"a port of network {network.name} was not bound")
            client.close()

    def create_and_show(self, server: Running, number: int) -> dict[str, Figures]:
        """Times of creating and showing a port, on a network without hosts; the ports are deleted again."""
        client = client_of(server)
        if not self._own:
            self._own = client.post("/networks", {"network": {"name": "own"}}).item()["id"]
            subnet = {"network_id": self._own, "ip_version": 4, "cidr": "10.255.0.0/22"}
            client.post("/subnets", {"subnet": subnet})
        body = {"port": {"network_id": self._own}}
        # Several connections: each worker has its share of the requests, and has served some before.
        warm = [client.post("/ports", body) for _ in range(WARM_UP)]
        creates, replies = one_by_one(range(number), lambda _: client.post("/ports", body))
        ids = [reply.item()["id"] for reply in replies]
        shows, _ = one_by_one(ids, lambda key: client.get(f"/ports/{key}"))
        for key in [*ids, *(reply.item()["id"] for reply in warm)]:
            client.delete(f"/ports/{key}")
        client.close()
        return {"create": creates, "show": shows}

    # --- lists ----------------------------------------------------------------------------------------------------

    def lists(self, server: Running, times: int) -> dict[str, Figures]:
        """Times of lists of at most a hundred out of all ports, each by an attribute that has an index."""
        network_id, project = self.ids[self.networks[0].name]
        admin, member = client_of(server), self._member(server, project)
        several = admin.get(f"/ports?network_id={network_id}&limit=100").items()
        port, middle = several[0], self._middle(admin)
        subnet, address = port["fixed_ips"][0]["subnet_id"], port["fixed_ips"][0]["ip_address"]
        paths = {
            "limit": "",
            "limit, from a marker": f"&marker={middle}",
            "limit, from a marker, backwards": f"&marker={middle}&page_reverse=true",
            "sort_key=name": "&sort_key=name",
            "sort_key=name, descending, from a marker": f"&sort_key=name&sort_dir=desc&marker={middle}",
            "sort_key=network_id, from a marker": f"&sort_key=network_id&marker={middle}",
            "network_id": f"&network_id={network_id}",
            "network_id, sorted by name": f"&network_id={network_id}&sort_key=name",
            "device_id": f"&device_id={port['device_id']}",
            "name": f"&name={port['name']}",
            "mac_address": f"&mac_address={port['mac_address']}",
            "fixed_ips=subnet_id": f"&fixed_ips=subnet_id%3D{subnet}",
            "fixed_ips=ip_address": f"&fixed_ips=ip_address%3D{address}",
            "security_groups": f"&security_groups={port['security_groups'][0]}",
            "project_id": f"&project_id={project}",
            "binding:host_id": f"&binding:host_id={port['binding:host_id']}",
            "device_owner": "&device_owner=compute:bench",
            "status": "&status=ACTIVE",
            "ids": "".join(f"&id={each['id']}" for each in several[:20]),
        }
        found = {name: _repeated(admin, f"/ports?limit=100{query}", times) for name, query in paths.items()}
        found["a member's ports"] = _repeated(member, "/ports?limit=100", times)
        found["a member's, by network_id"] = _repeated(member, f"/ports?limit=100&network_id={network_id}", times)
        admin.close()
        member.close()
        return found

    def _member(self, server: Running, project: str) -> Client:
        headers = {"X-Project-Id": project, "X-User-Id": "bench", "X-Roles": "member,reader"}
        return Client(Target(server.url, headers, time.monotonic() + SECONDS))

    def _middle(self, client: Client) -> str:
        network_id, _ = self.ids[self.networks[len(self.networks) // 2].name]
        found = client.get(f"/ports?network_id={network_id}&fields=id&limit=50").items()
        return str(found[-1]["id"])


def _repeated(client: Client, path: str, times: int) -> Figures:
    replies = [client.get(path) for _ in range(times)]
    return {**figures(reply.millis for reply in replies), "items": len(replies[-1].items())}
