"""What the switches of the hosts have done: processor time, and the userspace datapath's counters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from neutrino.lab.hosts.ovs import SWITCH
from neutrino.lab.lab import Lab
from qa.bench import processor

_COUNTS = {
    "packets received": "packets",
    "packet recirculations": "recirculations",
    "emc hits": "emc",
    "megaflow hits": "megaflow",
    "miss with success upcall": "upcalls",
}
_LINE = re.compile(r"^\s+([a-z. ]+): ([0-9.]+)", re.MULTILINE)
_LOOKUPS = "avg. subtable lookups per megaflow hit"


@dataclass(frozen=True)
class Switches:
    lab: Lab

    @property
    def pids(self) -> list[int]:
        return [pid for host in self.lab.hosts if (pid := self.lab.ovs(host).pid(SWITCH)) is not None]

    def seconds(self) -> float:
        """Processor time of all switches since their start."""
        return processor.seconds(self.pids)

    def forget(self) -> None:
        """Forget connections, and what was counted: the next measurement begins as every other."""
        for host in self.lab.hosts:
            for command in ("dpctl/flush-conntrack", "dpif-netdev/pmd-stats-clear"):
                self._control(host, command)

    def counts(self) -> dict[str, float]:
        """The datapath's counters since `forget`, of all hosts; and its flows now."""
        found: Counter[str] = Counter()
        for host in self.lab.hosts:
            found.update(parse(self._control(host, "dpif-netdev/pmd-stats-show")))
            flows = self._control(host, "dpctl/dump-flows").splitlines()
            found["megaflows"] += sum("recirc_id" in line for line in flows)
        return dict(found)

    def _control(self, host: str, *words: str) -> str:
        argv: Sequence[str] = ["ovs-appctl", *words]
        return self.lab.run(host, argv).stdout


def parse(text: str) -> dict[str, float]:
    """The counters of all threads. Lookups are those in subtables, as there is one for each mask of megaflows."""
    found: Counter[str] = Counter()
    hits = 0.0
    for name, value in _LINE.findall(text):
        if name in _COUNTS:
            found[_COUNTS[name]] += int(value)
        if name == "megaflow hits":
            hits = float(value)
        elif name == _LOOKUPS:
            found["lookups"] += round(hits * float(value))
    return dict(found)
