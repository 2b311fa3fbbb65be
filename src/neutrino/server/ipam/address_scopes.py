"""Address scopes: prefixes are unique within one, so that its networks route to each other without NAT."""

from typing import Any

import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.access import sharing
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.subnetpool import ADDRESS_SCOPE
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, fresh, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import shareable_view
from neutrino.server.view_collection import ViewCollection

Object = dict[str, Any]
VIEW = shareable_view(
    t.address_scopes, errors.AddressScopeNotFound, hidden=("description", "created_at", "updated_at", "tags")
)


class AddressScopes(ViewCollection):
    extensions = (Extension("address-scope", "Address scope", "Address scopes for subnet pools."),)

    def __init__(self, db: Database) -> None:
        super().__init__(db, VIEW)
        self.collections = ((ADDRESS_SCOPE, self),)

    @retried
    def create(self, context: Context, values: Object) -> Object:
        made = fresh(values)
        with self.db.transaction() as tx:
            tx.insert(t.address_scopes, [as_row(t.address_scopes, made)])
            if made["shared"]:
                sharing.share_with_all(tx, "address_scope", made["id"], made["project_id"])
        return {**made, "tenant_id": made["project_id"]}

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, context.project_id)
        if before["shared"] and values.get("shared") is False:
            raise errors.AddressScopeUpdateError(id=key, reason="it is shared, and sharing cannot be taken back")
        with self.db.transaction() as tx:
            stamp = update_row(tx, t.address_scopes, before, values)
            if values.get("shared") and not before["shared"]:
                sharing.share_with_all(tx, "address_scope", key, before["project_id"])
        return {**before, **values, **stamp}

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, context.project_id)
            pools = sa.select(t.subnetpools.c.id).where(t.subnetpools.c.address_scope_id == key).limit(1)
            if connection.execute(pools).first() is not None:
                raise errors.AddressScopeInUse(id=key)
        with self.db.transaction() as tx:
            sharing.forget(tx, key)
            delete_row(tx, t.address_scopes, before)
