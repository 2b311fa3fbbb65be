"""Availability zones that networks and routers ask for: a zone exists if an agent reports it."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.db.tables import agents


def check_hints(connection: Connection, hints: Sequence[str], agent_type: str = words.DHCP) -> None:
    """Refuse hints for zones without an agent of the type."""
    if not hints:
        return
    statement = sa.select(agents.c.availability_zone).where(
        agents.c.agent_type == agent_type, agents.c.availability_zone.in_(sorted(set(hints)))
    )
    known = set(connection.execute(statement.distinct()).scalars())
    for hint in hints:
        if hint not in known:
            raise errors.AvailabilityZoneNotFound(availability_zone=hint)
