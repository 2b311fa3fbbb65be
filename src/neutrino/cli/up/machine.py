"""This machine as the host of `neutrino up`: its Open vSwitch, external bridge, agent and instances.

What a run creates on the machine (bridges, namespaces, devices, processes) is removed when it ends, and created again by
the next run from the server's database. A killed run removes nothing: the next one does that first.
"""

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from neutrino import private
from neutrino.agent.programs import CAP_NET_ADMIN, has_capability, programs_of
from neutrino.cli import preflight
from neutrino.cli.errors import CommandError
from neutrino.cli.up.openvswitch import OwnSwitch, others_running
from neutrino.lab.api_client import ApiClient
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.namespaces import command
from neutrino.lab.instances.instances import Instances, VmRecords
from neutrino.lab.lab import AGENT_NICE
from neutrino.lab.settings import render_template
from neutrino.model.roles import USUAL

EXTERNAL_BRIDGE, EXTERNAL_NETWORK = "br-ex", "external"
EXTERNAL_CIDR, EXTERNAL_GATEWAY = "172.24.4.0/24", "172.24.4.1"
AGENT_BRIDGES = ("br-int", "br-tun")
DEFAULT_STATE, RUN_FILE = "state", "up.json"
PROGRAMS = {
    "ovsdb-server": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ip": "iproute2",
    # For `neutrino vm`: instances are namespaces, whose devices must not leave checksums to hardware.
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "keepalived": "keepalived",
    "radvd": "radvd",
}


def choose_datapath(state: Path) -> str:
    """Choose the datapath for this machine; LabError has the reason why networks cannot be wired on it."""
    if not has_capability(CAP_NET_ADMIN):
        raise LabError("creating network devices needs CAP_NET_ADMIN: run it as root")
    missing = preflight.missing_programs({**PROGRAMS, **programs_of(USUAL)})
    if missing:
        raise LabError(f"programs are missing: apt-get install {' '.join(sorted(set(missing.values())))}")
    if reason := preflight.missing_netlink():
        raise LabError(reason)
    others = others_running(state / "ovs")
    devices = {name for _, name in socket.if_nameindex()}
    taken = [name for name in (EXTERNAL_BRIDGE, *AGENT_BRIDGES) if name in devices]
    if others and taken:
        raise LabError(f"another Open vSwitch on this machine has the bridge {taken[0]}")
    # Two ovs-vswitchd would share the kernel datapath and delete each other's ports.
    kernel = Path("/sys/module/openvswitch").exists() and not others
    return "system" if kernel else "netdev"


@dataclass(frozen=True)
class Run:
    """A run of `neutrino up`, recorded in its state directory for other commands."""

    directory: str
    pid: int
    url: str
    no_auth: bool  # every client is an administrator, this command included
    host: str = ""  # this machine's name as a host; empty if networks are not wired
    datapath: str = ""  # system: kernel; netdev: userspace; empty if networks are not wired

    @property
    def state(self) -> Path:
        return Path(self.directory)

    @property
    def switch(self) -> OwnSwitch:
        return OwnSwitch(self.state / "ovs", self.datapath, self.pid)

    @contextlib.contextmanager
    def wired(self, agent_files: Sequence[str]) -> Iterator[None]:
        """Run the switch with the external bridge; at the end, remove everything that it and the agent created."""
        self._tear_down_agent(agent_files)  # of a killed run
        with self.switch.running(AGENT_BRIDGES), contextlib.ExitStack() as stack:
            # Called in reverse order: the agent's namespaces go before the bridges that their devices are on.
            stack.callback(self._remove_bridges)
            stack.callback(self._tear_down_agent, agent_files)
            self.switch.add_bridge(EXTERNAL_BRIDGE)
            command(["ip", "link", "set", EXTERNAL_BRIDGE, "up"])
            command(["ip", "address", "replace", f"{EXTERNAL_GATEWAY}/24", "dev", EXTERNAL_BRIDGE])
            yield

    def _tear_down_agent(self, agent_files: Sequence[str]) -> None:
        from neutrino.agent.config import configuration
        from neutrino.agent.teardown.own_switch import tear_down

        tear_down(configuration(agent_files))

    def _remove_bridges(self) -> None:
        """Delete the agent's bridges and patch ports. The external bridge stays: the user may have added ports to it."""
        with contextlib.suppress(LabError):
            arguments = [word for bridge in AGENT_BRIDGES for word in ("--", "--if-exists", "del-br", bridge)]
            arguments += ["--", "--if-exists", "del-port", f"phy-{EXTERNAL_BRIDGE}"]
            self.switch.vsctl(*arguments[1:])

    def write_agent_configuration(self) -> str:
        """Write the agent's configuration file; returns its path."""
        path = self.state / "agent.conf"
        text = render_template(
            Path(__file__).with_name("agent.conf"),
            host=self.host,
            state=self.state,
            roles=",".join(USUAL),
            datapath=self.datapath,
            network=EXTERNAL_NETWORK,
            bridge=EXTERNAL_BRIDGE,
        )
        path.write_text(text)
        return str(path)

    def run_agent(self, server_files: Sequence[str], agent_files: Sequence[str]) -> int | None:
        """Issue the agent's credential, then run the agent, in a child process.

        A new credential at each start: the existing file may belong to another database or to other roles.
        """
        # Not at the top: `neutrino vm` needs neither the agent nor the server.
        from neutrino.cli.agent import run_agent
        from neutrino.cli.database import opened
        from neutrino.server.config import configuration
        from neutrino.server.feed.connections.credentials import Credentials

        path = self.state / "agent" / "credential"
        private.own_directory(path.parent, passable=True)
        private.make_file(path)
        with opened(configuration(server_files)) as db:
            credentials = Credentials(db)
            if self.host in credentials.known():
                credentials.set_roles(self.host, USUAL)
                path.write_text(credentials.rotate(self.host))
            else:
                path.write_text(credentials.add(self.host, USUAL))
        os.nice(AGENT_NICE)  # requests of clients come before the work that they cause
        return run_agent(agent_files)

    def instances(self) -> Instances:
        directory, log = self.state / "vms", str(self.state / "log" / "agent.log")
        directory.mkdir(parents=True, exist_ok=True)
        clients = self.state / "dhcp-clients"
        return Instances(
            ApiClient(self.url), VmRecords(directory), [self.host], self._host, clients, log=lambda host: log
        )

    def _host(self, name: str) -> OwnSwitch:
        if name != self.host:  # the machine was renamed since the instance was created
            raise LabError(f"there is no host {name}: this machine is {self.host}")
        return self.switch


def find_running(state: Path) -> Run:
    """Find the run of `neutrino up` with this state directory."""
    try:
        run = msgspec.json.decode((state / RUN_FILE).read_bytes(), type=Run)
        os.kill(run.pid, 0)  # a killed run leaves its file
    except (OSError, msgspec.MsgspecError):
        raise CommandError(
            f"neutrino up is not running with state directory {state}: start it, or use --state"
        ) from None
    return run
