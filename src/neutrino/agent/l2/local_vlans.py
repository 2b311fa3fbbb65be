"""Local VLANs: the VLAN of a segment on this host's bridges, with a meaning on this host only.

The bridge is the only record. A port of ours has its tag and, in `other_config`, the segment that the tag stands for; an
agent without memory reads both back, so a restart changes no tag and interrupts no traffic.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from neutrino.agent.l2.pipeline import DEAD_VLAN

K = TypeVar("K", str, "SegmentKey")
VLANS = range(1, 4095)  # 4095 is DEAD_VLAN


@dataclasses.dataclass(frozen=True, order=True)
class SegmentKey:
    """A segment of a network on this host."""

    network_id: str
    network_type: str
    physical_network: str = ""
    segmentation_id: int = 0

    def to_config(self, tag: int) -> dict[str, str]:
        """The `other_config` of a port on this segment, with the keys that OpenStack's tools read."""
        return {
            "net_uuid": self.network_id,
            "network_type": self.network_type,
            "physical_network": self.physical_network,
            "segmentation_id": str(self.segmentation_id),
            "tag": str(tag),
        }

    @staticmethod
    def from_config(config: Mapping[str, str]) -> SegmentKey | None:
        network, kind, number = config.get("net_uuid"), config.get("network_type"), config.get("segmentation_id", "")
        if not network or not kind:
            return None
        physical = config.get("physical_network", "")
        physical = "" if physical == "None" else physical  # as OpenStack's agent writes it where there is none
        return SegmentKey(network, kind, physical, int(number) if number.isdigit() else 0)


def restore(ports: Iterable[tuple[int | None, Mapping[str, str]]]) -> dict[SegmentKey, int]:
    """The local VLANs of segments, read from the (tag, other_config) of the bridge's ports.

    A tag may have been changed by hand: `other_config` counts more than the tag, and the majority where ports disagree. A
    dead port does not count: its `other_config` is old, and its VLAN may be another network's by now.
    """
    votes: Counter[tuple[SegmentKey, int]] = Counter()
    for tag, config in ports:
        key = SegmentKey.from_config(config)
        recorded = config.get("tag", "")
        number = int(recorded) if recorded.isdigit() else tag or 0
        if key is not None and number in VLANS and tag != DEAD_VLAN:
            votes[key, number] += 1
    held: dict[SegmentKey, int] = {}
    taken: set[int] = set()
    for (key, number), _ in sorted(votes.items(), key=lambda entry: (-entry[1], entry[0])):
        if key not in held and number not in taken:
            held[key] = number
            taken.add(number)
    return held


def merged(remembered: Mapping[SegmentKey, int], restored: Mapping[SegmentKey, int]) -> dict[SegmentKey, int]:
    """The agent's own allocation, completed from the bridge; a VLAN that has a new owner stays with it."""
    taken = {*remembered.values()}
    return {**{key: number for key, number in restored.items() if number not in taken}, **remembered}


def allocate(
    wanted: Iterable[K], held: Mapping[K, int], foreign: Iterable[int] = (), numbers: range = VLANS
) -> dict[K, int]:
    """A number for every wanted key: the one it holds, or the lowest free one that is not `foreign`.

    Keys that are not wanted any more release their number. When none is left, the last keys in order get none, and the
    others are not affected. The hybrid firewall allocates its conntrack zones by it too.
    """
    keys = sorted(set(wanted))
    allocated: dict[K, int] = {}
    taken: set[int] = set()
    for key in keys:
        number = held.get(key, 0)
        if number in numbers and number not in taken:  # never one number for two keys, whatever was read
            allocated[key] = number
            taken.add(number)
    taken.update(foreign)
    free = (number for number in numbers if number not in taken)
    return allocated | dict(zip((key for key in keys if key not in allocated), free, strict=False))
