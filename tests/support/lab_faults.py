"""A lab for fault tests: VMs on two hosts and two kinds of networks, with fifty pings per second between them.

with temporary_lab(hosts=2, agent_config_files=[…]) as lab:
    site = make_site(lab)
    with Traffic(site) as traffic:
        lab.stop_agent("h1", kill=True)
        lab.start_agent("h1")
    assert traffic.lost == {}
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from neutrino.feed.address import short_path
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.hosts.processes import read_members
from neutrino.model.objects import Object
from tests.support.lab import PING_INTERVAL, Pinging, network
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    Attempt,
    Guest,
    Spec,
    add_rule,
    allow,
    expect,
    flows,
    make_group,
    make_guests,
    wait_until_reachable,
)

BRIDGES = ("br-int", "br-tun", "br-provider")
KINDS: Mapping[str, Mapping[str, str]] = {
    "vxlan": {"provider:network_type": "vxlan"},
    "vlan": {"provider:network_type": "vlan", "provider:physical_network": "physnet1"},
}
Wiring = frozenset[str]
PER_SECOND = round(1 / PING_INTERVAL)
TUNNELLED = "vxlan between hosts"
HICCUP = 3  # pings that the userspace datapath may drop when a port is added or removed

# Agents that check for drift and for a lost server more often than by default, to shorten tests.
QUICK_AGENT = """
[feed]
longest_delay = 1
[agent]
check_interval = 1
repair_interval = 3
"""


@dataclass(frozen=True)
class Site:
    """`vxlan1`, `vxlan2` on h1 and `vxlan3` on h2, the same for vlan; `narrow` on h1 allows ping only."""

    lab: Lab
    networks: Mapping[str, Object]
    guests: Mapping[str, Guest]
    group: str
    narrow_group: str

    def __getitem__(self, name: str) -> Guest:
        return self.guests[name]

    @property
    def paths(self) -> dict[str, tuple[Guest, Guest]]:
        found = {}
        for kind in self.networks:
            found[f"{kind} on one host"] = self[f"{kind}1"], self[f"{kind}2"]
            found[f"{kind} between hosts"] = self[f"{kind}1"], self[f"{kind}3"]
        return found

    def wiring(self, host: str = "h1") -> Wiring:
        """The state that a host's agent has applied, as lines: flows by bridge, and the local VLANs of the VMs."""
        lab, switch = self.lab, self.lab.ovs(host)
        lines = {f"{bridge} {line.strip()}" for bridge in BRIDGES for line in flows(lab, host, bridge).splitlines()[1:]}
        here = [guest.vm.switch_device for guest in self.guests.values() if guest.host == host]
        tags = {f"{device} tag {switch.vsctl('get', 'port', device, 'tag').strip()}" for device in here}
        return frozenset(lines | tags)

    def changed(self, before: Wiring, host: str = "h1") -> list[str]:
        """Differences from an earlier state, for the message of a failing test."""
        now = self.wiring(host)
        return [*(f"gone: {line}" for line in sorted(before - now)), *(f"new: {line}" for line in sorted(now - before))]

    def wait_until_as(self, before: Wiring, host: str = "h1") -> None:
        """Wait until the state equals the earlier one."""
        with contextlib.suppress(LabError):
            wait_until(lambda: not self.changed(before, host), SOON, "")
        assert self.changed(before, host) == []


def make_site(lab: Lab) -> Site:
    group, _ = make_group(lab, "open", *EVERYTHING)
    narrow, _ = make_group(lab, "narrow", allow("icmp"))
    networks = {
        kind: network(lab, kind, [f"10.{place}.0.0/24"], **dict[str, Any](values))
        for place, (kind, values) in enumerate(KINDS.items(), start=1)
    }
    hosts = ("h1", "h1", "h2")
    specs = [
        Spec(f"{kind}{number}", made, host, [group])
        for kind, made in networks.items()
        for number, host in enumerate(hosts, start=1)
    ]
    guests = make_guests(lab, *specs, Spec("narrow", networks["vxlan"], "h1", [narrow]))
    site = Site(lab, networks, {guest.name: guest for guest in guests}, group, narrow)
    wait_until_well(site)
    return site


def wait_until_well(site: Site) -> None:
    """Restart all processes, remove leftovers of a test, and wait until all paths work."""
    lab = site.lab
    lab.start_server()
    for host in lab.hosts:
        switch = lab.ovs(host)
        if None in (switch.pid(SWITCH), switch.pid(DATABASE)):
            lab.start_ovs(host)
        options = lab.options_file(host)
        if options.exists() and "[" in options.read_text():
            lab.stop_agent(host)  # a test has started it with other options
        if lab.agent_pid(host) is None:
            lab.start_agent(host, {})
        lab.wait_for_agent(host)
    for vm in lab.vms.all():
        if vm.name not in site.guests:
            lab.delete_vm(vm.name)
    for rule in lab.api.list("security_group_rule", security_group_id=site.narrow_group, protocol="tcp"):
        lab.api.delete("security_group_rule", rule["id"])
    for one, other in site.paths.values():
        wait_until_reachable(one, other)
        wait_until_reachable(other, one)


def feed_process(lab: Lab) -> int:
    """The pid of the server's feed process."""
    for pid in read_members(lab.paths.state):
        with contextlib.suppress(OSError):
            if b"server feed" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    raise LookupError("the server has no feed process")


@contextlib.contextmanager
def extra_rule(site: Site, number: int) -> Iterator[str]:
    """Allow TCP to this port of `narrow` too."""
    rule = add_rule(site.lab, site.narrow_group, allow("tcp", number))
    try:
        yield rule
    finally:
        site.lab.api.delete("security_group_rule", rule)


def expect_open(site: Site, number: int) -> None:
    """Wait until this port of `narrow` accepts connections."""
    expect([Attempt(site["vxlan1"], site["narrow"], number)])


def expect_closed(site: Site, number: int) -> None:
    expect([], [Attempt(site["vxlan1"], site["narrow"], number)])


class Traffic:
    """Pings on all paths of a site for the duration of a `with` block; the results are available after it.

    `plugs`: devices are plugged meanwhile. The userspace datapath then drops packets into tunnels for some milliseconds,
    also without an agent; these are not counted.
    """

    def __init__(self, site: Site, *, plugs: bool = False) -> None:
        self._plugs = plugs
        self._pings = {
            name: Pinging(site.lab, one.name, other.addresses[4]) for name, (one, other) in site.paths.items()
        }
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            for ping in self._pings.values():
                started.enter_context(ping)
            self._running = started.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._running.close()

    @property
    def sent(self) -> int:
        return sum(ping.sent for ping in self._pings.values())

    @property
    def lost(self) -> dict[str, list[int]]:
        """By path, the sequence numbers of unanswered pings; paths without losses are left out."""
        found = {name: ping.unanswered for name, ping in self._pings.items()}
        if self._plugs:
            found[TUNNELLED] = more_than_hiccups(found[TUNNELLED])
        return {name: missing for name, missing in found.items() if missing}

    @property
    def outage(self) -> float:
        """The longest outage of any path in seconds."""
        return max((len(run) for missing in self.lost.values() for run in _runs(missing)), default=0) / PER_SECOND


def more_than_hiccups(numbers: list[int]) -> list[int]:
    """The lost pings that port changes in the userspace datapath do not explain."""
    return [number for run in _runs(numbers) if len(run) > HICCUP for number in run]


def _runs(numbers: list[int]) -> list[list[int]]:
    """Group consecutive numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


class Relay:
    """`with Relay(lab) as relay:` is a proxy between hosts and the feed; while it is cut, no connection passes."""

    def __init__(self, lab: Lab) -> None:
        self._target = lab.paths.feed_socket
        self.path = lab.paths.server / "relay.sock"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self.connections = 0

    @property
    def options(self) -> dict[str, dict[str, object]]:
        """Options with which an agent connects to the relay."""
        return {"feed": {"server": f"unix:{self.path}"}}

    def __enter__(self) -> Self:
        self._listener = socket.socket(socket.AF_UNIX)
        with short_path(str(self.path)) as path:
            self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for each in self._open:
            each.close()
        self.path.unlink()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def resume(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._serve(self._listener.accept()[0])

    def _serve(self, host: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            with self._lock, short_path(str(self._target)) as path:
                if self._is_cut:
                    raise ConnectionError("cut")
                server.connect(path)
                self._open |= {host, server}
                self.connections += 1
        except OSError:
            host.close()
            server.close()
            return
        for pair in ((host, server), (server, host)):
            threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Log:
    """The log of a process from now on."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self._name = lab, name
        self.forget()

    def forget(self) -> None:
        self._start = self._lab.paths.log(self._name).stat().st_size

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self._read(), SOON, f"{self._name} does not log {text!r}")

    def _read(self) -> str:
        return self._lab.log_tail(self._name, size=1_000_000, after=self._start)


def now() -> str:
    """The current time in the API's format, to distinguish an agent that starts now from the previous one."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())


@contextlib.contextmanager
def foreign_port(lab: Lab, bridge: str, name: str, *settings: str) -> Iterator[None]:
    """A port on h1 that neutrino does not manage."""
    switch = lab.ovs("h1")
    switch.vsctl("add-port", bridge, name, "--", "set", "interface", name, *(settings or ("type=internal",)))
    try:
        yield
    finally:
        switch.vsctl("del-port", bridge, name)


def ofctl(lab: Lab, host: str, *arguments: str) -> str:
    return lab.run(host, ["ovs-ofctl", "-O", "OpenFlow14", *arguments]).stdout


def wait_until_remembered(lab: Lab, host: str, *words: str) -> Path:
    """Wait until the host's cached state contains these ids; returns its file."""
    cache = lab.paths.host(host) / "feed.json"

    def has_all() -> bool:
        text = cache.read_text() if cache.exists() else ""
        return all(word in text for word in words)

    wait_until(has_all, SOON, f"{host} has not cached {', '.join(words)}")
    return cache
