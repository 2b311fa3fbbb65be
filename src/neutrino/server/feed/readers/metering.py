"""Reads the metering labels of routers: those of the router's project, and shared ones.

A change of a label or its rules is logged with the label; `metered_routers` finds the routers that it affects.
"""

import ipaddress
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.routing import MeteringLabel, MeteringRule
from neutrino.server.db import tables as t
from neutrino.server.feed.declarations import Changed
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids

_l, _lr, _r = t.metering_labels.c, t.metering_label_rules.c, t.routers.c
_OF_PROJECTS = (
    sa.select(_r.id, _l.id.label("label_id"))
    .join(t.metering_labels, _l.project_id == _r.project_id)
    .where(_l.shared.is_(False))
    .order_by(_l.id)
)
_SHARED = sa.select(_l.id).where(_l.shared.is_(True)).order_by(_l.id)
_RULES = sa.select(t.metering_label_rules).order_by(_lr.id)


def metered_routers(connection: Connection, changed: Changed) -> set[str]:
    """The routers whose traffic changed labels count."""
    labels = changed.named("metering_label")
    shared = read_ids(connection, _SHARED, _l.id, labels)
    if shared:
        return read_ids(connection, sa.select(_r.id), _r.id, None)
    return read_ids(connection, _OF_PROJECTS, _l.id, labels)


def read_labels(connection: Connection, routers: Ids) -> defaultdict[str, tuple[MeteringLabel, ...]]:
    """The labels of these routers, by router; those of a router without any of its project are the shared ones."""
    shared = list(connection.execute(_SHARED).scalars())
    of_projects = grouped(connection, _OF_PROJECTS, _r.id, routers, lambda row: row.label_id)
    wanted = sorted({*shared, *(label for several in of_projects.values() for label in several)})
    rules = grouped(connection, _RULES, _lr.metering_label_id, wanted, _rule) if wanted else {}
    labels = {key: MeteringLabel(key, tuple(rules.get(key, ()))) for key in wanted}
    common = tuple(labels[key] for key in shared)
    found = {router_id: (*common, *(labels[key] for key in keys)) for router_id, keys in of_projects.items()}
    return defaultdict(lambda: common, found)


def _rule(row: Any) -> MeteringRule:
    # As in Neutron, the remote prefix is compared with the address on the inside of the router.
    outward = row.direction == "egress"
    return MeteringRule(
        direction=row.direction,
        source=_prefix(row.source_ip_prefix or (row.remote_ip_prefix if outward else None)),
        destination=_prefix(row.destination_ip_prefix or (None if outward else row.remote_ip_prefix)),
        excluded=row.excluded,
    )


def _prefix(text: str | None) -> str | None:
    return None if text is None else str(ipaddress.ip_interface(text).network)
