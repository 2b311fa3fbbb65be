"""Metering labels and their rules: the API.

A label counts traffic of the routers of its project, a shared one of all routers. Hosts get the labels of a router as a
part of it: a change of a label is logged with the label, and the feed derives the routers from it. A label that is
deleted is not found any more, so its routers are logged instead.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import PROJECT, View
from neutrino.server.metering.checks import check_overlap, check_rule
from neutrino.server.view_collection import ViewCollection, one_by_one

_l, _r, _routers = t.metering_labels.c, t.metering_label_rules.c, t.routers.c
LABELS = View(
    t.metering_labels,
    scope=sa.or_(_l.project_id == PROJECT, _l.shared),
    not_found=errors.MeteringLabelNotFound,
    hidden=("revision_number",),
)
RULES = View(t.metering_label_rules, scope=sa.true(), not_found=errors.MeteringLabelRuleNotFound)


class MeteringLabels(ViewCollection):
    def __init__(self, db: Database) -> None:
        super().__init__(db, LABELS)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        made = [{"id": new_id(), "tenant_id": item["project_id"], **item} for item in items]
        with self.db.transaction() as tx:
            tx.insert(t.metering_labels, [as_row(t.metering_labels, {**each, "revision_number": 0}) for each in made])
        return made

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = _label(connection, key)
        with self.db.transaction() as tx:
            tx.change(sa.delete(t.metering_labels).where(_l.id == key))
            tx.log(t.metering_labels, before._asdict(), deleted=True)
            metered = sa.select(_routers.id)
            if not before.shared:
                metered = metered.where(_routers.project_id == before.project_id)
            for router_id in tx.execute(metered).scalars():
                tx.record("router", router_id)


class MeteringLabelRules(ViewCollection):
    def __init__(self, db: Database) -> None:
        super().__init__(db, RULES)

    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        return one_by_one(items, lambda each: self.create(context, each), lambda key: self.delete(context, key, None))

    @retried
    def create(self, context: Context, values: Object) -> Object:
        check_rule(values)
        rule = {"id": new_id(), **{name: value for name, value in values.items() if name in _r}}
        with self.db.read() as connection:
            label = _own_label(connection, context, rule["metering_label_id"])
            others = RULES.load_in(connection, "metering_label_id", [rule["metering_label_id"]])
            check_overlap(rule, others)
        with self.db.transaction() as tx:
            _change(tx, label)
            tx.insert(t.metering_label_rules, [as_row(t.metering_label_rules, rule)])
        return rule

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = RULES.get(connection, key)
            label = _own_label(connection, context, before["metering_label_id"])
        with self.db.transaction() as tx:
            _change(tx, label)
            tx.change(sa.delete(t.metering_label_rules).where(_r.id == key))


def _label(connection: Connection, key: str) -> Any:
    found = connection.execute(sa.select(t.metering_labels).where(_l.id == key)).first()
    if found is None:
        raise errors.MeteringLabelNotFound(id=key)
    return found


def _own_label(connection: Connection, context: Context, key: str) -> Any:
    """Rules of other projects' labels are the administrator's, even if the policy lets others write rules."""
    found = _label(connection, key)
    if not context.is_admin and found.project_id != context.project_id:
        raise errors.MeteringLabelNotFound(id=key)
    return found


def _change(tx: Transaction, label: Any) -> None:
    """The label's rules change: Stale if they have changed since it was read."""
    as_read = sa.and_(_l.id == label.id, _l.revision_number == label.revision_number)
    tx.change(sa.update(t.metering_labels).where(as_read).values(revision_number=label.revision_number + 1))
    tx.log(t.metering_labels, label._asdict())
