"""Probes as values: from which port to which neighbour, and what became of them.

A probe enters the switch as if the instance had sent it: it takes the way of the instance's own packets, its answer is
delivered to the instance's device, and read there. The instance gets an answer that it did not ask for, which it ignores.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol


class ProbeError(Exception):
    """The switch cannot be reached, or a device cannot be read."""


@dataclasses.dataclass(frozen=True, order=True)
class Probe:
    """From a port of an instance to an address on its network."""

    device: str  # of the port, on this host
    ofport: int
    mac: str
    address: str
    peer: str

    def text(self) -> str:
        return f"{self.device} ({self.address}) to {self.peer}"


@dataclasses.dataclass(frozen=True)
class Loss:
    """What became of the probes on one way."""

    probe: Probe
    sent: int
    lost: int  # of those that were sent more than the patience ago
    longest: float = 0.0  # seconds between two answers
    silent: float = 0.0  # seconds since the last answer


@dataclasses.dataclass(frozen=True)
class Sent:
    """One packet; times in seconds of one clock."""

    at: float
    answered: float | None = None


def loss_of(probe: Probe, packets: Sequence[Sent], now: float, patience: float) -> Loss:
    """The loss of a way. `patience`: a packet that is younger may still be answered."""
    due = [one for one in packets if one.answered is not None or one.at < now - patience]
    answers = sorted(one.answered for one in due if one.answered is not None)
    gaps = [later - earlier for earlier, later in pairwise(answers)]
    start = packets[0].at if packets else now
    silent = now - (answers[-1] if answers else start)
    return Loss(probe, len(due), len(due) - len(answers), max(gaps, default=0.0), silent)


class Prober(Protocol):
    """Sends probes until it is closed. All methods may block for some milliseconds."""

    def start(self, probes: Iterable[Probe]) -> None:
        """Send on these ways from now on; those that nobody answers at first are left out."""
        ...

    def losses(self) -> list[Loss]:
        """Those on the ways that were answered at first."""
        ...

    def silent(self, seconds: float) -> list[Probe]:
        """Those of them that have not been answered for so long. Cheap, to be asked often."""
        ...

    def close(self) -> None: ...
