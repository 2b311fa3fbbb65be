"""Local VLANs: the number by which this host alone knows a segment, on the ports and in the flows of its bridges.

Nothing but the bridge remembers them. A port of ours carries its tag and, in `other_config`, the segment that the tag
stands for; an agent without memory reads both back, so a restart changes no tag and interrupts no packet.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from neutrino.agent.l2.pipeline import DEAD_VLAN

FIRST, LAST = 1, 4094


@dataclasses.dataclass(frozen=True, order=True)
class SegmentKey:
    """A segment of a network, as it is known on a host."""

    network_id: str
    network_type: str
    physical_network: str = ""
    segmentation_id: int = 0

    def to_config(self, tag: int) -> dict[str, str]:
        """What a port's `other_config` says of its network, in the words that other tools on the host look for."""
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
    """The local VLANs that the ports of the bridge, as (tag, other_config), stand in.

    A tag may have been changed by hand: what `other_config` says counts more than the tag, and where ports disagree,
    most of them are right. A dead port stands in none: what it says was so before.
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
    """What the agent remembers, and what else the bridge says: a VLAN that was given away since is the new owner's."""
    taken = {*remembered.values()}
    return {**{key: number for key, number in restored.items() if number not in taken}, **remembered}


def allocate(wanted: Iterable[SegmentKey], held: Mapping[SegmentKey, int], foreign: Iterable[int] = ()) -> Allocation:
    """A VLAN for every segment wanted: the one it has, or the lowest that nobody has.

    `foreign` are tags on ports that are not ours. Segments no longer wanted give their VLAN back. When none is left,
    those that come last in order go without, and the others work on.
    """
    segments = sorted(set(wanted))
    vlans: dict[SegmentKey, int] = {}
    taken: set[int] = set()
    for key in segments:
        if key in held and held[key] not in taken:  # never two in one, whatever they say
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
