"""The list of checks, in the order in which they run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from neutrino.cli.doctor.subject import HOST, SERVER, Subject
from neutrino.diagnosis.problems import Finding

Run = Callable[[Subject], Iterable[Finding]]
SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    applies_to: tuple[str, ...]
    function: str  # module and function, imported when it runs: a host needs no part of the server
    text: str  # what it looks at
    seconds: float = SECONDS
    needs_files: bool = False  # of the program, which other users cannot read


_BOTH = (SERVER, HOST)
_HERE = "neutrino.cli.doctor"
CHECKS: Final = (
    Check("configuration", _BOTH, f"{_HERE}.configuration:configuration", "unknown and contradictory options"),
    Check("files", _BOTH, f"{_HERE}.files:files", "state directory, permissions of secrets", needs_files=True),
    Check("disk", _BOTH, f"{_HERE}.files:disk", "free space of state, database and logs"),
    Check("certificates", _BOTH, f"{_HERE}.files:certificates", "validity of certificates", needs_files=True),
    Check("database", (SERVER,), f"{_HERE}.service:database", "connection, schema, clock, consistency", 60.0, True),
    Check("listeners", (SERVER,), f"{_HERE}.service:listeners", "API and feed of this machine"),
    Check("keystone", (SERVER,), f"{_HERE}.service:keystone", "connection to Keystone"),
    Check("service", (SERVER,), f"{_HERE}.service:service", "problems of the whole service", needs_files=True),
    Check("privileges", (HOST,), f"{_HERE}.host:privileges", "capabilities"),
    Check("programs", (HOST,), f"{_HERE}.host:programs", "required programs and their versions"),
    Check("kernel", (HOST,), f"{_HERE}.host:kernel", "modules and settings"),
    Check("openvswitch", (HOST,), f"{_HERE}.openvswitch:openvswitch", "connection, version, datapath, bridges"),
    Check("feed", (HOST,), f"{_HERE}.agent:feed", "connection, credential and clock of the servers"),
    Check("agent", (HOST,), f"{_HERE}.agent:agent", "the agent's process and its last state"),
    Check("links", (HOST,), f"{_HERE}.links:links", "links of the underlay and of physical networks"),
    Check("cards", (HOST,), f"{_HERE}.sriov:cards", "SR-IOV cards and their virtual functions"),
    Check("underlay", (HOST,), f"{_HERE}.underlay:underlay", "tunnel address, MTU to the other hosts", 90.0),
    Check("tunnels", (HOST,), f"{_HERE}.openvswitch:tunnels", "errors and counters of tunnels"),
    Check("drift", (HOST,), f"{_HERE}.agent:find_drift", "differences from the desired state", 60.0),
    Check("orphans", (HOST,), f"{_HERE}.agent:orphans", "namespaces and switch ports without an object"),
)
CONFIGURATION: Final = CHECKS[0]  # if it finds the configuration invalid, the others cannot run
