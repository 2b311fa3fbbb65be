"""Neutron's agents that this agent has stopped for a conversion, and starts again when the host is given back.

Their units are written to a file before they are stopped, so that an agent that is killed knows them afterwards.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from neutrino import daemon_files, private
from neutrino.agent.takeover.neutron_agents import NeutronAgent, units_of
from neutrino.agent.takeover.phase import directory
from neutrino.dataplane.process.api import ProcessError
from neutrino.dataplane.process.units import Units

LOG = logging.getLogger(__name__)
_FILE: Final = "stopped_units"
_MOST: Final = 1 << 14  # bytes of the file


class NotStopped(Exception):
    """An agent of Neutron cannot be stopped."""


class StoppedAgents:
    """Blocking."""

    def __init__(self, state_path: str | Path, units: Units) -> None:
        self._file, self._units = directory(state_path) / _FILE, units

    def stop(self, agents: Sequence[NeutronAgent]) -> list[str]:
        """Stop the units of these agents; those that were stopped. NotStopped if one of them has none."""
        without = [agent for agent in agents if not agent.unit]
        if without:
            listed = ", ".join(agent.text() for agent in without)
            raise NotStopped(f"these agents of Neutron are no services of systemd, so stop them yourself: {listed}")
        names = units_of(agents)
        if names:
            private.own_directory(self._file.parent)
            daemon_files.write(self._file, msgspec.json.encode(sorted({*names, *self.names()})).decode())
            try:
                self._units.stop(names)
            except ProcessError as error:
                raise NotStopped(str(error)) from error
        return names

    def names(self) -> list[str]:
        """The units that were stopped, and not started since."""
        try:
            return msgspec.json.decode(daemon_files.read(self._file, _MOST) or "[]", type=list[str])
        except (msgspec.MsgspecError, OSError) as error:
            LOG.error("%s cannot be read: %s. Start Neutron's agents yourself", self._file, error)
            return []

    def start_again(self) -> tuple[list[str], list[str]]:
        """The units that run again, and the problems.

        One attempt: a later one would surprise whoever has stopped them since.
        """
        names, problems = self.names(), []
        if names:
            try:
                self._units.start(names)
            except ProcessError as error:
                names, problems = [], [str(error)]
        daemon_files.remove(self._file)
        return names, problems
