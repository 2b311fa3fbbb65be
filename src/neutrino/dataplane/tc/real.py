"""Filters and queue lengths through the program `tc`: u32 and pfifo, which every kernel with traffic control has.

A filter is ours by its preference. A queue's length is that of a pfifo below its class, in a discipline of Open vSwitch's.
"""

import dataclasses
import re
from collections.abc import Collection

from neutrino.dataplane.program import ProgramError, run_program
from neutrino.dataplane.tc import api

PREFERENCE = 28276
# filter protocol all pref 28276 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:8 not_in_hw
#   match fa163e00/ffffffff at -8
_CLASS = re.compile(r"flowid 1:([0-9a-f]+)")
_WORD = re.compile(r"match ([0-9a-f]{8})/([0-9a-f]{8}) at (-?\d+)")
# qdisc pfifo 8003: parent 1:8 limit 30p
_LENGTH = re.compile(r"qdisc pfifo \S+ parent 1:([0-9a-f]+) limit (\d+)p")


@dataclasses.dataclass(frozen=True)
class RealTc:
    """Implements `Tc`."""

    def read(self, device: str) -> frozenset[api.Item]:
        try:
            if "qdisc htb 1: root" not in (disciplines := run_program(["tc", "qdisc", "show", "dev", device])):
                return frozenset()  # Open vSwitch creates it a moment later
            shown = run_program(["tc", "filter", "show", "dev", device, "parent", "1:", "pref", str(PREFERENCE)])
        except ProgramError as error:
            raise api.TcError(f"the filters of {device} cannot be read: {error}") from error
        lengths = (api.QueueLength(_queue(minor), int(limit)) for minor, limit in _LENGTH.findall(disciplines))
        return frozenset((*parse_filters(shown), *lengths))

    def replace(self, device: str, items: Collection[api.Item]) -> None:
        actual, wanted = self.read(device), frozenset(items)
        place = f"dev {device} parent 1: protocol all pref {PREFERENCE}"
        lines = [f"filter del {place}"] if any(isinstance(each, api.Filter) for each in actual) else []
        lengths = {each.queue for each in wanted if isinstance(each, api.QueueLength)}
        for each in actual - wanted:
            if isinstance(each, api.QueueLength) and each.queue not in lengths:
                lines.append(f"qdisc del dev {device} parent {_class(each.queue)}")
        for each in sorted(wanted, key=lambda item: item.text()):
            if isinstance(each, api.Filter):
                words = (f"match u32 {word.value:#x} {word.mask:#x} at {word.offset}" for word in each.words)
                lines.append(f"filter add {place} u32 {' '.join(words)} flowid {_class(each.queue)}")
            elif each not in actual:
                lines.append(f"qdisc replace dev {device} parent {_class(each.queue)} pfifo limit {each.packets}")
        try:
            run_program(["tc", "-batch", "-"], "\n".join(lines) + "\n")
        except ProgramError as error:
            raise api.TcError(f"the filters of {device} cannot be changed: {error}") from error


def parse_filters(text: str) -> list[api.Filter]:
    found = []
    for part in text.split("filter protocol"):
        if (minor := _CLASS.search(part)) is not None:
            words = (api.Word(int(value, 16), int(mask, 16), int(place)) for value, mask, place in _WORD.findall(part))
            found.append(api.Filter(_queue(minor[1]), tuple(words)))
    return found


def _class(queue: int) -> str:
    return f"1:{queue + 1:x}"  # as Open vSwitch numbers them: class 1 is that of queue 0


def _queue(minor: str) -> int:
    return int(minor, 16) - 1
