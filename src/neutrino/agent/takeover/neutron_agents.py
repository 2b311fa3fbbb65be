"""Neutron's agents that run on this host: they have to be stopped before it is converted. Pure but for the reading."""

import dataclasses
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from neutrino.dataplane.process.api import ForeignProcess, ForeignProcesses
from neutrino.model.roles import SRIOV

AGENTS: Final = frozenset({
    "neutron-openvswitch-agent", "neutron-dhcp-agent", "neutron-l3-agent", "neutron-metadata-agent",
    "neutron-metering-agent", "neutron-vpn-agent", "neutron-bgp-dragent", "neutron-linuxbridge-agent",
    "neutron-sriov-nic-agent", "neutron-macvtap-agent",
})  # fmt: skip
SRIOV_AGENT: Final = "neutron-sriov-nic-agent"
STOPPED: Final = AGENTS - {SRIOV_AGENT, "neutron-macvtap-agent", "neutron-metadata-agent"}
"""Those whose work is taken over; that of cards by the role sriov alone.

The metadata agent changes nothing, and has to answer until haproxy is replaced.
"""
# The whole cgroup of a unit of the system, below slices alone: a user, who has a slice and a manager, may name units and
# programs as they like, and is not to have a unit of the system stopped that has the same name.
_UNIT: Final = re.compile(
    r"^(?:0:|\d+:name=systemd):/(?!user\.slice/)(?:[^/\n]+\.slice/)*([^/\n]+\.service)$", re.MULTILINE
)


@dataclasses.dataclass(frozen=True)
class NeutronAgent:
    name: str
    pid: int
    unit: str = ""  # of systemd; empty: it was started in another way

    def text(self) -> str:
        return f"{self.name} ({self.unit or f'pid {self.pid}'})"


def running_agents(processes: ForeignProcesses, roles: Collection[str] = ()) -> list[NeutronAgent]:
    """Those in this host's own network namespace whose work these roles take over."""
    stopped = STOPPED | {SRIOV_AGENT} if SRIOV in roles else STOPPED
    return [
        NeutronAgent(name, process.pid, _unit(process.pid))
        for process in _parents(processes.inside(""))
        for name in sorted({program.rstrip(":") for program in process.programs} & stopped)
    ]


def remedy(agents: Iterable[NeutronAgent]) -> str:
    """The command that stops them, or what to do."""
    units = units_of(agents)
    if not units:
        return "stop them, and nothing else of Neutron's"
    return f"systemctl stop {' '.join(units)}, or let this agent do it: --stop-neutron-agents"


def units_of(agents: Iterable[NeutronAgent]) -> list[str]:
    return sorted({agent.unit for agent in agents if agent.unit})


def _parents(processes: Iterable[ForeignProcess]) -> list[ForeignProcess]:
    """One process of each command line: an agent has workers."""
    return list({process.argv: process for process in processes}.values())


def _unit(pid: int) -> str:
    try:
        return unit_of_cgroups(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""


def unit_of_cgroups(text: str) -> str:
    """The unit of the system that a process with these cgroups belongs to; empty: to none."""
    found = _UNIT.search(text)
    return found[1] if found else ""
