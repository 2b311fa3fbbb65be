"""The memory of a process and its descendants, as accounted by the kernel.

PSS shares a page out among the processes that have it, so that the sum is what the machine has to have. RSS counts it
for each of them, which is what `ps` shows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_FIELD = re.compile(r"^(\w+):\s+(\d+) kB", re.MULTILINE)
Kilobytes = dict[str, int]  # by the kernel's names: Pss, Rss, Private_Dirty ...


def tree(root: int) -> list[int]:
    """The process and its current descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (status := _status(entry)) is not None:
            children.setdefault(status[1], []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    return (status := _status(Path(f"/proc/{pid}"))) is not None and status[0] not in "ZX"


def _status(entry: Path) -> tuple[str, int] | None:
    """State and parent of a process; None if there is no such process."""
    try:
        # pid (command, which may contain blanks and parentheses) state parent ...
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return state, int(parent)


def pss_kb(pid: int) -> int:
    """PSS of a process in kilobytes."""
    return fields(pid)["Pss"]


def fields(pid: int) -> Kilobytes:
    found = _FIELD.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return {name: int(kilobytes) for name, kilobytes in found}


def command(pid: int) -> str:
    """The command line of a process, or the title that it has given itself."""
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def of_tree(root: int) -> dict[str, Any]:
    """Processes, PSS and RSS in megabytes (2**20)."""
    totals = {"Pss": 0, "Rss": 0}
    count = 0
    for pid in tree(root):
        try:
            found = fields(pid)
        except OSError:
            continue  # it ended meanwhile
        count += 1
        for name in totals:
            totals[name] += found[name]
    return {
        "processes": count,
        "pss_mb": round(totals["Pss"] / 1024, 1),
        "rss_mb": round(totals["Rss"] / 1024, 1),
    }
