"""The settings of a lab, and what is derived from them: names, paths, addresses and configuration files.

A lab owns one directory. Everything else that it creates lives in its own namespaces, so labs with different directories
and API ports do not affect each other.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab import nova_metadata
from neutrino.lab.errors import LabError
from neutrino.model.roles import USUAL

MAX_HOSTS = 64
MIN_MTU, MAX_MTU = 1300, 9000  # IPv6 needs 1280 bytes inside a tunnel, plus the tunnel's headers

FABRIC = "fabric"  # the namespace of the Linux bridges between the hosts
EXTERNAL = "external"  # the machine on the external network
UNDERLAY = "underlay"
# A host's uplinks, one per physical network, and the Open vSwitch bridge that each is plugged into.
UPLINKS = {UNDERLAY: "br-underlay", "provider": "br-provider", "external": "br-ex"}
BRIDGE_MAPPINGS = {"physnet1": "br-provider", "external": "br-ex"}
SYSTEM, NETDEV = DATAPATHS = ("system", "netdev")  # datapath types of Open vSwitch: kernel, userspace
EXTERNAL_ADDRESSES = ("203.0.113.1/24", "2001:db8:203:113::1/64")

OVS_RUN = "/run/openvswitch"  # in the mount namespace of a host

VM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
HOST_NAME = re.compile(r"h[0-9]+")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class LabSettings:
    """The options of `neutrino lab up`, stored in the lab's directory."""

    hosts: int = 3
    port: int = 9696
    mtu: int = 1500
    underlay_ip_version: int = 4
    datapath: str = NETDEV
    central: int = 2  # the first hosts, whose L3 agents host routers of every kind; the others only distributed parts
    roles: tuple[str, ...] = USUAL
    server_config_files: tuple[str, ...] = ()
    agent_config_files: tuple[str, ...] = ()
    keystone: str = ""  # the Python that has it; empty: no authentication

    @property
    def host_names(self) -> tuple[str, ...]:
        return tuple(f"h{number}" for number in range(1, self.hosts + 1))

    def agent_mode(self, host: str) -> str:
        """The mode of the host's L3 agent."""
        return "dvr_snat" if host in self.host_names[: self.central] else "dvr"

    @property
    def metrics_port(self) -> int:
        """Of the server: with the default port of the API, the default one of metrics; another lab has another one."""
        return self.port + 3 if self.port + 3 <= 65535 else self.port - 3

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def keystone_port(self) -> int:
        return self.port + 4 if self.port + 4 <= 65535 else self.port - 4

    @property
    def keystone_url(self) -> str:
        return f"http://127.0.0.1:{self.keystone_port}/v3"


class LabPaths:
    """Files and directories in the lab's directory."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.settings = state / "lab.json"
        self.lock = state / "lock"
        self.mark = state / "mark"  # mount point of the mark in every mount namespace of the lab: see `hosts.processes`
        self.server = state / "server"
        self.feed_socket = self.server / "feed.sock"
        self.clouds = state / "clouds.yaml"
        self.keystone = state / "keystone"  # with --keystone: its configuration, database and keys
        self.passwords = self.keystone / "passwords.json"  # of its users
        self.server_keystone = self.server / "keystone.conf"
        self.metadata_secret = state / "metadata-secret"  # shared by the Nova stand-in and the metadata roles
        self.vms = state / "vms"
        self.dhcp_clients = state / "dhcp-clients"
        self.pids = state / "pids"
        self.logs = state / "logs"

    def host(self, name: str) -> Path:
        return self.state / name

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"


def check(settings: LabSettings) -> None:
    """Reject invalid settings, naming the option of `neutrino lab up`."""
    if not 1 <= settings.hosts <= MAX_HOSTS:
        raise LabError(f"--hosts {settings.hosts}: a lab has 1 to {MAX_HOSTS} hosts")
    if not 1 <= settings.port <= 65535:
        raise LabError(f"--port {settings.port}: a TCP port is between 1 and 65535")
    if not MIN_MTU <= settings.mtu <= MAX_MTU:
        raise LabError(f"--mtu {settings.mtu}: the MTU must be between {MIN_MTU} and {MAX_MTU}")
    if settings.datapath not in DATAPATHS:
        raise LabError(f"--datapath {settings.datapath}: must be {' or '.join(DATAPATHS)}")
    if settings.central < 1:
        raise LabError(f"--central {settings.central}: at least one host must be able to host centralized routers")
    for name in (*settings.server_config_files, *settings.agent_config_files):
        if not Path(name).is_file():
            raise LabError(f"there is no configuration file {name}")


def check_vm_name(name: str) -> None:
    if not VM_NAME.fullmatch(name):
        raise LabError(f"invalid VM name {name!r}: letters, digits, '_', '.' and '-', at most 60 characters")
    if HOST_NAME.fullmatch(name) or name == EXTERNAL:
        raise LabError(f"invalid VM name {name}: reserved for a host or the external machine")


def host_number(name: str) -> int:
    return int(name.removeprefix("h"))


def underlay_address(host: str, version: int) -> str:
    return f"10.255.0.{host_number(host)}" if version == 4 else f"fd00:255::{host_number(host):x}"


def bridge_mac(host: str, uplink: str) -> str:
    """The MAC of a host's bridge. With the uplink's own MAC, the kernel's stack would accept the bridge's packets too."""
    return f"02:4c:61:62:{list(UPLINKS).index(uplink):02x}:{host_number(host):02x}"


def vm_namespace(name: str) -> str:
    return f"vm-{name}"


# --- configuration files, with the defaults that `neutrino up` shares ---------------------------------------------------


def render_template(template: Path, **values: object) -> str:
    """The text of a template. oslo.config would expand a dollar sign as a reference to another option."""
    return template.read_text().format_map({field: str(value).replace("$", "$$") for field, value in values.items()})


def render_server(settings: LabSettings, state: Path, workers: int, log_file: Path | str = "") -> str:
    """The server of a lab or of `neutrino up`; without `log_file` it logs to standard error."""
    return render_template(
        HERE / "server.conf",
        port=settings.port,
        metrics_port=settings.metrics_port,
        state=state,
        workers=workers,
        log_file=log_file,
        mtu=settings.mtu,
        ip_version=settings.underlay_ip_version,
    )


def render_server_keystone(settings: LabSettings, user: str, password: str) -> str:
    """What a server needs to authenticate callers with the lab's Keystone."""
    return render_template(HERE / "server_keystone.conf", url=settings.keystone_url, user=user, password=password)


def render_clouds(url: str) -> str:
    return render_template(HERE / "clouds.yaml", url=url)


def render_agent(settings: LabSettings, paths: LabPaths, host: str, metadata_secret: str = "") -> str:
    return render_template(
        HERE / "agent.conf",
        host=host,
        state=paths.host(host),
        roles=",".join(settings.roles),
        agent_mode=settings.agent_mode(host),
        serves_metadata="metadata" in settings.roles,
        metadata_port=nova_metadata.PORT,
        metadata_secret=metadata_secret,
        feed_socket=paths.feed_socket,
        ovs=OVS_RUN,
        local_ip=underlay_address(host, settings.underlay_ip_version),
        bridge_mappings=",".join(f"{network}:{bridge}" for network, bridge in BRIDGE_MAPPINGS.items()),
        datapath=settings.datapath,
        routes="l3" in settings.roles,
        ip_version=settings.underlay_ip_version,
    )
