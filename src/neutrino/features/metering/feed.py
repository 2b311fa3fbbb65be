"""Metering labels as hosts get them: a part of the routers whose traffic they count.

A change of a label or its rules is logged with the label; `metered_routers` finds the routers that it affects.
"""

import ipaddress

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.metering.tables import metering_label_rules, metering_labels
from neutrino.features.router.tables import routers
from neutrino.model.routing import MeteringLabel, MeteringRule
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.declarations import Affects, Changed, Feed, Part
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids

_ROUTERS = sa.select(routers.c.id)
_OF_PROJECTS = (
    sa.select(routers.c.id, metering_labels.c.id.label("label_id"))
    .join(metering_labels, metering_labels.c.project_id == routers.c.project_id)
    .where(metering_labels.c.shared.is_(False))
    .order_by(metering_labels.c.id)
)
_SHARED = sa.select(metering_labels.c.id).where(metering_labels.c.shared.is_(True)).order_by(metering_labels.c.id)
_RULES = sa.select(metering_label_rules).order_by(metering_label_rules.c.id)


def metered_routers(connection: Connection, changed: Changed) -> set[str]:
    """The routers whose traffic changed labels count."""
    label_ids = changed.named("metering_label")
    if read_ids(connection, _SHARED, metering_labels.c.id, label_ids):
        return read_ids(connection, _ROUTERS, routers.c.id, None)
    return read_ids(connection, _OF_PROJECTS, metering_labels.c.id, label_ids)


def read_labels(connection: Connection, router_ids: Ids) -> dict[str, dict[str, tuple[MeteringLabel, ...]]]:
    """The labels of these routers, by router: shared ones, and those of the router's project."""
    shared = list(connection.execute(_SHARED).scalars())
    of_projects = grouped(connection, _OF_PROJECTS, routers.c.id, router_ids, lambda row: row.label_id)
    label_ids = sorted({*shared, *(key for several in of_projects.values() for key in several)})
    if not label_ids:
        return {}
    rules = grouped(connection, _RULES, metering_label_rules.c.metering_label_id, label_ids, _rule)
    labels = {key: MeteringLabel(key, tuple(rules.get(key, ()))) for key in label_ids}
    metered = read_ids(connection, _ROUTERS, routers.c.id, router_ids) if shared else {*of_projects}
    return {
        router_id: {"metering_labels": tuple(labels[key] for key in (*shared, *of_projects[router_id]))}
        for router_id in metered
    }


def _rule(row: NamedRow) -> MeteringRule:
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


FEED = Feed(
    parts=(Part(of="router", defaults={"metering_labels": ()}, read=read_labels),),
    affects=(Affects(records="router", named=("metering_label",), find=metered_routers),),
)
