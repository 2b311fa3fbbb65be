"""Which flows are ours, and for what: an owner is the thing that a flow is there for.

The upper half of a cookie says that a flow is ours, the lower half for which owner, so that an operator who looks at a
bridge, and an agent without memory, can tell. Flows with other cookies are other people's.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable

from neutrino.dataplane.openflow.api import Flow

COOKIE = 0x6E74726E << 32
MASK = 0xFFFFFFFF << 32


def cookie_of(owner: str) -> int:
    return COOKIE | zlib.crc32(owner.encode())


def owned(owner: str, flows: Iterable[Flow]) -> frozenset[Flow]:
    cookie = cookie_of(owner)
    return frozenset(dataclasses.replace(flow, cookie=cookie) for flow in flows)
