"""From which position of the change log on rows are as new as a time: found by halving, as the log has no index by time.

Positions are given after commits, so that times are in their order but for seconds: rows of the last SLACK seconds before
the time are read too, and their times compared.
"""

from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.hosts.registry import seconds, timestamp

SLACK: Final = 60.0
MAX_SECONDS: Final = 10 * 365 * 86400
_AT = (
    sa.select(t.changes.c.position, t.changes.c.at)
    .where(t.changes.c.position >= sa.bindparam("least", type_=sa.BigInteger))
    .order_by(t.changes.c.position)
    .limit(1)
)


def parse_since(text: str, now: float) -> str:
    """A time as the log has it, from an ISO 8601 time or a number of seconds before now."""
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return timestamp(now - min(int(text), MAX_SECONDS))
    try:
        at = datetime.fromisoformat(text[:40])
        return timestamp((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        message = f"Invalid input for since: '{text[:64]}' is neither a time (ISO 8601) nor a number of seconds."
        raise errors.HTTPBadRequest(message) from None


def position_before(connection: Connection, since: str, removed: int, head: int) -> int:
    """A position of which all rows after it are newer than `since`, or little older."""
    early = timestamp(max(0.0, seconds(since) - SLACK)) if since > timestamp(SLACK) else since
    low, high = removed, head  # rows up to `low` are older; rows after `high` are not
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(_AT, {"least": middle}).first()
        if row is None or row.at >= early:
            high = middle - 1
        else:
            low = max(middle, row.position)
    return min(low, head)
