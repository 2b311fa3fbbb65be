"""Findings: hosts whose resources Placement does not have."""

from collections.abc import Iterator
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.diagnosis.facts import NAMED, Facts
from neutrino.diagnosis.problems import WARNING, Finding, Problem
from neutrino.server.db import tables as t

NOT_IN_PLACEMENT = Problem(
    "resources-not-in-placement",
    "Placement does not have the bandwidths or packet rates that the host guarantees: instances with minimums are placed "
    "by old numbers, or nowhere.",
    "See the log of the feed process for the reason: Placement cannot be reached, nova-compute of the host has not "
    "registered, or the host's options are refused. It is tried again with each heartbeat of the host.",
    WARNING,
)
_FALSE = (
    sa.select(t.agents.c.id, t.agents.c.agent_type, t.agents.c.host)
    .where(t.agents.c.resources_synced.is_(False))
    .order_by(t.agents.c.host)
    .limit(NAMED + 1)
)


def add_facts(connection: Connection, facts: Facts) -> Facts:
    return replace(facts, found=(*facts.found, *_findings(connection)))


def _findings(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(_FALSE).all()
    for row in rows[:NAMED]:
        text = f"Placement does not have what {row.agent_type} on {row.host} reports"
        yield NOT_IN_PLACEMENT(text, "agent", row.id, row.host)
    if len(rows) > NAMED:
        yield NOT_IN_PLACEMENT("Placement does not have what more agents report", "agent")
