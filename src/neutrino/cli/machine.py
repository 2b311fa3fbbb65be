"""This machine as the one host of `neutrino up`: its Open vSwitch, its bridge to the world outside, and its agent.

The switch runs in its own directory, so that one of the machine's, if there is one, is not touched. Everything ends with
`neutrino up`, also where that is killed; what the agent has built stays, in namespaces and in the switch's database, and
the next start finds it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino import private
from neutrino.cli.beside import PR_SET_PDEATHSIG

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
EXTERNAL_BRIDGE, EXTERNAL_NETWORK = "br-ex", "external"
EXTERNAL_CIDR, EXTERNAL_GATEWAY = "172.24.4.0/24", "172.24.4.1"
SECONDS = 20.0
PROGRAMS = {
    "ovsdb-server": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ip": "iproute2",
    "nft": "nftables",
    "conntrack": "conntrack",
    "dnsmasq": "dnsmasq-base",
    "keepalived": "keepalived",
    "radvd": "radvd",
}

AGENT = """\
# Written by the neutrino command. Options of your own go into a file given with --agent-config-file.
[DEFAULT]
host = {host}
state_path = {state}/agent
roles = {roles}

[feed]
server = unix:{state}/feed.sock
credential_file = {state}/agent/credential

[ovs]
ovsdb_connection = unix:{state}/ovs/db.sock
ovsdb_managers =
run_directory = {state}/ovs
datapath_type = {datapath}
local_ip = 127.0.0.1
bridge_mappings = {network}:{bridge}

[agent]
tunnel_types = vxlan,gre,geneve
"""


class NoDataplane(Exception):
    """Why this machine cannot wire networks; the API serves without."""


@dataclass(frozen=True)
class Machine:
    state: Path
    host: str
    roles: Sequence[str]

    @property
    def switch(self) -> Path:
        return self.state / "ovs"

    @property
    def datapath(self) -> str:
        """The kernel's where there is one."""
        return "system" if Path("/sys/module/openvswitch").exists() else "netdev"

    # --- the switch -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def running_switch(self) -> Iterator[None]:
        """Open vSwitch, for as long as the block lasts."""
        with contextlib.ExitStack() as stack:
            self.switch.mkdir(parents=True, exist_ok=True)
            database = self.switch / "conf.db"
            if not database.exists():
                _call("ovsdb-tool", "create", str(database), SCHEMA)
            (self.switch / "db.sock").unlink(missing_ok=True)
            socket = f"unix:{self.switch}/db.sock"
            remote = f"--remote=p{socket}"
            self._spawn(stack, "ovsdb-server", str(database), remote, "--no-chdir")
            _wait(lambda: (self.switch / "db.sock").exists(), "ovsdb-server")
            _call("ovs-vsctl", f"--db={socket}", "--no-wait", "--", "init", "--", *self._bridges())
            self._spawn(stack, "ovs-vswitchd", socket, "--no-chdir")
            _call("ovs-vsctl", f"--db={socket}", f"--timeout={SECONDS:.0f}", "set", "Open_vSwitch", ".", *_IDENTITY)
            _call("ip", "link", "set", EXTERNAL_BRIDGE, "up")
            _call("ip", "address", "replace", f"{EXTERNAL_GATEWAY}/24", "dev", EXTERNAL_BRIDGE)
            yield

    def _bridges(self) -> list[str]:
        bridge = EXTERNAL_BRIDGE
        return ["--may-exist", "add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={self.datapath}"]

    def _spawn(self, stack: contextlib.ExitStack, program: str, *arguments: str) -> None:
        """A process that ends with us, whatever happens to us."""
        environment = {**os.environ, "OVS_RUNDIR": str(self.switch), "OVS_LOGDIR": str(self.switch)}
        process = subprocess.Popen(
            [
                program,
                *arguments,
                "--pidfile",
                f"--log-file={self.switch}/{program}.log",
                "-vconsole:off",
                "-vsyslog:off",
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us, who then end it
            preexec_fn=_end_with_parent,
        )
        stack.callback(_end, process)

    # --- the agent --------------------------------------------------------------------------------------------------

    def write_agent_configuration(self) -> Path:
        path = self.state / "agent.conf"
        text = AGENT.format(
            host=self.host,
            state=str(self.state).replace("$", "$$"),
            roles=",".join(self.roles),
            datapath=self.datapath,
            network=EXTERNAL_NETWORK,
            bridge=EXTERNAL_BRIDGE,
        )
        path.write_text(text)
        return path

    def run_agent(self, server_files: Sequence[str], agent_files: Sequence[str]) -> int:
        """In the process that is the agent: first it sees to its own credential."""
        from neutrino.cli.agent import agent

        self._have_credential(server_files)
        return agent("run", agent_files)

    def _have_credential(self, server_files: Sequence[str]) -> None:
        from neutrino.server.config import database_url
        from neutrino.server.db import schema
        from neutrino.server.db.session import Database
        from neutrino.server.feed.credentials import Credentials, HostExists
        from neutrino.server.feed.main import configuration

        path = self.state / "agent" / "credential"
        if path.exists():
            return
        conf = configuration(server_files)
        db = Database(database_url(conf))
        try:
            schema.ensure(db, upgrade=conf.database.auto_upgrade)
            credentials = Credentials(db)
            try:
                credential = credentials.add(self.host)
            except HostExists:
                credential = credentials.rotate(self.host)
        finally:
            db.close()
        private.own_directory(path.parent, passable=True)
        private.make_file(path)
        path.write_text(credential)

    def end_daemons(self) -> None:
        """What the agent started and left running."""
        from neutrino.agent.dhcp.dnsmasq import Dnsmasq
        from neutrino.dataplane.netlink.namespaces import Namespaces
        from neutrino.dataplane.process.real import RealProcesses

        processes = RealProcesses(str(self.state / "agent"))
        for process in processes.running().values():
            processes.stop(process)
        dnsmasq = Dnsmasq(str(self.state / "agent" / "dhcp"), Namespaces())
        for network_id in dnsmasq.networks():
            dnsmasq.stop(network_id)


_IDENTITY = ("other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")


def check() -> None:
    """Raise NoDataplane where networks cannot be wired."""
    if os.geteuid() != 0:
        raise NoDataplane("only root may make network devices")
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if missing:
        raise NoDataplane(f"apt-get install {' '.join(sorted(missing))} would give what is missing")


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    if done.returncode:
        raise NoDataplane(f"{command[0]}: {done.stderr.strip()}")


def _wait(ready: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise NoDataplane(f"{what} does not start")
        time.sleep(0.01)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
