"""Port statistics of one reconciliation: how many ports are wired, and how many were added, updated and removed. Pure.

Ports on ancillary bridges, which others wire and this agent only reports, are counted separately.
"""

import dataclasses
from collections.abc import Collection, Mapping


@dataclasses.dataclass(frozen=True)
class PortStatistics:
    wired: int = 0
    added: int = 0
    updated: int = 0  # wired with another revision
    removed: int = 0

    @property
    def is_changed(self) -> bool:
        return bool(self.added or self.updated or self.removed)

    def __str__(self) -> str:
        return f"{self.wired} ports wired ({self.added} added, {self.updated} updated, {self.removed} removed)"


def statistics(before: Mapping[str, int], after: Mapping[str, int], ports: Collection[str]) -> PortStatistics:
    """Return the statistics of these ports alone; `before` and `after` have the revisions of all wired ports."""
    old, new = before.keys() & ports, after.keys() & ports
    updated = sum(before[key] != after[key] for key in old & new)
    return PortStatistics(len(new), len(new - old), updated, len(old - new))
