"""Difference of desired and actual state: what to add, change and remove. Pure."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from neutrino.dataplane.ovsdb.api import Bridge, Change, SetBridge, SetPort, Snapshot

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Delta(Generic[K, V]):
    add: Mapping[K, V] = dataclasses.field(default_factory=dict)
    change: Mapping[K, tuple[V, V]] = dataclasses.field(default_factory=dict)  # from, to
    remove: Mapping[K, V] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.add) + len(self.change) + len(self.remove)


def diff(desired: Mapping[K, V], actual: Mapping[K, V]) -> Delta[K, V]:
    """What turns `actual` into `desired`."""
    add: dict[K, V] = {}
    change: dict[K, tuple[V, V]] = {}
    for key, value in desired.items():
        known = actual.get(key, _ABSENT)
        if known is value:  # most flows are the same objects as before: no fields are compared
            continue
        if known is _ABSENT:
            add[key] = value
        elif known != value:
            change[key] = actual[key], value
    return Delta(add, change, remove={key: value for key, value in actual.items() if key not in desired})


def unmet(changes: Iterable[SetBridge | SetPort], snapshot: Snapshot) -> tuple[Change, ...]:
    """The changes of bridges and ports that the snapshot of OVSDB does not show as applied already."""
    return tuple(change for change in changes if not _is_met(change, snapshot))


def _is_met(change: SetBridge | SetPort, snapshot: Snapshot) -> bool:
    if isinstance(change, SetBridge):
        bridge = snapshot.bridges.get(change.name)
        return bridge is not None and (
            bridge.datapath_type == change.datapath_type
            and bridge.fail_mode == change.fail_mode
            and change.external_ids.items() <= bridge.external_ids.items()
            and change.other_config.items() <= bridge.other_config.items()
        )
    port = snapshot.bridges.get(change.bridge, Bridge("")).ports.get(change.name)
    if port is None or not port.interfaces:
        return False
    interface = port.interfaces[0]  # several are a bond, which is never ours
    return (
        change.type in ("", interface.type)
        and change.tag in (None, port.tag)
        and change.trunks in ((), port.trunks)
        and change.options.items() <= interface.options.items()  # subsets: keys that others have set stay
        and change.external_ids.items() <= interface.external_ids.items()
        and change.other_config.items() <= port.other_config.items()
    )
