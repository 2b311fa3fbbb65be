"""What /proc says of processes: marks in their environment, when they started, whether they still live."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

OWNER, NAME, DIGEST = "NEUTRINO_OWNER", "NEUTRINO_PROCESS", "NEUTRINO_DIGEST"
_DEAD = ("Z", "X", "x")
_MOST_BYTES = 1 << 16  # marks come first in the environments that we make


@dataclasses.dataclass(frozen=True)
class Found:
    pid: int
    parent: int
    session: int
    started: int
    marks: dict[str, str]


def look_at(pid: int) -> Found | None:
    """A process that lives and carries marks, whoever's they are; None otherwise, also where we may not look."""
    try:
        environment = _read(f"/proc/{pid}/environ")
        if OWNER.encode() not in environment:
            return None
        fields = _fields(pid)
    except OSError:
        return None
    if fields[0].decode() in _DEAD:
        return None
    entries = (entry.partition(b"=") for entry in environment.split(b"\0"))
    marks = {key.decode(): value.decode() for key, _, value in entries if key.startswith(b"NEUTRINO_")}
    return Found(pid, int(fields[1]), int(fields[3]), int(fields[19]), marks)


def started_at(pid: int) -> int:
    """In clock ticks since the machine started; also of one that has ended and was not waited for. 0 if there is none."""
    try:
        return int(_fields(pid)[19])
    except OSError:
        return 0


def has_ended(pid: int) -> bool:
    """Whether it is gone, or a zombie."""
    try:
        return _fields(pid)[0].decode() in _DEAD
    except OSError:
        return True


def _fields(pid: int) -> list[bytes]:
    """Those of its status from the third on: the second is a name in parentheses, which may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    """Without Python's files, which take three times as long, and a host may have thousands of processes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def all_of(owner: str) -> Iterator[Found]:
    """All processes with the owner's mark: daemons, and what they have started."""
    for entry in os.listdir("/proc"):
        found = look_at(int(entry)) if entry.isdigit() else None
        if found is not None and found.marks.get(OWNER) == owner:
            yield found
