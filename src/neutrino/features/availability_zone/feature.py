"""Availability zones: a zone exists if an agent reports it.

A zone of DHCP agents is one for networks, a zone of L3 agents one for routers. It is available while one such agent is
enabled, alive or not: a zone is a place for objects, it does not show whether they are served now. Scheduling by zones is
the core's and the routers'.
"""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Extension, Resource
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.db.tables import agents
from neutrino.server.features import Feature
from neutrino.server.query import Query
from neutrino.server.services import ResourcePlugin, Services

RESOURCES: Final = {words.DHCP: "network", words.L3: "router"}

AVAILABILITY_ZONE = Resource(
    name="availability_zone",
    path="availability_zones",
    key="name",
    verbs=frozenset({"index"}),
    attributes=(
        Attribute("name", t.Text(), filter=True),
        Attribute("resource", t.Text(), filter=True),
        Attribute("state", t.Text(), filter=True),
    ),
)

_ZONES = (
    # MAX of a number, as PostgreSQL has no MAX of booleans: 1 if one agent of the zone is enabled.
    sa.select(
        agents.c.availability_zone, agents.c.agent_type, sa.func.max(sa.case((agents.c.admin_state_up, 1), else_=0))
    )
    .where(agents.c.agent_type.in_(list(RESOURCES)), agents.c.availability_zone != "")
    .group_by(agents.c.availability_zone, agents.c.agent_type)
    .order_by(agents.c.availability_zone, agents.c.agent_type)
)


@dataclass(frozen=True)
class AvailabilityZones:
    db: Database

    def index(self, context: Context, query: Query) -> list[Object]:
        if query.marker is not None:  # all zones are one page, whatever the limit: there is no next one
            return []
        with self.db.read() as connection:
            rows = connection.execute(_ZONES).all()
        zones = [
            {"name": name, "resource": RESOURCES[kind], "state": "available" if up else "unavailable"}
            for name, kind, up in rows
        ]
        return [zone for zone in zones if all(zone[name] in wanted for name, wanted in query.filters.items())]


def build(services: Services) -> ResourcePlugin:
    return ResourcePlugin(collections=((AVAILABILITY_ZONE, AvailabilityZones(services.db)),))


FEATURES = (
    Feature(
        name="availability_zone",
        always=True,
        extensions=(
            Extension("availability_zone", "Availability Zone", "Zones that agents are in, for networks and routers."),
            Extension(
                "availability_zone_filter", "Availability Zone Filter Extension", "Zones by name, resource and state."
            ),
        ),
        build=build,
        policy={"get_availability_zone": "role:reader"},
        deprecated_policy={"rule:regular_user": "get_availability_zone"},
    ),
)
