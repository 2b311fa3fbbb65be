"""What a lab is asked to be, and every name, path and address that follows from it.

A lab owns one directory. All that it makes outside that directory lives inside its own namespaces, so that labs with
different directories and ports do not meet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.errors import LabError

DEFAULT_PORT = 9696
MOST_HOSTS = 64
LEAST_MTU, MOST_MTU = 1300, 9000  # IPv6 in a tunnel needs 1280 and the tunnel's headers

WIRE = "wire"  # the namespace that holds the wires
EXTERNAL = "external"  # the machine on the external network
UNDERLAY = "underlay"
WIRES = {UNDERLAY: "br-underlay", "provider": "br-provider", "external": "br-ex"}  # and each host's bridge on it
PHYSICAL_NETWORKS = {"physnet1": "br-provider", "external": "br-ex"}
SYSTEM, NETDEV = DATAPATHS = ("system", "netdev")  # the kernel's datapath of Open vSwitch, and the one in userspace
EXTERNAL_ADDRESSES = ("203.0.113.1/24", "2001:db8:203:113::1/64")

VM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
HOST_NAME = re.compile(r"h[0-9]+")


@dataclass(frozen=True)
class Settings:
    """As asked for; kept in the lab's directory."""

    hosts: int = 3
    port: int = DEFAULT_PORT
    mtu: int = 1500
    underlay_ip_version: int = 4
    datapath: str = NETDEV
    central: int = 2  # so many hosts, the first ones, take routers of every kind; the others only what is distributed
    roles: tuple[str, ...] = ("l2", "dhcp", "l3", "metadata")
    server_config_files: tuple[str, ...] = ()
    agent_config_files: tuple[str, ...] = ()

    @property
    def host_names(self) -> tuple[str, ...]:
        return tuple(f"h{number}" for number in range(1, self.hosts + 1))

    def agent_mode(self, host: str) -> str:
        """Of the host's L3 agent."""
        return "dvr_snat" if host in self.host_names[: self.central] else "dvr"

    @property
    def routes(self) -> bool:
        return "l3" in self.roles

    @property
    def serves_dhcp(self) -> bool:
        return "dhcp" in self.roles

    @property
    def serves_metadata(self) -> bool:
        return "metadata" in self.roles

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def check(settings: Settings) -> None:
    """Refuse, by the option's name, what cannot be."""
    if not 1 <= settings.hosts <= MOST_HOSTS:
        raise LabError(f"--hosts {settings.hosts}: a lab has 1 to {MOST_HOSTS} hosts")
    if not 1 <= settings.port <= 65535:
        raise LabError(f"--port {settings.port} is no port")
    if not LEAST_MTU <= settings.mtu <= MOST_MTU:
        raise LabError(f"--mtu {settings.mtu}: between {LEAST_MTU} and {MOST_MTU}")
    if settings.underlay_ip_version not in (4, 6):
        raise LabError(f"--underlay-ip-version {settings.underlay_ip_version}: 4 or 6")
    if settings.datapath not in DATAPATHS:
        raise LabError(f"--datapath {settings.datapath}: {' or '.join(DATAPATHS)}")
    if settings.central < 1:
        raise LabError(f"--central {settings.central}: at least one host has to take routers that are at one place")
    for name in (*settings.server_config_files, *settings.agent_config_files):
        if not Path(name).is_file():
            raise LabError(f"there is no configuration file {name}")


def check_vm_name(name: str) -> None:
    if not VM_NAME.fullmatch(name):
        raise LabError(f"{name!r} is no name for a VM: letters, digits, '_', '.' and '-', at most 60")
    if HOST_NAME.fullmatch(name) or name == EXTERNAL:
        raise LabError(f"a VM cannot be called {name}: that is the name of a host or of the external machine")


@dataclass(frozen=True)
class Places:
    """Where things are in the lab's directory."""

    state: Path

    @property
    def lab(self) -> Path:
        return self.state / "lab.json"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    @property
    def mark(self) -> Path:
        """Where every namespace of the lab has a mount of its own: see `processes`."""
        return self.state / "mark"

    @property
    def server(self) -> Path:
        return self.state / "server"

    @property
    def feed_socket(self) -> Path:
        return self.server / "feed.sock"

    @property
    def clouds(self) -> Path:
        return self.state / "clouds.yaml"

    @property
    def metadata_secret(self) -> Path:
        """What Nova's stand-in and the hosts' metadata processes share."""
        return self.state / "metadata-secret"

    @property
    def vms(self) -> Path:
        return self.state / "vms"

    @property
    def dhcp_clients(self) -> Path:
        """A directory for each VM that has one."""
        return self.state / "dhcp-clients"

    @property
    def pids(self) -> Path:
        return self.state / "pids"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    def host(self, name: str) -> Path:
        return self.state / name

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"


def host_number(name: str) -> int:
    return int(name.removeprefix("h"))


def underlay_address(host: str, version: int) -> str:
    return f"10.255.0.{host_number(host)}" if version == 4 else f"fd00:255::{host_number(host):x}"


def underlay_networks(host: str) -> tuple[str, str]:
    """Both addresses of a host, with the length of the prefix."""
    return f"{underlay_address(host, 4)}/24", f"{underlay_address(host, 6)}/64"


def bridge_mac(host: str, wire: str) -> str:
    """Not the uplink's own address, else the host's kernel would take packets that came for the bridge."""
    return f"02:4c:61:62:{list(WIRES).index(wire):02x}:{host_number(host):02x}"


def vm_namespace(name: str) -> str:
    return f"vm-{name}"
