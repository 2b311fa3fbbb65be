"""Base of the collections of VPN objects: bulk creates, updates and deletes of rows."""

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, delete_row, new_id, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.quota.quotas import Quotas
from neutrino.server.view_collection import ViewCollection

REVISION = ("revision_number",)


class VpnCollection(ViewCollection):
    """A subclass has the kind of its objects, their checks, and what is written with them."""

    kind: str

    def __init__(self, db: Database, view: View, quotas: Quotas) -> None:
        super().__init__(db, view)
        self._quotas = quotas

    def prepared(self, context: Context, values: Object, before: Object | None = None) -> Object:
        """The values of a request with defaults, without the database; `before`: of an update."""
        return values

    def check(self, connection: Connection, context: Context, after: Object, before: Object | None) -> None:
        """Refuse an object that cannot be created, or with `before`, updated."""

    def check_delete(self, connection: Connection, before: Object) -> None:
        """Refuse to delete an object in use."""

    def write_related(self, tx: Transaction, after: Object | None, before: Object | None) -> None:
        """Write what belongs to an object, in the transaction that writes its row; None: it does not exist."""

    def check_number(self, tx: Transaction, made: Sequence[Object]) -> None:
        """Refuse new objects that are more than the router can have, when they are written."""

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        table = self._view.table
        made = [
            {"id": new_id(), "tenant_id": item["project_id"], **self.prepared(context, dict(item))} for item in items
        ]
        with self.db.read() as connection:
            for each in made:
                self.check(connection, context, each, None)
            limits = self._quotas.limits(connection, self.kind, made)
        with self.db.transaction() as tx:
            # What it refers to may be deleted meanwhile: a foreign key fails then, and the request is decided again.
            tx.insert(table, [as_row(table, {**each, "revision_number": 0}) for each in made], limits)
            for each in made:
                self.write_related(tx, each, None)
            self.check_number(tx, made)
        return made

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
        values = self.prepared(context, dict(values), before)
        after = {**before, **values}
        with self.db.read() as connection:
            self.check(connection, context, after, before)
        with self.db.transaction() as tx:
            update_row(tx, self._view.table, before, values)
            self.write_related(tx, after, before)
        return {name: value for name, value in after.items() if name not in REVISION}

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
            self.check_delete(connection, before)
        with self.db.transaction() as tx:
            # A new use of the object makes this fail on a foreign key, and the request is decided again.
            delete_row(tx, self._view.table, before)
            self.write_related(tx, None, before)
