"""The run of `neutrino up` in a state directory, and stand-in instances on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from neutrino.cli.failures import CannotStart
from neutrino.cli.switch import NoDataplane, OwnSwitch
from neutrino.lab.api import Api
from neutrino.lab.errors import LabError
from neutrino.lab.instances import Instances
from neutrino.lab.vms import Vms

DEFAULT_STATE = "state"
FILE = "up.json"


@dataclass(frozen=True)
class Running:
    """A run of `neutrino up`, as other commands find it."""

    pid: int
    url: str
    is_open: bool  # no authentication: whoever reaches it is an administrator
    host: str  # this machine's name as a host; empty where networks are not wired

    def write(self, state: Path) -> None:
        (state / FILE).write_bytes(msgspec.json.encode(self))

    def remove(self, state: Path) -> None:
        (state / FILE).unlink(missing_ok=True)


@dataclass(frozen=True)
class ThisHost:
    """This machine as a host of instances."""

    state: Path
    holder: int

    def vsctl(self, *arguments: str) -> str:
        try:
            return OwnSwitch(self.state / "ovs", "").vsctl(*arguments)
        except NoDataplane as error:
            raise LabError(str(error)) from None


def find_running(state: Path) -> Running:
    """The run of `neutrino up` whose files are in the directory."""
    try:
        running = msgspec.json.decode((state / FILE).read_bytes(), type=Running)
        os.kill(running.pid, 0)
    except (OSError, msgspec.MsgspecError):
        raise CannotStart(f"no neutrino up runs with its files in {state}: start it, or name its --state") from None
    return running


def machine_instances(state: Path, running: Running) -> Instances:
    """The instances of a run."""
    directory = state / "vms"
    directory.mkdir(parents=True, exist_ok=True)

    def host(name: str) -> ThisHost:
        if name != running.host:
            raise LabError(f"there is no host {name}: this machine is {running.host}")
        return ThisHost(state, running.pid)

    log = str(state / "log" / "agent.log")
    return Instances(
        Api(running.url), Vms(directory), [running.host], host, state / "dhcp-clients", log=lambda host: log
    )
