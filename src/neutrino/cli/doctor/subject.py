"""The subject of an examination: a server or a host, by its configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from oslo_config import cfg

from neutrino.cli.doctor.machine import Machine, ThisMachine
from neutrino.cli.installed import AGENT_FILE, SERVER_FILE
from neutrino.configuration.options import Configuration
from neutrino.feed.state import State

SERVER: Final = "server"
HOST: Final = "host"
CACHE = "feed.json"  # of the agent, in its state directory
_OF_SERVERS = (("database", "connection"), ("DEFAULT", "bind_port"), ("DEFAULT", "auth_strategy"))


@dataclass
class Subject:
    """A server or a host on this machine. Its configuration is read, and may raise, when it is first used."""

    role: str  # SERVER or HOST
    files: tuple[str, ...]
    machine: Machine = field(default_factory=ThisMachine)

    @cached_property
    def conf(self) -> Configuration:
        if self.role == SERVER:
            from neutrino.server.config import configuration as of_server

            return of_server(self.files)
        from neutrino.agent.config import configuration as of_agent

        return of_agent(self.files)

    @property
    def state_path(self) -> Path:
        return Path(self.conf.state_path)

    @cached_property
    def state(self) -> State | None:
        """Read the objects of this host as the agent last received them; None if there is no usable cache."""
        try:
            data = (self.state_path / CACHE).read_bytes()
        except OSError:
            return None
        state = State()
        try:
            state.load(data)
        except ValueError:
            return None
        return state


def subjects(files: Sequence[str], role: str, defaults: Sequence[str] = (SERVER_FILE, AGENT_FILE)) -> list[Subject]:
    """Return what these files configure; without files, what the packages' files configure."""
    if files:
        return [Subject(name, tuple(files)) for name in ([role] if role else detect(files))]
    paths = {SERVER: defaults[0], HOST: defaults[1]}
    return [Subject(known, (path,)) for known, path in paths.items() if role in ("", known) and Path(path).is_file()]


def detect(files: Sequence[str]) -> list[str]:
    """Return whether the files are of a server or of an agent; both, if they were merged into one."""
    conf = Configuration()
    try:
        conf([], default_config_files=list(files), default_config_dirs=[])
    except cfg.Error:  # the check of the configuration states it
        return [SERVER]
    options = conf.given
    is_host = ("feed", "server") in options
    return [
        *([SERVER] if not is_host or any(option in options for option in _OF_SERVERS) else []),
        *([HOST] if is_host else []),
    ]
