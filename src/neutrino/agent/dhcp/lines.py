"""Lines of dnsmasq's files: what one line says stays on that line. Pure.

dnsmasq reads a file in pieces of 1024 bytes, whatever the length of a line. The tail of a longer line would be a line of
its own, without the tag that ties the line to its port or subnet, and so apply to every client of the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST_BYTES: Final = 1023  # and the line break
_PRINTABLE = re.compile(r"[\t -~]*")


@dataclass(frozen=True)
class Line:
    text: str
    owner: str  # what it is about: "port <id>", "subnet <id>"

    @property
    def fault(self) -> str:
        """Why dnsmasq may not have it; empty if it may."""
        if not _PRINTABLE.fullmatch(self.text):
            return "it has characters that are not printable ASCII"
        if len(self.text) > MOST_BYTES:
            return f"it has {len(self.text)} bytes, and dnsmasq reads {MOST_BYTES}"
        return ""


def render_lines(lines: Iterable[Line]) -> str:
    """A file of those that dnsmasq may have."""
    return "".join(f"{line.text}\n" for line in lines if not line.fault)


def left_out(file: str, lines: Iterable[Line]) -> list[str]:
    """What the operator is told of the others."""
    return [f"{line.owner}: a line of {file} is left out: {line.fault}" for line in lines if line.fault]
