"""Open vSwitch of one host, and the host's bridges on the wires.

Its datapath is in userspace, which works on every machine, or the kernel's, of which each network namespace has its own.

It runs in the host's namespaces with its usual paths, so `ovs-vsctl` and its like need no options there. Both daemons
detach once they serve, the switch when it has set up what the database says; so starting them is waiting for them.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from neutrino.dataplane.openflow.unixctl import ControlConnection, ControlError, control_socket
from neutrino.lab import processes
from neutrino.lab.enter import command, host_command, host_file, host_network, in_network, ip_batch, write_sysctls
from neutrino.lab.errors import LabError
from neutrino.lab.programs import OVS_SCHEMA
from neutrino.lab.settings import NETDEV, UNDERLAY, WIRES, Places, bridge_mac, underlay_address, underlay_networks

RUN = "/run/openvswitch"
DATABASE, SWITCH = "ovsdb-server", "ovs-vswitchd"
SECONDS = 10
LONGEST_AGE = 3600  # seconds, all that it takes


class OpenVSwitch:
    def __init__(
        self, places: Places, host: str, holder: int, peers: Sequence[str] = (), datapath: str = NETDEV
    ) -> None:
        self._places = places
        self._datapath = datapath
        self._host = host
        self._holder = holder
        self._peers = peers

    @property
    def holder(self) -> int:
        return self._holder

    def start(self) -> None:
        """Bring up what does not run."""
        database = self._places.host(self._host) / "conf.db"
        is_new = not database.exists()
        if is_new:
            command(["ovsdb-tool", "create", str(database), OVS_SCHEMA])
        if self.pid(DATABASE) is None:
            remotes = (f"--remote=punix:{RUN}/db.sock", "--remote=db:Open_vSwitch,Open_vSwitch,manager_options")
            self._run(DATABASE, str(database), *remotes, *self._daemon(DATABASE))
        if is_new:
            self.vsctl("--no-wait", *render_bridges(self._host, self._datapath))
        if self.pid(SWITCH) is None:
            only = ["--disable-system"] if self._datapath == NETDEV else []
            self._run(SWITCH, *self._daemon(SWITCH), *only, f"unix:{RUN}/db.sock")
            # The bridge's device may be a new one, with no memory of its addresses.
            in_network(host_network(self._holder), lambda: apply_underlay(self._host))
            if self._datapath == NETDEV:
                self._introduce_peers()

    def stop(self, *, kill: bool = False, database: bool = True) -> None:
        for program in (SWITCH, DATABASE) if database else (SWITCH,):
            pid = self.pid(program)
            if pid is not None:
                processes.end(pid, signal.SIGKILL if kill else signal.SIGTERM)

    def pid(self, program: str) -> int | None:
        """The daemon, if it runs and is this host's."""
        try:
            pid = int(self._pid_file(program).read_text())
        except (OSError, ValueError):
            return None
        own = processes.read_namespace(self._holder, "mnt")
        return pid if processes.is_alive(pid) and processes.read_namespace(pid, "mnt") == own else None

    def vsctl(self, *arguments: str) -> str:
        return self._run("ovs-vsctl", f"--timeout={SECONDS}", *arguments)

    def _introduce_peers(self) -> None:
        """A switch in userspace drops the first packet to a tunnel's end whose MAC address it has to ask for; the kernel's
        would let it wait. Tests that count packets must not count that one.
        """
        try:
            path = control_socket(str(host_file(self._holder, RUN)))
            with ControlConnection(path, SECONDS) as switch:
                for arguments in render_neighbours(self._host, self._peers):
                    switch.call(*arguments)
        except ControlError as error:
            raise LabError(f"{self._host}: {error}") from None

    def _run(self, *argv: str) -> str:
        try:
            return command(host_command(self._holder, argv))
        except LabError as error:
            raise LabError(f"{self._host}: {error}") from None

    def _daemon(self, program: str) -> list[str]:
        log = self._places.log(f"{self._host}-{program}")
        return ["--detach", "--no-chdir", "--pidfile", f"--log-file={log}", "-vconsole:off", "-vsyslog:off"]

    def _pid_file(self, program: str) -> Path:
        return host_file(self._holder, f"{RUN}/{program}.pid")


def render_bridges(host: str, datapath: str = NETDEV) -> list[str]:
    """The one call of ovs-vsctl that a new database needs, before the switch starts. One thread of each kind is enough."""
    arguments = [
        *("init", "--", "set", "Open_vSwitch", "."),
        *(f"external_ids:system-id={host}", f"external_ids:hostname={host}"),
        *("other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"),
    ]
    for wire, bridge in WIRES.items():
        arguments += [
            *("--", "add-br", bridge, "--", "set", "Bridge", bridge, f"datapath_type={datapath}"),
            f'other_config:hwaddr="{bridge_mac(host, wire)}"',
            *("--", "add-port", bridge, wire),
        ]
    return arguments


def render_neighbours(host: str, peers: Sequence[str]) -> list[tuple[str, ...]]:
    """Commands to the switch that tell it where the other ends of its tunnels are."""
    bridge = WIRES[UNDERLAY]
    return [
        ("tnl/neigh/aging", str(LONGEST_AGE)),
        *(
            ("tnl/neigh/set", bridge, underlay_address(peer, version), bridge_mac(peer, UNDERLAY))
            for peer in peers
            if peer != host
            for version in (4, 6)
        ),
    ]


def render_underlay(host: str) -> list[str]:
    """Commands of `ip` in the host: a userspace tunnel ends at an address of a bridge that holds the uplink."""
    bridge = WIRES[UNDERLAY]
    v4, v6 = underlay_networks(host)
    uplinks = [f"link set {wire} up" for wire in WIRES]
    addresses = [f"address replace {v4} dev {bridge}", f"address replace {v6} dev {bridge} nodad"]
    return ["link set lo up", *uplinks, f"link set {bridge} up", *addresses]


def apply_underlay(host: str) -> None:
    bridge = WIRES[UNDERLAY]
    write_sysctls(
        {
            f"ipv4/conf/{bridge}/arp_ignore": 0,
            f"ipv6/conf/{bridge}/accept_dad": 0,
            f"ipv6/conf/{bridge}/disable_ipv6": 0,
        }
    )
    ip_batch(render_underlay(host))
