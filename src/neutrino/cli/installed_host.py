"""This machine, with an installation by packages, as the host of its agent.

`neutrino vm` uses it where no `neutrino up` runs: instances are plugged into the switch of the machine.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino import private
from neutrino.cli import cloud
from neutrino.lab.api_client import ApiClient, ApiError
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.namespaces import command
from neutrino.lab.instances.instances import Instances, VmRecords
from neutrino.model.objects import Object, Values

INIT = 1  # its namespaces are those of the machine


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

    def request(self, method: str, path: str, body: Values | None = None) -> Object:
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
