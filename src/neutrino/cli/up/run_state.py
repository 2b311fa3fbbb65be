"""The record of a running `neutrino up` in its state directory, by which `neutrino vm` finds it, and its instances."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from neutrino.cli.errors import CommandError
from neutrino.cli.up.openvswitch import OwnSwitch
from neutrino.lab.api_client import ApiClient
from neutrino.lab.errors import LabError
from neutrino.lab.instances.instances import Instances
from neutrino.lab.instances.records import VmRecords

DEFAULT_STATE = "state"
FILE = "up.json"


@dataclass(frozen=True)
class RunState:
    """A running `neutrino up`."""

    pid: int
    url: str
    no_auth: bool  # every client is an administrator, this command included
    host: str  # this machine's name as a host; empty if networks are not wired

    def write(self, state: Path) -> None:
        (state / FILE).write_bytes(msgspec.json.encode(self))

    def remove(self, state: Path) -> None:
        (state / FILE).unlink(missing_ok=True)


def find_running(state: Path) -> RunState:
    """The run of `neutrino up` with this state directory."""
    try:
        running = msgspec.json.decode((state / FILE).read_bytes(), type=RunState)
        os.kill(running.pid, 0)  # a killed run leaves its file
    except (OSError, msgspec.MsgspecError):
        raise CommandError(
            f"neutrino up is not running with state directory {state}: start it, or use --state"
        ) from None
    return running


def machine_instances(state: Path, running: RunState) -> Instances:
    """The instances of a run."""
    directory = state / "vms"
    directory.mkdir(parents=True, exist_ok=True)

    def host(name: str) -> OwnSwitch:
        if name != running.host:
            raise LabError(f"there is no host {name}: this machine is {running.host}")
        return OwnSwitch(state / "ovs", "", running.pid)

    log = str(state / "log" / "agent.log")
    return Instances(
        ApiClient(running.url), VmRecords(directory), [running.host], host, state / "dhcp-clients", log=lambda host: log
    )
