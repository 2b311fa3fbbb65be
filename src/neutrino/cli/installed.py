"""An installation by packages: its configuration files, and this machine as the host of its agent.

`neutrino vm` uses the latter where no `neutrino up` runs: instances are plugged into the switch of the machine.
"""

import argparse
import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neutrino import private
from neutrino.cli import cloud
from neutrino.lab.api_client import ApiClient, ApiError, Object
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.namespaces import command
from neutrino.lab.instances.instances import Instances, VmRecords

SERVER_FILE, AGENT_FILE = "/etc/neutrino/server.conf", "/etc/neutrino/agent.conf"
INIT = 1  # its namespaces are those of the machine


def default_files(given: Sequence[str], path: str) -> list[str]:
    """The configuration files of a command: the installed one if none is given, and there is one."""
    return list(given) or ([path] if os.path.isfile(path) else [])


def become_owner(directory: str) -> None:
    """As root, continue as the user of the server's directory: files that root creates in it would stop the server."""
    try:
        owner = os.stat(directory)
    except OSError:
        return
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    try:
        os.initgroups(pwd.getpwuid(owner.st_uid).pw_name, owner.st_gid)
    except KeyError:  # no such user here, as with the volume of a container
        os.setgroups([])
    os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
    os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)


@dataclass(frozen=True)
class InstalledSwitch:
    """Open vSwitch of this machine."""

    connection: str
    holder: int = INIT

    def vsctl(self, *arguments: str) -> str:
        return command(["ovs-vsctl", f"--db={self.connection}", "--timeout=20", *arguments])


@dataclass(frozen=True)
class CloudClient(ApiClient):
    """The API with the caller's credentials (OS_* variables or clouds.yaml)."""

    cloud: cloud.Cloud

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Object:
        try:
            return self.cloud.request(method, path, **({"json": body} if body is not None else {}))
        except cloud.ApiError as error:
            raise ApiError(error.status, str(error)) from None


def instances(files: Sequence[str]) -> Instances:
    """Stand-in instances on this machine, whose agent has these configuration files."""
    from neutrino.agent.config import configuration

    conf = configuration(files)
    api = CloudClient("", cloud.connect(argparse.Namespace(os_cloud=None, endpoint=None)))
    switch = InstalledSwitch(conf.ovs.ovsdb_connection)

    def host(name: str) -> InstalledSwitch:
        if name != conf.host:
            raise LabError(f"there is no host {name}: this machine is {conf.host}")
        return switch

    directory = Path(conf.state_path) / "vms"
    private.make_directory(directory)
    clients = Path(conf.state_path) / "dhcp-clients"
    return Instances(
        api, VmRecords(directory), [conf.host], host, clients, log=lambda _: "journalctl -u neutrino-agent"
    )
