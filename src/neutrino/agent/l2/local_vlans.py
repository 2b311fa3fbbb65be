"""Local VLANs: the VLAN of a segment on this host's bridges, with a meaning on this host only.

The bridge is the only record. A port of ours has its tag and, in `other_config`, the segment that the tag stands for; an
agent without memory reads both back, so a restart changes no tag and interrupts no traffic.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from neutrino.agent.l2.pipeline import DEAD_VLAN

FIRST, LAST = 1, 4094


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
        return SegmentKey(
            network_id=network,
            network_type=kind,
            physical_network="" if physical == "None" else physical,
            segmentation_id=int(number) if number.isdigit() else 0,
        )


@dataclasses.dataclass(frozen=True)
class Allocation:
    vlans: Mapping[SegmentKey, int]
    exhausted: frozenset[SegmentKey] = frozenset()


def restore(ports: Iterable[tuple[int | None, Mapping[str, str]]]) -> dict[SegmentKey, int]:
    """The local VLANs of segments, read from the (tag, other_config) of the bridge's ports.

    A tag may have been changed by hand: `other_config` counts more than the tag, and the majority where ports disagree. A
    dead port does not count: its `other_config` is old, and its VLAN may be another network's by now.
    """
    votes: Counter[tuple[SegmentKey, int]] = Counter()
    for tag, config in ports:
        key = SegmentKey.from_config(config)
        recorded = config.get("tag", "")
        number = int(recorded) if recorded.isdigit() else tag
        if key is not None and number is not None and FIRST <= number <= LAST and tag != DEAD_VLAN:
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


def allocate(wanted: Iterable[SegmentKey], held: Mapping[SegmentKey, int], foreign: Iterable[int] = ()) -> Allocation:
    """A VLAN for every wanted segment: the one it has, or the lowest free one.

    `foreign` are tags of ports that are not ours. Segments that are not wanted any more release their VLAN. When none is
    left, the last segments in order get none, and the others are not affected.
    """
    segments = sorted(set(wanted))
    vlans: dict[SegmentKey, int] = {}
    taken: set[int] = set()
    for key in segments:
        if key in held and held[key] not in taken:  # never two segments in one VLAN, whatever was read
            vlans[key] = held[key]
            taken.add(held[key])
    taken.update(foreign)
    free = (number for number in range(FIRST, LAST + 1) if number not in taken)
    exhausted = set()
    for key in segments:
        if key not in vlans:
            number = next(free, None)
            if number is None:
                exhausted.add(key)
            else:
                vlans[key] = number
    return Allocation(vlans, frozenset(exhausted))
