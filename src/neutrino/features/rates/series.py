"""Series of rates from the reports of hosts. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from neutrino.model.rates import Counted

COLUMNS: Final = ("at", "bits_in", "bits_out", "packets_in", "packets_out", "drops_in", "drops_out")
Sample = list[int]


@dataclass(frozen=True)
class HostReport:
    """What a host has counted in the seconds before a time."""

    host: str
    at: int
    seconds: int
    ports: dict[str, Counted] = field(default_factory=dict)
    tunnels: dict[str, Counted] = field(default_factory=dict)


def port_series(reports: Iterable[HostReport], ports: Sequence[str]) -> list[Sample]:
    """The sum of these ports at each time, zero where nothing was counted; oldest first.

    Hosts report at times of their own: those of several are put together by intervals.
    """
    every = list(reports)
    step = max((each.seconds for each in every), default=1) if len({each.host for each in every}) > 1 else 1
    found: defaultdict[int, list[tuple[int, Counted]]] = defaultdict(list)
    for report in every:
        at = report.at - report.at % step
        found[at].append((report.seconds, Counted()))
        found[at] += [(report.seconds, report.ports[key]) for key in ports if key in report.ports]
    return [_sample(at, found[at]) for at in sorted(found)]


def tunnel_series(reports: Iterable[HostReport], address: str) -> list[Sample]:
    return [
        _sample(each.at, [(each.seconds, each.tunnels.get(address, Counted()))])
        for each in sorted(reports, key=lambda each: each.at)
    ]


def busiest(reports: Iterable[HostReport], most: int) -> list[str]:
    """The ids of the ports of these reports, those with the most bytes first."""
    total: defaultdict[str, int] = defaultdict(int)
    for report in reports:
        for key, counted in report.ports.items():
            total[key] += counted.bytes_in + counted.bytes_out
    return sorted(total, key=lambda key: (-total[key], key))[:most]


def _sample(at: int, counted: Iterable[tuple[int, Counted]]) -> Sample:
    """Per second; drops as they were counted, because a single one matters."""
    out = [0.0] * 6
    for seconds, one in counted:
        for place, value in enumerate(one):
            is_drop = place >= 4
            out[place] += value if is_drop else value * (8 if place < 2 else 1) / max(1, seconds)
    return [at, *(round(value) for value in out)]
