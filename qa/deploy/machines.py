"""Machines that run systemd, each in namespaces of its own, and the networks between them.

    mgmt      10.77.0.0/24      SSH, API, feed, database, and the way out for packages; the operator is .1
    underlay  10.78.0.0/24      tunnels between hosts
    external  198.51.100.0/24   floating IPs; the operator is .1

A machine's disk is a layer above the root that all machines share, so it survives that the machine is killed.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MGMT, EXTERNAL = ipaddress.ip_network("10.77.0.0/24"), ipaddress.ip_network("198.51.100.0/24")
UNDERLAY = ipaddress.ip_network("10.78.0.0/24")
OPERATOR, OUTSIDE = str(MGMT[1]), str(EXTERNAL[1])
RESOLVER = "10.0.2.3"  # slirp4netns
BOOT_SECONDS = 180.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

WAY_OUT = f"""table ip nat {{
    chain out {{
        type nat hook postrouting priority 100
        oifname tap0 ip saddr {MGMT} masquerade
    }}
}}
"""


class Failed(Exception):
    """A step has failed; the text says how."""


def command(*words: str, check: bool = True, text: str | None = None, seconds: float = 600.0) -> str:
    """Run a command here; its output."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=seconds, check=False)
    if check and done.returncode:
        raise Failed(
            f"{' '.join(words)[:300]} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-2000:]}"
        )
    return done.stdout


def wait_for(what: str, seconds: float, work: Callable[[], bool], pause: float = 0.2) -> float:
    """Call `work` until it is true; the seconds that it took."""
    began = time.monotonic()
    while not work():
        if time.monotonic() - began > seconds:
            raise Failed(f"{what}: not after {seconds:.0f} s")
        time.sleep(pause)
    return time.monotonic() - began


@dataclass(frozen=True)
class Place:
    """Where the machines are: of scripts/deploy-test."""

    base: str  # the root that all share
    work: Path
    cache: str
    group: str  # of control groups
    binds: Sequence[str]

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> Place:
        work = Path(environ["WORK"])
        binds = [line for line in (work / "binds").read_text().splitlines() if line]
        return cls(environ["BASE"], work, environ["CACHE"], environ["GROUP"], binds)


def build_networks() -> None:
    """Bridges of both networks in the namespace that the operator's commands run in, with a way out for packages."""
    for bridge, network in (("mgmt", MGMT), ("external", EXTERNAL), ("underlay", UNDERLAY)):
        command("ip", "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
        command("ip", "address", "add", f"{network[1]}/{network.prefixlen}", "dev", bridge)
        command("ip", "link", "set", bridge, "up")
        command("ethtool", "-K", bridge, "tx", "off", check=False)
    command("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for table in ("iptables", "ip6tables", "arptables"):  # br_netfilter would filter bridged frames
        switch = Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}")
        if switch.exists():
            switch.write_text("0")
    command("nft", "-f", "-", text=WAY_OUT)


@dataclass(eq=False)
class Machine:
    place: Place
    name: str
    address: str  # in mgmt
    is_host: bool = False  # with devices in the other networks, which Open vSwitch has
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def layer(self) -> Path:
        return self.place.work / "machines" / self.name

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def file(self, path: str) -> Path:
        """A file of the machine, as it has changed: only in the machine's own layer."""
        return self.layer / "upper" / path.lstrip("/")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file into the machine's layer before it starts."""
        target = self.file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def boot(self) -> None:
        """Start the machine, without waiting for it."""
        self.layer.mkdir(parents=True, exist_ok=True)
        script = "scripts/deploy-test-machine"
        with (self.place.work / "log" / f"{self.name}.boot").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("bash", script, "group", str(self.place.work / "tree"), f"{self.place.group}/{self.name}"),
                    *("unshare", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--pid", "--fork", "--kill-child"),
                    *("--propagation", "private", "bash", "-c", 'read -r _ && exec bash "$@"', "machine", script),
                    *("machine", self.name, self.place.base, str(self.layer), self.place.cache, *self.place.binds),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        own = os.readlink("/proc/self/ns/net")
        pid = self._process.pid
        wait_for(
            f"{self.name}: namespaces",
            20,
            lambda: os.readlink(f"/proc/{pid}/ns/net") != own and bool(self._first()),
            0.02,
        )
        self._plug()
        assert self._process.stdin
        self._process.stdin.write(b"\n")
        self._process.stdin.close()

    def _plug(self) -> None:
        """Cables to both networks, and addresses: they go with the machine."""
        assert self._process
        pid = str(self._process.pid)
        uplinks = (("eth1", "external"), ("eth2", "underlay")) if self.is_host else ()
        for device, bridge in (("eth0", "mgmt"), *uplinks):
            command("ip", "link", "add", f"{self.name}-{device}", "type", "veth", "peer", "name", device, "netns", pid)
            command("ip", "link", "set", f"{self.name}-{device}", "master", bridge, "up")
        inside = ["nsenter", f"--target={pid}", "--net"]
        for device, _ in uplinks:  # the switch reads them, and the kernel must not answer there as well
            command(
                *inside,
                "sysctl",
                "-qw",
                f"net.ipv4.conf.{device}.arp_ignore=8",
                f"net.ipv6.conf.{device}.disable_ipv6=1",
            )
        for words in (
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
            *(("link", "set", device, "up") for device, _ in uplinks),
            ("address", "add", f"{self.address}/{MGMT.prefixlen}", "dev", "eth0"),
            ("route", "add", "default", "via", OPERATOR),
        ):
            command(*inside, "ip", *words)
        command(*inside, "ethtool", "-K", "eth0", "tx", "off")

    def _first(self) -> str:
        assert self._process
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return path.read_text().strip() if path.exists() else ""

    def wait(self) -> None:
        """Wait until systemd has started everything and SSH answers."""
        wait_for(f"{self.name}: systemd", BOOT_SECONDS, self._is_up)

    def _is_up(self) -> bool:
        if not self.runs:
            raise Failed(f"{self.name} ended: {self.place.work}/log/{self.name}.boot")
        comm = Path(f"/proc/{self._first()}/comm")
        if not comm.exists() or comm.read_text().strip() != "systemd":
            return False
        return self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded")

    def enter(self, *words: str) -> list[str]:
        """The command in the namespaces of the machine."""
        environment = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", f"PATH={PATH}"]
        return ["nsenter", f"--target={self._first()}", "--all", *environment, *words]

    def run(self, *words: str, check: bool = True, text: str | None = None, seconds: float = 600.0) -> str:
        return command(*self.enter(*words), check=check, text=text, seconds=seconds)

    def shell(self, script: str, check: bool = True) -> str:
        return self.run("bash", "-euo", "pipefail", "-c", script, check=check)

    def kill(self) -> None:
        """Cut the power."""
        assert self._process
        os.kill(self._process.pid, signal.SIGKILL)  # unshare, with which all processes of its namespace end
        self._process.wait(30)
        wait_for(f"{self.name}: its cable", 20, lambda: not Path(f"/sys/class/net/{self.name}-eth0").exists(), 0.05)

    def discard(self) -> None:
        shutil.rmtree(self.layer, ignore_errors=True)
