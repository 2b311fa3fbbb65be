"""A rack of a lab: an Open vSwitch bridge as its switch, managed by SSH as an operator's would be, and a bare-metal node.

The switch is one more bridge of a host's Open vSwitch, with a port to the provider network that carries all VLANs, and
`swp1` to the node, a network namespace. Its SSH daemon is reached over a link of its own.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import in_host
from neutrino.lab.settings import FABRIC
from tests.support.lab_control import Lab, end

BRIDGE, UPLINK, PORT, NODE, MAC = "rack", "rack-up", "swp1", "node", "02:00:00:00:77:01"
HERE, THERE = "198.51.100.1", "198.51.100.2"  # ends of the link for management
DRIVERS = Path(__file__).parents[2] / "build" / "drivers"  # of requirements-drivers.lock


@dataclass(frozen=True)
class Keys:
    """Keys of the switch's SSH daemon, and of its client."""

    directory: Path

    @property
    def client(self) -> Path:
        return self.directory / "client"

    def make(self) -> Keys:
        for name in ("client", "host"):
            made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / name)]
            subprocess.run(made, check=True, timeout=60, stdin=subprocess.DEVNULL)
        (self.directory / "sshd.conf").write_text(
            f"ListenAddress {THERE}\nHostKey {self.directory}/host\nAuthorizedKeysFile {self.directory}/client.pub\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
            f"PidFile none\nLogLevel VERBOSE\nMaxStartups 100\n"
        )
        return self


@dataclass(frozen=True)
class Rack:
    lab: Lab
    host: str
    keys: Keys

    def tag(self) -> str:
        """The VLAN of the node's port, `[]` without one."""
        return self.column("tag")

    def column(self, name: str) -> str:
        return self.lab.run(self.host, ["ovs-vsctl", "get", "port", PORT, name]).stdout.strip()

    def node(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.lab.run(self.host, ["ip", "netns", "exec", NODE, *argv], check=check)

    def address(self, mac: str, address: str) -> None:
        """What a node's operating system does with the port that it gets."""
        self.node("ip", "link", "set", "eth0", "address", mac, "up")
        self.node("ip", "address", "replace", f"{address}/24", "dev", "eth0")

    def reaches(self, address: str) -> bool:
        return self.node("ping", "-c1", "-W1", address, check=False).returncode == 0

    @contextlib.contextmanager
    def managed(self) -> Iterator[None]:
        """While the switch's SSH daemon runs."""
        argv = ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.keys.directory / "sshd.conf")]
        log = self.lab.paths.log("rack-sshd")
        with log.open("a") as output:
            daemon = self.lab.popen(self.host, argv, stdout=output, stderr=output)
        try:
            listens = ["ss", "-Hltn", "sport", "=", ":22"]
            wait_until(lambda: bool(self.lab.run(self.host, listens).stdout), 20, f"sshd does not listen: {log}")
            yield
        finally:
            end(daemon.pid)
            daemon.wait(10)


@contextlib.contextmanager
def rack(lab: Lab, host: str, keys: Keys) -> Iterator[Rack]:
    holder, fabric = lab.holder(host), lab.holder(FABRIC)

    def ip(*argv: str, inside: int | None = None) -> None:
        def run() -> None:
            subprocess.run(["ip", *argv], check=True, timeout=20)

        run() if inside is None else in_host(inside, run)

    ip("link", "add", UPLINK, "type", "veth", "peer", "name", UPLINK, "netns", str(holder), inside=fabric)
    ip("link", "set", UPLINK, "master", "provider", "up", inside=fabric)
    ip("link", "add", "rack-mgmt", "type", "veth", "peer", "name", "mgmt", "netns", str(holder))
    try:
        ip("address", "add", f"{HERE}/30", "dev", "rack-mgmt")
        ip("link", "set", "rack-mgmt", "up")
        for line in (
            ["ip", "address", "add", f"{THERE}/30", "dev", "mgmt"],
            # Devices of a lab's host answer no ARP unless they are to.
            ["sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/mgmt/arp_ignore"],
            ["ip", "link", "set", "mgmt", "up"],
            ["ip", "link", "set", UPLINK, "up"],
            ["ip", "netns", "add", NODE],
            ["ip", "link", "add", PORT, "up", "type", "veth", "peer", "name", "eth0", "netns", NODE],
            ["ovs-vsctl", "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, f"datapath_type={lab.settings.datapath}"],
            ["ovs-vsctl", "add-port", BRIDGE, UPLINK, "--", "add-port", BRIDGE, PORT],
            ["mkdir", "-p", "/run/sshd"],
        ):
            lab.run(host, line)
        yield Rack(lab, host, keys)
    finally:
        ip("link", "delete", "rack-mgmt")
