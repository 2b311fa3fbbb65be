"""A short tour on real packets: two instances on two hosts, a router, a floating IP, typed as a user types it.

Everything that is made is made with the real `openstack` client; everything that is claimed is tried. Each step says how
long it took, and the tour ends with what was seen. It runs in a lab of its own, which is gone afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from neutrino.lab import build
from neutrino.lab.errors import LabError
from neutrino.lab.lab import Lab
from neutrino.lab.settings import EXTERNAL, Settings
from neutrino.lab.waiting import wait_until

Say = Callable[[str], None]
SECONDS = 20.0
SERVER = "import socket\ns = socket.create_server(('', {port}))\nwhile True:\n s.accept()[0].sendall(b'hello')"
CLIENT = (
    "import socket,sys\ntry: s = socket.create_connection(('{address}', {port}), 2)\n"
    "except OSError: sys.exit(1)\nsys.exit(s.recv(5) != b'hello')"
)


class Tour:
    def __init__(self, lab: Lab, say: Say) -> None:
        self._lab = lab
        self._say = say
        self._client = _client()
        self.seen: list[tuple[str, str]] = []

    # --- steps --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self._networks()
        self._instances()
        self._packets()
        self._world()

    def _networks(self) -> None:
        self._step("a network to the world outside", self._external_network)
        self._step("a network, its subnet and a router", self._own_network)
        self._step("a security group: ICMP and TCP 8080, nothing else", self._group)

    def _external_network(self) -> str:
        self.openstack(
            *("network", "create", "public", "--external", "--provider-network-type", "flat"),
            *("--provider-physical-network", "external"),
        )
        self.openstack(
            *("subnet", "create", "public-v4", "--network", "public", "--subnet-range", "203.0.113.0/24"),
            *("--gateway", "203.0.113.1", "--no-dhcp", "--allocation-pool", "start=203.0.113.100,end=203.0.113.199"),
        )
        return "203.0.113.0/24"

    def _own_network(self) -> str:
        self.openstack("network", "create", "blue")
        self.openstack("subnet", "create", "blue-v4", "--network", "blue", "--subnet-range", "10.0.0.0/24")
        self.openstack("router", "create", "out")
        self.openstack("router", "set", "out", "--external-gateway", "public")
        self.openstack("router", "add", "subnet", "out", "blue-v4")
        return "10.0.0.0/24, its router with a way out"

    def _group(self) -> str:
        self.openstack("security", "group", "create", "web")
        self.openstack("security", "group", "rule", "create", "web", "--protocol", "icmp")
        self.openstack("security", "group", "rule", "create", "web", "--protocol", "tcp", "--dst-port", "8080")
        return "web"

    def _instances(self) -> None:
        for name, host in (("web", "h1"), ("db", "h2")):
            self._step(f"instance {name} on {host}, addressed by DHCP", lambda n=name, h=host: self._instance(n, h))  # type: ignore[misc]
        self._step("its identity from 169.254.169.254", self._metadata)

    def _instance(self, name: str, host: str) -> str:
        self._lab.vm(name, network="blue", host=host, security_groups=["web"])
        return self._address(name)

    def _metadata(self) -> str:
        command = ["curl", "-sS", "--max-time", "5", "http://169.254.169.254/latest/meta-data/instance-id"]

        def asked() -> str:
            done = self._lab.run("web", command, check=False)
            return done.stdout.strip() if done.returncode == 0 else ""

        wait_until(lambda: asked() != "", SECONDS, "the metadata service does not answer")
        return f"instance {asked()}"

    def _packets(self) -> None:
        self._step("ping from web to db, between hosts", lambda: self._ping("web", self._address("db")))
        self._step("TCP 8080 to db is let through", lambda: self._tcp("web", "db", 8080, passes=True))
        self._step("TCP 9090 to db is stopped", lambda: self._tcp("web", "db", 9090, passes=False))

    def _world(self) -> None:
        self._step("ping from db to the world outside", lambda: self._ping("db", "203.0.113.1"))
        self._step("a floating IP for web, pinged from outside", self._floating_ip)

    def _floating_ip(self) -> str:
        made = self.openstack("floating", "ip", "create", "public", "--port", "web", "-f", "json")
        address = str(json.loads(made)["floating_ip_address"])
        return self._ping(EXTERNAL, address)

    # --- how --------------------------------------------------------------------------------------------------------

    def openstack(self, *arguments: str) -> str:
        environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self._lab.places.clouds), "OS_CLOUD": "neutrino"}
        self._say(f"    $ openstack {' '.join(arguments)}")
        done = subprocess.run(
            [*self._client, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            raise LabError(f"openstack {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _step(self, what: str, do: Callable[[], str]) -> None:
        self._say(f"… {what}")
        started = time.monotonic()
        found = do()
        self._say(f"  ✓ {found}  ({time.monotonic() - started:.1f} s)")
        self.seen.append((what, found))

    def _address(self, name: str) -> str:
        port: dict[str, Any] = self._lab.api.show("port", self._lab.vms.get(name).port_id)
        return str(port["fixed_ips"][0]["ip_address"])

    def _ping(self, where: str, address: str) -> str:
        def answered() -> bool:
            return self._lab.run(where, ["ping", "-c", "1", "-W", "1", address], check=False).returncode == 0

        wait_until(answered, SECONDS, f"{address} does not answer {where}")
        done = self._lab.run(where, ["ping", "-c", "5", "-i", "0.2", "-W", "1", address])
        return f"{address}: {done.stdout.strip().splitlines()[-1]}"

    def _tcp(self, source: str, target: str, port: int, *, passes: bool) -> str:
        address = self._address(target)
        server = self._lab.popen(target, [sys.executable, "-c", SERVER.format(port=port)])
        try:
            command = [sys.executable, "-c", CLIENT.format(address=address, port=port)]

            def reached() -> bool:
                return self._lab.run(source, command, check=False).returncode == 0

            if passes:
                wait_until(reached, SECONDS, f"{address} port {port} does not answer {source}")
            elif reached():
                raise LabError(f"{address} port {port} answers {source}, and should not")
        finally:
            server.kill()
            server.communicate()
        return f"{address} port {port}: {'answers' if passes else 'no answer'}"


def demo(say: Say) -> None:
    """The tour, from nothing to nothing."""
    with tempfile.TemporaryDirectory(prefix="neutrino-demo-") as directory:
        state = Path(directory) / "lab"
        started = time.monotonic()
        say("… a server and two hosts")
        lab = build.up(state, Settings(hosts=2, port=_free_port()), lambda text: say(f"    {text}"))
        try:
            say(f"  ✓ the API is on {lab.settings.url}  ({time.monotonic() - started:.1f} s)")
            tour = Tour(lab, say)
            tour.run()
        finally:
            say("… everything is taken down")
            build.down(state, lambda text: say(f"    {text}"))
        say(f"\nSeen in {time.monotonic() - started:.0f} s:")
        for what, found in tour.seen:
            say(f"  {what}: {found}")


def _client() -> Sequence[str]:
    beside = Path(sys.executable).with_name("openstack")
    found = str(beside) if beside.exists() else shutil.which("openstack")
    if found is None:
        raise LabError("there is no openstack client: pip install python-openstackclient")
    return [found]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
