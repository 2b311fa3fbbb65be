"""Open vSwitch of one lab host: ovsdb-server, ovs-vswitchd, and the bridges of the host's uplinks.

The daemons run in the host's namespaces with their default paths, so `ovs-vsctl` and `ovs-ofctl` need no options there.
With --detach both return once they serve, ovs-vswitchd after it has applied the database: no further waiting is needed.
The kernel has a separate datapath per network namespace, so `system` bridges of different hosts do not clash either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino.dataplane.protocols.unixctl import ControlError, control_connection
from neutrino.lab.errors import LabError
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.namespaces import command, host_command, host_file, in_host, ip_batch, write_sysctls
from neutrino.lab.settings import NETDEV, OVS_RUN, UNDERLAY, UPLINKS, LabPaths, bridge_mac, underlay_address
from neutrino.lab.timing import scaled

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
DATABASE, SWITCH = "ovsdb-server", "ovs-vswitchd"
SECONDS = 60  # a switch that answers at all answers sooner, even on a starved machine
MAX_NEIGHBOUR_AGE = 3600  # seconds, the maximum that ovs-vswitchd accepts
# By default Open vSwitch starts threads for every CPU, which many switches on one machine do not need.
THREADS = ("other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")
# The second remote serves the managers that the database lists, such as those of the agent's [ovs] ovsdb_managers.
MANAGER_REMOTE = "--remote=db:Open_vSwitch,Open_vSwitch,manager_options"


def create_database(path: Path) -> bool:
    """Create Open vSwitch's database unless the file exists; whether it was created."""
    if path.exists():
        return False
    command(["ovsdb-tool", "create", str(path), SCHEMA])
    return True


@dataclass(frozen=True)
class OpenVSwitch:
    paths: LabPaths
    host: str
    holder: int  # the pid of the process that holds the host's namespaces
    peers: Sequence[str]  # all hosts of the lab
    datapath: str
    settings: Sequence[str] = THREADS  # of the switch, in a new database

    def start(self) -> None:
        """Start the daemons that do not run."""
        database = self.paths.host(self.host) / "conf.db"
        is_new = create_database(database)
        if self.pid(DATABASE) is None:
            remotes = (f"--remote=punix:{OVS_RUN}/db.sock", MANAGER_REMOTE)
            self._run(DATABASE, str(database), *remotes, *self._daemon_options(DATABASE))
        if is_new:
            # The switch starts after this.
            self.vsctl("--no-wait", *render_bridges(self.host, self.datapath, self.settings))
        if self.pid(SWITCH) is None:
            # With netdev bridges alone, ovs-vswitchd need not probe the kernel datapath, which may not exist.
            only = ["--disable-system"] if self.datapath == NETDEV else []
            self._run(SWITCH, *self._daemon_options(SWITCH), *only, f"unix:{OVS_RUN}/db.sock")
            # A restarted switch recreates the devices of its bridges, which then have no addresses.
            in_host(self.holder, lambda: apply_underlay(self.host))
            if self.datapath == NETDEV:
                self._set_tunnel_neighbours()

    def pid(self, program: str) -> int | None:
        """The daemon's pid if it runs. Its mount namespace is compared, as the pid of a stale file may be reused."""
        try:
            pid = int(host_file(self.holder, f"{OVS_RUN}/{program}.pid").read_text())
        except (OSError, ValueError):
            return None
        own = processes.read_namespace(self.holder, "mnt")
        return pid if processes.is_alive(pid) and processes.read_namespace(pid, "mnt") == own else None

    def vsctl(self, *arguments: str) -> str:
        return self._run("ovs-vsctl", f"--timeout={scaled(SECONDS):.0f}", *arguments)

    def _set_tunnel_neighbours(self) -> None:
        """The userspace datapath drops the first packet to a tunnel endpoint with an unresolved MAC. The kernel queues
        it; tests that count lost packets would count that one.
        """
        try:
            with control_connection(str(host_file(self.holder, OVS_RUN)), scaled(SECONDS)) as switch:
                for arguments in render_neighbours(self.host, self.peers):
                    switch.call(*arguments)
        except ControlError as error:
            raise LabError(f"{self.host}: {error}") from None

    def _run(self, *argv: str) -> str:
        try:
            return command(host_command(self.holder, argv))
        except LabError as error:
            raise LabError(f"{self.host}: {error}") from None

    def _daemon_options(self, program: str) -> list[str]:
        log = self.paths.log(f"{self.host}-{program}")
        return ["--detach", "--no-chdir", "--pidfile", f"--log-file={log}", "-vconsole:off", "-vsyslog:off"]


def render_bridges(host: str, datapath: str, settings: Sequence[str] = THREADS) -> list[str]:
    """ovs-vsctl arguments for a new database, before the switch starts: settings, and a bridge for each uplink."""
    arguments = [
        *("init", "--", "set", "Open_vSwitch", ".", f"external_ids:system-id={host}", f"external_ids:hostname={host}"),
        *settings,
    ]
    for uplink, bridge in UPLINKS.items():
        arguments += [
            *("--", "add-br", bridge, "--", "set", "Bridge", bridge, f"datapath_type={datapath}"),
            f'other_config:hwaddr="{bridge_mac(host, uplink)}"',
            *("--", "add-port", bridge, uplink),
        ]
    return arguments


def render_neighbours(host: str, peers: Sequence[str]) -> list[tuple[str, ...]]:
    """ovs-appctl commands for static neighbour entries of the other hosts' tunnel endpoints."""
    bridge = UPLINKS[UNDERLAY]
    return [
        ("tnl/neigh/aging", str(MAX_NEIGHBOUR_AGE)),
        *(
            ("tnl/neigh/set", bridge, underlay_address(peer, version), bridge_mac(peer, UNDERLAY))
            for peer in peers
            if peer != host
            for version in (4, 6)
        ),
    ]


def apply_underlay(host: str) -> None:
    """Address br-underlay: a userspace tunnel endpoint must be an address of the bridge that the uplink is plugged into."""
    bridge = UPLINKS[UNDERLAY]
    # Undoes fabric.SWITCH_ONLY for this one device, where the host's kernel itself has addresses.
    conf = {"ipv4/conf/{}/arp_ignore": 0, "ipv6/conf/{}/accept_dad": 0, "ipv6/conf/{}/disable_ipv6": 0}
    write_sysctls({name.format(bridge): value for name, value in conf.items()})
    ip_batch(
        [
            "link set lo up",
            *(f"link set {uplink} up" for uplink in UPLINKS),
            f"link set {bridge} up",
            f"address replace {underlay_address(host, 4)}/24 dev {bridge}",
            f"address replace {underlay_address(host, 6)}/64 dev {bridge} nodad",
        ]
    )
