"""What this agent has set on cards, for an agent that starts with an empty memory: a file of the state directory.

A function has no place for a mark. Without the record, the next agent could not tell a function that a deleted port's
instance still has from one that was never the agent's.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from neutrino import daemon_files
from neutrino.dataplane.sriov.api import Setting

FILE: Final = "sriov.json"  # below the state path


class Entry(msgspec.Struct, frozen=True):
    """A function that was set for a port, and the MAC by which the port's instance has it."""

    port_id: str
    mac: str


class Record(msgspec.Struct):
    functions: dict[str, Entry] = {}  # by PCI slot
    # By device, what its driver cannot set: for `--dry-run`, which must not try. A starting agent tries again.
    unsupported: dict[str, set[Setting]] = {}
    forwarded: dict[str, set[str]] = {}  # MACs of the forwarding entries that were added, by device


class RecordFile:
    """Blocking."""

    def __init__(self, state_path: str) -> None:
        self._path = Path(os.path.abspath(state_path)) / FILE

    def read(self) -> Record:
        try:
            return msgspec.json.decode(daemon_files.read(self._path) or "{}", type=Record)
        except (
            OSError,
            msgspec.MsgspecError,
        ):  # as after a lost disk: functions of ports that are here get an entry again
            return Record()

    def write(self, record: Record) -> None:
        """Nothing is written where the file has it already."""
        daemon_files.write(self._path, msgspec.json.encode(record, order="sorted").decode())

    def forget(self) -> None:
        daemon_files.remove(self._path)
