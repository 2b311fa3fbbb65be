"""Routers and floating IPs in the status of the service: how many there are, and those with a problem."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.diagnosis.facts import Facts
from neutrino.features.router.tables import floatingips, router_l3_agents, router_ports, routers
from neutrino.model.routing import ACTIVE
from neutrino.server.db.tables import agents
from neutrino.server.hosts.registry import timestamp
from neutrino.server.status.reader import MOST, Query, counts, named, objects

ELECTION_SECONDS: Final = 60  # until an instance of a new HA router has to be active
_FLOATING_IPS = sa.select(floatingips.c.status, sa.func.count()).group_by(floatingips.c.status)
_ROUTERS = sa.select(routers.c.status, routers.c.ha, routers.c.distributed, sa.func.count()).group_by(
    routers.c.status, routers.c.ha, routers.c.distributed
)
_has_ports = sa.exists().where(router_ports.c.router_id == routers.c.id)
_has_l3_agent = sa.exists().where(router_l3_agents.c.router_id == routers.c.id)
_has_enabled_l3_agent = sa.exists().where(
    router_l3_agents.c.router_id == routers.c.id, router_l3_agents.c.agent_id == agents.c.id, agents.c.admin_state_up
)
_instances = (
    sa.select(
        *(routers.c[name] for name in ("id", "name", "created_at", "updated_at")),
        sa.func.sum(sa.case((router_l3_agents.c.ha_state == ACTIVE, 1), else_=0)).label("active_instances"),
        sa.func.count(router_l3_agents.c.ha_state).label("reported"),
    )
    .join(router_l3_agents, router_l3_agents.c.router_id == routers.c.id)
    .where(routers.c.ha, routers.c.admin_state_up)
    .group_by(routers.c.id, routers.c.name, routers.c.created_at, routers.c.updated_at)
    .subquery()
)
_HA_STATES = sa.select(_instances.c.active_instances, sa.func.count()).group_by(_instances.c.active_instances)
_since: sa.BindParameter[str] = sa.bindparam("elected_since")
# Before its first election a router has no active instance: it is new, or became HA, and no host has reported a state.
_not_elected = sa.or_(
    _instances.c.created_at >= _since, sa.and_(_instances.c.reported == 0, _instances.c.updated_at >= _since)
)
_PROBLEMS: Mapping[str, Query] = {
    "routers_not_scheduled": named(routers).where(
        routers.c.admin_state_up,
        _has_ports,
        sa.not_(_has_l3_agent),
        # A distributed router without a gateway needs no L3 agent of its own: it is where its instances are.
        sa.or_(sa.not_(routers.c.distributed), routers.c.gw_port_id.is_not(None)),
    ),
    "routers_of_disabled_agents": named(routers).where(
        routers.c.admin_state_up, _has_ports, _has_l3_agent, sa.not_(_has_enabled_l3_agent)
    ),
    "ha_routers": sa.select(_instances.c.id, _instances.c.name, _instances.c.active_instances)
    .where(
        sa.or_(_instances.c.active_instances > 1, sa.and_(_instances.c.active_instances == 0, sa.not_(_not_elected)))
    )
    .order_by(_instances.c.id)
    .limit(MOST),
    "routers_in_error": named(routers).where(routers.c.status == "ERROR"),
    "floatingips_in_error": named(floatingips, name="floating_ip_address").where(floatingips.c.status == "ERROR"),
}


def add_facts(connection: Connection, facts: Facts) -> Facts:
    elected_since = timestamp(facts.now - ELECTION_SECONDS)
    problems = objects(connection, _PROBLEMS, elected_since=elected_since, most=facts.most)
    return replace(
        facts,
        routers=[(row[0], bool(row[1]), bool(row[2]), row[3]) for row in connection.execute(_ROUTERS)],
        ha_routers={int(row[0] or 0): row[1] for row in connection.execute(_HA_STATES)},
        floatingips=counts(connection, _FLOATING_IPS),
        named=replace(facts.named, **problems),
    )
