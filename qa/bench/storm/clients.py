"""The clients of a boot storm: each takes one instance after the other, as Nova's compute services do."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from neutrino.lab.hosts.namespaces import host_command, host_file, ip_batch
from neutrino.lab.lab import Lab
from neutrino.lab.settings import OVS_RUN
from qa.bench.client import Client, LoadError, Target
from qa.bench.storm.nova import Events
from qa.bench.storm.plug import Plugger
from qa.bench.timing import dealt

INTEGRATION = "br-int"
SECONDS = 600.0  # for all of a system
_PORT_SECONDS = 300.0  # Nova's vif_plugging_timeout
_FLOWS = re.compile(r"flow_count=(\d+)")


@dataclass(frozen=True)
class System:
    """A networking service that runs on the hosts of a lab."""

    lab: Lab
    url: str
    spent: Callable[[], Mapping[str, float]]  # processor time of its parts, in seconds


@dataclass(frozen=True)
class Instance:
    host: str
    device: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class Storm:
    """Eight clients, say, of one networking service, and the times that they have measured, in milliseconds."""

    target: Target
    network: str
    clients: int
    events: Events
    pluggers: Mapping[str, Plugger]  # by host
    times: dict[str, list[float]] = field(default_factory=dict)
    ports: dict[Instance, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, work: Callable[[Client, Instance], None], instances: Sequence[Instance]) -> float:
        """All instances by all clients; gives the milliseconds. The first error of a client is raised."""
        errors: list[Exception] = []

        def take(share: Sequence[Instance]) -> None:
            client = Client(self.target)
            try:
                for instance in share:
                    work(client, instance)
            except Exception as error:
                errors.append(error)
            finally:
                client.close()

        threads = [threading.Thread(target=take, args=(share,)) for share in dealt(instances, self.clients)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return (time.perf_counter() - began) * 1000

    def boot(self, client: Client, instance: Instance) -> None:
        began = time.perf_counter()
        body = {
            "network_id": self.network,
            "device_owner": "compute:nova",
            "device_id": instance.id,
            "binding:host_id": instance.host,
        }
        created = client.post("/ports", {"port": body})
        port = created.item()
        self.ports[instance] = port["id"]
        self.pluggers[instance.host].plug(instance.device, port["id"], port["mac_address"], instance.id)
        plugged = time.perf_counter()
        self.events.wait(port["id"], _PORT_SECONDS)
        ended = time.perf_counter()
        self._note("created", created.millis)
        self._note("from_plug", (ended - plugged) * 1000)
        self._note("from_post", (ended - began) * 1000)

    def delete(self, client: Client, instance: Instance) -> None:
        self.pluggers[instance.host].unplug(instance.device)
        self._note("deleted", client.delete(f"/ports/{self.ports[instance]}").millis)

    def check_active(self) -> None:
        """Raise LoadError unless the API shows all ports ACTIVE: an event alone proves nothing."""
        client = Client(self.target)
        found = client.get(f"/ports?network_id={self.network}&device_owner=compute:nova&fields=status").items()
        client.close()
        active = sum(port["status"] == "ACTIVE" for port in found)
        if active != len(self.ports):
            raise LoadError(f"{active} of {len(self.ports)} ports are ACTIVE")

    def _note(self, what: str, millis: float) -> None:
        with self._lock:
            self.times.setdefault(what, []).append(millis)


def pluggers(lab: Lab) -> dict[str, Plugger]:
    """A connection to the database of each host's switch."""
    return {host: Plugger(host_file(lab.holder(host), f"{OVS_RUN}/db.sock"), INTEGRATION) for host in lab.hosts}


def make_instances(lab: Lab, ports: int) -> list[Instance]:
    """Devices, spread over the hosts: one end of a veth pair each, up and not plugged."""
    instances = [Instance(lab.hosts[n % len(lab.hosts)], f"boot{n}") for n in range(ports)]
    for host in lab.hosts:
        names = [each.device for each in instances if each.host == host]
        lines = [line for n in names for line in (f"link add {n} type veth peer name {n}p", f"link set {n} up")]
        ip_batch(lines, host_command(lab.holder(host), []))
    return instances


def flow_counts(lab: Lab) -> dict[str, int]:
    """How many flows the integration bridge of each host has."""
    command = ["ovs-ofctl", "-O", "OpenFlow14", "dump-aggregate", f"unix:{OVS_RUN}/{INTEGRATION}.mgmt"]
    return {host: int(_FLOWS.findall(lab.run(host, command).stdout)[0]) for host in lab.hosts}
