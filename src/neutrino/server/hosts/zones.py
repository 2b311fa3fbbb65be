"""Availability zones: a zone exists if an agent reports it.

A zone of DHCP agents is one for networks, a zone of L3 agents one for routers. It is available while one such agent is
enabled, alive or not: a zone is a place for objects, it does not show whether they are served now.
"""

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.agent import AVAILABILITY_ZONE
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.query import Query

RESOURCES: Final = {words.DHCP: "network", words.L3: "router"}
_c = t.agents.c
_ZONES = (
    # MAX of a number, as PostgreSQL has no MAX of booleans: 1 if one agent of the zone is enabled.
    sa.select(_c.availability_zone, _c.agent_type, sa.func.max(sa.case((_c.admin_state_up, 1), else_=0)))
    .where(_c.agent_type.in_(list(RESOURCES)), _c.availability_zone != "")
    .group_by(_c.availability_zone, _c.agent_type)
    .order_by(_c.availability_zone, _c.agent_type)
)


class AvailabilityZones:
    extensions = (
        Extension("availability_zone", "Availability Zone", "Zones that agents are in, for networks and routers."),
        Extension(
            "availability_zone_filter", "Availability Zone Filter Extension", "Zones by name, resource and state."
        ),
    )

    def __init__(self, db: Database) -> None:
        self.collections = ((AVAILABILITY_ZONE, self),)
        self._db = db

    def index(self, context: Context, query: Query) -> list[Object]:
        if query.marker is not None:  # all zones are one page, whatever the limit: there is no next one
            return []
        with self._db.read() as connection:
            rows = connection.execute(_ZONES).all()
        zones = [
            {"name": name, "resource": RESOURCES[kind], "state": "available" if up else "unavailable"}
            for name, kind, up in rows
        ]
        return [zone for zone in zones if all(zone[name] in wanted for name, wanted in query.filters.items())]


def check_hints(connection: Connection, hints: Sequence[str], agent_type: str = words.DHCP) -> None:
    """Refuse hints for zones without an agent of the type."""
    if not hints:
        return
    statement = sa.select(_c.availability_zone).where(
        _c.agent_type == agent_type, _c.availability_zone.in_(sorted(set(hints)))
    )
    known = set(connection.execute(statement.distinct()).scalars())
    for hint in hints:
        if hint not in known:
            raise errors.AvailabilityZoneNotFound(availability_zone=hint)
