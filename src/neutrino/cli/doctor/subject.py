"""What is examined: a server or a host, by its configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from neutrino.cli.doctor.machine import Machine, ThisMachine
from neutrino.cli.installed import AGENT_FILE, SERVER_FILE
from neutrino.feed.state import State

SERVER: Final = "server"
HOST: Final = "host"
CACHE = "feed.json"  # of the agent, in its state directory
_OF_SERVERS = (("database", "connection"), ("DEFAULT", "bind_port"), ("DEFAULT", "auth_strategy"))


@dataclass
class Subject:
    """The configuration is read when it is first used, and raises what it raises then."""

    role: str  # SERVER or HOST
    files: tuple[str, ...]
    machine: Machine = field(default_factory=ThisMachine)

    @cached_property
    def conf(self) -> Any:
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
        """The objects of this host as the agent last received them; None if there is no usable cache."""
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
    """What these files configure. Without files: what the packages' files configure; empty if there are none."""
    if files:
        return [Subject(each, tuple(files)) for each in ([role] if role else detect(files))]
    found = zip((SERVER, HOST), defaults, strict=True)
    return [Subject(each, (path,)) for each, path in found if role in ("", each) and Path(path).is_file()]


def detect(files: Sequence[str]) -> list[str]:
    """Whether the files are of a server or of an agent; both, if they were merged into one."""
    from oslo_config import cfg

    from neutrino.configuration.findings import given

    conf = cfg.ConfigOpts()
    try:
        conf([], default_config_files=list(files), default_config_dirs=[])
    except cfg.Error:  # the check of the configuration states it
        return [SERVER]
    options = given(conf)
    is_host = ("feed", "server") in options
    return [
        *([SERVER] if not is_host or any(each in options for each in _OF_SERVERS) else []),
        *([HOST] if is_host else []),
    ]
