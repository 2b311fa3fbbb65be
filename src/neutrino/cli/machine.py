"""This machine as the one host of `neutrino up`: its Open vSwitch, its external bridge, its agent and its VMs.

What a run creates on the machine (bridges, namespaces, devices, processes) is removed when it ends, and built again by the
next one from what the server knows. A run that was killed could not remove anything: the next one does it first.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino import private
from neutrino.agent.programs import CAP_NET_ADMIN, has_capability
from neutrino.cli import preflight
from neutrino.cli.switch import NoDataplane, OwnSwitch, call, others_running

EXTERNAL_BRIDGE, EXTERNAL_NETWORK = "br-ex", "external"
EXTERNAL_CIDR, EXTERNAL_GATEWAY = "172.24.4.0/24", "172.24.4.1"
AGENT_BRIDGES = ("br-int", "br-tun")
PROGRAMS = {
    "ovsdb-server": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ip": "iproute2",
    "keepalived": "keepalived",
    "radvd": "radvd",
}

AGENT = """\
# Written by the neutrino command. Options of your own go into a file given with --agent-config-file.
[DEFAULT]
host = {host}
state_path = {state}/agent
roles = {roles}
# Routers of every kind: central, highly available, distributed.
agent_mode = dvr_snat
log_file = {state}/log/agent.log

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
enable_distributed_routing = true
"""


@dataclass(frozen=True)
class Machine:
    state: Path
    host: str
    roles: Sequence[str]
    datapath: str  # system: the kernel's; netdev: in userspace

    @property
    def switch(self) -> OwnSwitch:
        return OwnSwitch(self.state / "ovs", self.datapath)

    @contextlib.contextmanager
    def wired(self, agent_files: Sequence[str]) -> Iterator[None]:
        """The switch with the external bridge, for as long as the block lasts; nothing of it or of the agent stays."""
        self._remove_agents_work(agent_files)  # of a run that was killed
        with self.switch.running(AGENT_BRIDGES), contextlib.ExitStack() as stack:
            stack.callback(self._remove_bridges)
            stack.callback(self._remove_agents_work, agent_files)
            self.switch.add_bridge(EXTERNAL_BRIDGE)
            call("ip", "link", "set", EXTERNAL_BRIDGE, "up")
            call("ip", "address", "replace", f"{EXTERNAL_GATEWAY}/24", "dev", EXTERNAL_BRIDGE)
            yield

    def _remove_agents_work(self, agent_files: Sequence[str]) -> None:
        from neutrino.agent.config import configuration
        from neutrino.agent.teardown import tear_down

        tear_down(configuration(agent_files))

    def _remove_bridges(self) -> None:
        """The agent's bridges go, with the patch ports to them; others, which the user may have added ports to, stay."""
        with contextlib.suppress(NoDataplane):
            arguments = [word for bridge in AGENT_BRIDGES for word in ("--", "--if-exists", "del-br", bridge)]
            arguments += ["--", "--if-exists", "del-port", f"phy-{EXTERNAL_BRIDGE}"]
            self.switch.vsctl(*arguments[1:])

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
        """In the agent's process: make its credential, then be the agent."""
        from neutrino.cli.agent import agent

        self._have_credential(server_files)
        return agent("run", agent_files)

    def _have_credential(self, server_files: Sequence[str]) -> None:
        """A credential that the server knows: the file may be of another database, or of other roles."""
        from neutrino.server.backend import configuration
        from neutrino.server.config import database_url
        from neutrino.server.db import schema
        from neutrino.server.db.session import Database
        from neutrino.server.feed.credentials import Credentials, digest

        path = self.state / "agent" / "credential"
        private.own_directory(path.parent, passable=True)
        private.make_file(path)
        conf = configuration(server_files)
        db = Database(database_url(conf))
        try:
            schema.ensure(db, upgrade=conf.database.auto_upgrade)
            credentials = Credentials(db)
            known = credentials.known().get(self.host)
            if known is None:
                path.write_text(credentials.add(self.host, self.roles))
                return
            if not set(self.roles) <= set(known.roles):
                credentials.set_roles(self.host, self.roles)
            if known.digest != digest(path.read_text().strip()):
                path.write_text(credentials.rotate(self.host))
        finally:
            db.close()


def this_machine(state: Path, roles: Sequence[str]) -> Machine:
    """This machine as a host, or NoDataplane where networks cannot be wired on it."""
    if not has_capability(CAP_NET_ADMIN):
        raise NoDataplane("only root may make network devices")
    missing = {package for program, package in PROGRAMS.items() if not preflight.is_installed(program)}
    missing |= set(preflight.missing_programs(roles).values())
    if missing:
        raise NoDataplane(f"programs are missing: apt-get install {' '.join(sorted(missing))}")
    others = others_running(state / "ovs")
    devices = {name for _, name in socket.if_nameindex()}
    taken = [name for name in (EXTERNAL_BRIDGE, *AGENT_BRIDGES) if name in devices]
    if others and taken:
        raise NoDataplane(f"another Open vSwitch on this machine has the bridge {taken[0]}")
    # Two switches on the kernel's one datapath would delete each other's ports.
    kernel = Path("/sys/module/openvswitch").exists() and not others
    return Machine(state, os.uname().nodename, roles, "system" if kernel else "netdev")
