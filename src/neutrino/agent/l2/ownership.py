"""Which flows are ours, and for what: an owner is the thing that a flow is there for.

The upper half of a cookie says that a flow is ours, the lower half for which owner, so that an operator who looks at a
bridge, and an agent without memory, can tell. Flows with other cookies are other people's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from neutrino.dataplane.openflow.api import Flow

COOKIE = 0x6E74726E << 32
# Learned flows are the switch's own doing: by this cookie they are told from those that we compare and delete.
LEARNED_COOKIE = 0x6E74726C << 32
MASK = 0xFFFFFFFF << 32


def cookie_of(owner: str) -> int:
    return COOKIE | zlib.crc32(owner.encode())


def learned_cookie_of(owner: str) -> int:
    """Of what an owner's flows have learned, and what goes with them."""
    return LEARNED_COOKIE | zlib.crc32(owner.encode())


def owned(owner: str, flows: Iterable[Flow]) -> frozenset[Flow]:
    cookie = cookie_of(owner)
    return frozenset(flow._replace(cookie=cookie) for flow in flows)
