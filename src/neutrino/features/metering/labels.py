"""Metering labels and their rules: the API.

A label counts traffic of the routers of its project, a shared one of all routers. Hosts get the labels of a router as a
part of it: a change of a label is logged with the label, and the feed derives the routers from it. A label that is
deleted is not found any more, so its routers are logged instead.
"""

import ipaddress
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.metering.resources import PREFIXES, MeteringLabelNotFound, MeteringLabelRuleNotFound
from neutrino.features.metering.tables import metering_label_rules, metering_labels
from neutrino.features.router.tables import routers
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import Collection, OneByOneCollection
from neutrino.server.context import Context
from neutrino.server.db.objects import new_id, update_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import PROJECT, View

REVISION = ("revision_number",)
LABELS = View(
    metering_labels,
    scope=sa.or_(metering_labels.c.project_id == PROJECT, metering_labels.c.shared),
    not_found=MeteringLabelNotFound,
    hidden=REVISION,
)
RULES = View(metering_label_rules, scope=sa.true(), not_found=MeteringLabelRuleNotFound)


class MeteringLabelRuleOverlaps(errors.Conflict):
    template = "Metering label rule with remote_ip_prefix '{remote_ip_prefix}' overlaps another."


class MeteringLabels(Collection):
    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None or after is not None:
            return
        router_ids = sa.select(routers.c.id)
        if not before["shared"]:
            router_ids = router_ids.where(routers.c.project_id == before["project_id"])
        for router_id in tx.execute(router_ids).scalars():
            tx.record("router", router_id)


class MeteringLabelRules(OneByOneCollection):
    def new(self, context: Context, values: Object) -> Object:
        _check_prefixes(values)
        return {"id": new_id(), **{name: values[name] for name in values if name in metering_label_rules.c}}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for rule in objects:
            rule["label"] = _own_label(connection, context, rule["metering_label_id"])
            _check_overlap(rule, RULES.load_in(connection, "metering_label_id", [rule["metering_label_id"]]))

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        before["label"] = _own_label(connection, context, before["metering_label_id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        # A new revision of the label: Stale if its rules have changed since they were read.
        update_row(tx, metering_labels, (after or before or {})["label"], {})


def _own_label(connection: Connection, context: Context, key: str) -> Object:
    """Rules of other projects' labels are the administrator's, even if the policy lets others write rules."""
    label = LABELS.get(connection, key, more=REVISION)
    if not context.is_admin and label["project_id"] != context.project_id:
        raise MeteringLabelNotFound(id=key)
    return label


def _check_prefixes(rule: Object) -> None:
    """Refuse a rule whose prefixes, each valid by itself, contradict each other."""
    given = [name for name in PREFIXES if rule[name] is not None]
    if not given:
        raise errors.Invalid(f"At least one of {', '.join(PREFIXES)} must be given.")
    if "remote_ip_prefix" in given and len(given) > 1:
        raise errors.Invalid("remote_ip_prefix cannot be combined with source_ip_prefix or destination_ip_prefix.")
    if len({ipaddress.ip_interface(rule[name]).version for name in given}) > 1:
        raise errors.InvalidInput(error_message=f"{' and '.join(given)} are of different IP versions")


def _check_overlap(rule: Object, others: Iterable[Object]) -> None:
    """Refuse a remote prefix that overlaps with that of another rule of the label, direction and kind."""
    prefix = rule["remote_ip_prefix"]
    if prefix is None:
        return
    network = ipaddress.ip_interface(prefix).network
    for other in others:
        if other["remote_ip_prefix"] is None or any(other[name] != rule[name] for name in ("direction", "excluded")):
            continue
        theirs = ipaddress.ip_interface(other["remote_ip_prefix"]).network
        if network.version == theirs.version and network.overlaps(theirs):
            raise MeteringLabelRuleOverlaps(remote_ip_prefix=prefix)
