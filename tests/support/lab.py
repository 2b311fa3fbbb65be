"""A lab for the tests: `neutrino.lab` in a temporary directory, with helpers for networks, pings and TCP.

with temporary_lab(hosts=3) as lab:
    blue = network(lab, "blue")
    group = open_group(lab)
    lab.vm("a", network=blue["id"], host="h1", security_groups=[group])
    lab.vm("b", network=blue["id"], host="h2", security_groups=[group])
    assert pings(lab, "a", address(lab, "b"))
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from neutrino.lab import build
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.ovs import SWITCH
from neutrino.lab.settings import NETDEV, LabSettings
from neutrino.lab.timing import scaled
from neutrino.model.objects import Object
from tests.support.addresses import pool
from tests.support.lab_control import Lab
from tests.support.ports import free_port

# Of all labs of tests: `make kernel` sets it to run them on the kernel datapath.
DATAPATH = os.environ.get("NEUTRINO_TEST_DATAPATH", NETDEV)
PING_INTERVAL = 0.02
CONNECT_SECONDS = scaled(2.0)
FIRST_ANSWER_SECONDS = scaled(10.0)
_SEQUENCE = re.compile(r"icmp_seq=(\d+) ttl=")
_SENT = re.compile(r"(\d+) packets transmitted")


@contextlib.contextmanager
def temporary_lab(hosts: int = 3, kind: type[Lab] = Lab, **settings: Any) -> Iterator[Lab]:
    """A lab on a free port, removed afterwards."""
    directory = tempfile.mkdtemp(prefix="neutrino-lab-")
    state = Path(directory) / "lab"
    lab = kind(state, LabSettings(hosts=hosts, port=free_port(), datapath=DATAPATH, **settings))
    try:
        build.up(lab)
        yield lab
    finally:
        build.down(state)
        shutil.rmtree(directory)


@contextlib.contextmanager
def restricted_datapaths(lab: Lab) -> Iterator[Lab]:
    """Restrict the userspace datapaths to the features of the kernel datapath, until they are restarted at the latest."""
    _set_features(lab, "false")
    try:
        yield lab
    finally:
        _set_features(lab, "true")


def _set_features(lab: Lab, value: str) -> None:
    def set_features(host: str) -> None:
        lab.run(host, ["ovs-appctl", "dpif/set-dp-features", "br-int", "nd_ext", value])
        lab.stop_agent(host)  # it probes the features at its start
        lab.start_agent(host)

    with ThreadPoolExecutor(max_workers=len(lab.hosts)) as pool:
        list(pool.map(set_features, lab.hosts))


# --- the cloud --------------------------------------------------------------------------------------------------------


def network(
    lab: Lab,
    name: str,
    cidrs: Sequence[str] = ("10.0.0.0/24", "fd00:10::/64"),
    *,
    enable_dhcp: bool = False,
    **attributes: Any,
) -> dict[str, Any]:
    """A network with subnets; `attributes` such as **{"provider:network_type": "geneve"}. The last addresses are free.

    Without DHCP, which most tests are not about: VMs have the addresses of their ports sooner.
    """
    made = lab.api.create("network", name=name, **attributes)
    for cidr in cidrs:
        values = {"cidr": cidr, "ip_version": 6 if ":" in cidr else 4, "enable_dhcp": enable_dhcp, **pool(cidr)}
        lab.api.create("subnet", network_id=made["id"], **values)
    return made


def group(lab: Lab, name: str, *rules: dict[str, Any]) -> str:
    """Create a security group with these rules, in addition to the default egress rules; returns its id."""
    made = lab.api.create("security_group", name=name)
    for rule in rules:
        lab.api.create("security_group_rule", **{"security_group_id": made["id"], "direction": "ingress"} | rule)
    return str(made["id"])


def open_group(lab: Lab, name: str = "open") -> str:
    """A security group that allows all ingress."""
    return group(lab, name, {"ethertype": "IPv4"}, {"ethertype": "IPv6"})


def port(lab: Lab, vm: str) -> Object:
    return lab.api.show("port", lab.vms.get(vm).port_id)


def address(lab: Lab, vm: str, version: int = 4) -> str:
    """The first address of that version."""
    addresses = (fixed["ip_address"] for fixed in port(lab, vm)["fixed_ips"])
    return str(next(text for text in addresses if (":" in text) == (version == 6)))


# --- packets ----------------------------------------------------------------------------------------------------------


def pings(lab: Lab, source: str, target: str, seconds: int = 10) -> bool:
    """Whether a ping is answered; it returns with the first answer, which a busy machine may deliver late."""
    argv = ["ping", "-n", "-q", "-c", "1", "-i", "0.5", "-w", str(round(scaled(seconds))), target]
    return lab.run(source, argv, check=False, timeout=30).returncode == 0


class Pinging:
    """`with Pinging(lab, "a", target) as ping:` fifty per second; `ping.lost` is then the number of unanswered ones."""

    def __init__(self, lab: Lab, source: str, target: str, interval: float = PING_INTERVAL) -> None:
        self._lab = lab
        self._source = source
        self._argv = ["ping", "-n", "-i", str(interval), target]
        self.sent = 0
        self.received: set[int] = set()
        self._answered = threading.Event()
        self._until: int | None = None  # the last answer, if answers arrived until the end

    def __enter__(self) -> Pinging:
        self._started = time.monotonic()
        self._process = self._lab.popen(self._source, self._argv, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)  # a full pipe would block ping
        self._reader.start()
        if not self._answered.wait(FIRST_ANSWER_SECONDS):
            self._stop()
            raise LabError(f"{self._source}: {' '.join(self._argv)} gets no answer")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _SEQUENCE.search(line):
                self.received.add(int(found[1]))
                self._answered.set()
            elif found := _SENT.search(line):
                self.sent = int(found[1])

    @property
    def spacing(self) -> float:
        """The actual interval in seconds: a busy machine sends fewer than requested."""
        return self._seconds / max(self.sent, 1)

    def _stop(self) -> None:
        self._wait_for_answers()
        self._seconds = time.monotonic() - self._started
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=scaled(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _wait_for_answers(self) -> None:
        """A moment: as long as answers arrive, those to the last requests are in flight and not lost."""
        last, give_up = max(self.received, default=0), time.monotonic() + scaled(1.0)
        while not self._answers_after(last) and time.monotonic() < give_up:
            time.sleep(PING_INTERVAL)
        self._until = max(self.received, default=0) if self._answers_after(last) else None

    def _answers_after(self, number: int) -> bool:
        return max(self.received, default=0) > number + 1

    @property
    def unanswered(self) -> list[int]:
        """The sequence numbers of lost pings, from the first answer on: until the end of the block, or so far."""
        last = max(self.received, default=0)
        end = self._until if self._until is not None else self.sent or last
        return [number for number in range(min(self.received, default=1), end) if number not in self.received]

    @property
    def lost(self) -> int:
        return len(self.unanswered)

    def __repr__(self) -> str:
        return f"{' '.join(self._argv)}: {self.sent} sent, unanswered {self.unanswered}"


@contextlib.contextmanager
def listening(lab: Lab, vm: str, number: int = 80) -> Iterator[socket.socket]:
    """A TCP server on all addresses of a VM; connections stay in its backlog."""
    with lab.inside(vm, lambda: _listen(number)) as server:
        yield server


def _listen(number: int) -> socket.socket:
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", number))
    server.listen()
    return server


def connect(lab: Lab, vm: str, target: str, number: int = 80, timeout: float = CONNECT_SECONDS) -> socket.socket:
    """A TCP connection from a VM, or an OSError."""
    return lab.inside(vm, lambda: socket.create_connection((target, number), timeout))


def connects(lab: Lab, vm: str, target: str, number: int = 80, timeout: float = CONNECT_SECONDS) -> bool:
    try:
        connect(lab, vm, target, number, timeout).close()
    except OSError:
        return False
    return True


# --- inspection -------------------------------------------------------------------------------------------------------


def log_sizes(lab: Lab) -> dict[str, int]:
    return {path.stem: path.stat().st_size for path in lab.paths.logs.glob("*.log")}


def logs_since(lab: Lab, sizes: dict[str, int], most: int = 4000) -> dict[str, str]:
    """The latest log lines of agents, server and switches since the sizes were taken."""
    names = [*(f"{host}-agent" for host in lab.hosts), "server", *(f"{host}-{SWITCH}" for host in lab.hosts)]
    tails = {name: lab.log_tail(name, most, sizes.get(name, 0)) for name in names}
    return {name: tail for name, tail in tails.items() if tail}


def traces(state: Path) -> list[str]:
    """What is left of a lab: processes, mounts, files."""
    found = [f"process {pid}" for pid in processes.read_members(state)]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(state) in line]
    return found + ([str(state)] if state.exists() else [])


__all__ = [
    "LabError",
    "Pinging",
    "address",
    "connect",
    "connects",
    "group",
    "listening",
    "log_sizes",
    "logs_since",
    "network",
    "open_group",
    "pings",
    "port",
    "restricted_datapaths",
    "temporary_lab",
    "traces",
    "wait_until",
]
