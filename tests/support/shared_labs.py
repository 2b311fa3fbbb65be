"""The lab that the modules of a unit share: see `tests.support.lab_kinds`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from neutrino.model import agents
from tests.support.lab import temporary_lab, wait_until
from tests.support.lab_cleanup import HostState, clean, host_state, wait_for_host_state
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind

AGENT_TYPES = {"l2": agents.OVS, "dhcp": agents.DHCP, "l3": agents.L3, "metadata": agents.METADATA, "bgp": agents.BGP}
START_SECONDS = 30.0


@contextlib.contextmanager
def lab_of_kind(kind: LabKind) -> Iterator[Lab]:
    """A new lab, with the agents of all its roles alive."""
    with tempfile.TemporaryDirectory(prefix="neutrino-lab-") as directory:
        agent, server = Path(directory) / "agent.conf", Path(directory) / "server.conf"
        agent.write_text(kind.agent)
        server.write_text(kind.server)
        files: dict[str, Any] = {"agent_config_files": (str(agent),), "server_config_files": (str(server),)}
        with temporary_lab(hosts=kind.hosts, roles=kind.roles, central=kind.central, **files) as lab:
            wait_for_agents(lab)
            yield lab


def wait_for_agents(lab: Lab) -> None:
    wanted = {(host, AGENT_TYPES[role]) for host in lab.hosts for role in lab.settings.roles}

    def alive() -> bool:
        return wanted <= {(agent["host"], agent["agent_type"]) for agent in lab.api.list("agent") if agent["alive"]}

    wait_until(alive, START_SECONDS, "not all agents are alive")


class SharedLabs:
    """At most one lab at a time. A lab whose state a module did not restore is replaced."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._kind: LabKind | None = None
        self._lab: Lab | None = None
        self._clean: HostState = frozenset()

    @contextlib.contextmanager
    def lab(self, kind: LabKind) -> Iterator[Lab]:
        """The lab for one module. Afterwards its objects are deleted, and hosts must have nothing left of them."""
        lab = self._started(kind)
        yield lab
        try:
            clean(lab)
            wait_for_host_state(lab, self._clean)
        except BaseException:
            self.close()
            raise

    def _started(self, kind: LabKind) -> Lab:
        if self._lab is None or self._kind != kind:
            self.close()
            self._lab, self._kind = self._running.enter_context(lab_of_kind(kind)), kind
            self._clean = host_state(self._lab)
        return self._lab

    def close(self) -> None:
        self._lab = None
        self._running.close()
