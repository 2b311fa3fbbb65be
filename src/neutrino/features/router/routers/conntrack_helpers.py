"""Conntrack helpers of routers: kernel modules that follow protocols with several connections, as FTP or TFTP.

A helper is a row of its own, and part of its router's row as the API shows it there. Both are written on the router's
revision, so concurrent requests cannot lose one.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from neutrino.features.router.errors import ConntrackHelperNotAllowed, ConntrackHelperNotFound, InvalidProtocolForHelper
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.tables import conntrack_helpers, routers
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import ChildCollection
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, new_id, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.host_limits import check_number

SHOWN_IN_ROUTER = ("protocol", "port", "helper")
VIEW = View(
    conntrack_helpers,
    computed={
        "ext_parent:project_id": sa.select(routers.c.project_id)
        .where(routers.c.id == conntrack_helpers.c.router_id)
        .scalar_subquery()
    },
    scope=sa.true(),
    hidden=("ext_parent:project_id", "router_id"),
)
Allowed = Mapping[str, Sequence[str]]  # by helper, its protocols


class ConntrackHelpers(ChildCollection):
    def __init__(self, db: Database, allowed: Allowed) -> None:
        super().__init__(db, VIEW, conntrack_helpers.c.router_id, router_view.VIEW)
        self._allowed = allowed

    def create(self, context: Context, router_id: str, values: Object) -> Object:
        return self._write(router_id, None, {name: values[name] for name in SHOWN_IN_ROUTER})

    def update(self, context: Context, router_id: str, key: str, values: Object, revision: int | None) -> Object:
        return self._write(router_id, key, values)

    def delete(self, context: Context, router_id: str, key: str, revision: int | None) -> None:
        self._write(router_id, key, None)

    @retried
    def _write(self, router_id: str, key: str | None, values: Object | None) -> Object:
        """Create (without a key), update, or delete (without values) a helper, in its own row and in the router's."""
        with self.db.read() as connection:
            router = router_view.VIEW.get(connection, router_id)
            if key is None:
                check_number(connection, conntrack_helpers.c.router_id, [router_id], "Router", "conntrack helpers")
            rows = VIEW.load_in(connection, "router_id", [router_id])
        helpers = {row["id"]: {name: row[name] for name in VIEW.names} for row in rows}
        if key is not None and key not in helpers:
            raise ConntrackHelperNotFound(id=key)
        new = {"id": new_id()} if key is None else helpers[key]
        new = {**new, **(values or {})}
        if values is not None:
            self._check(new, [helper for helper in helpers.values() if helper["id"] != key])
            helpers[new["id"]] = new
        else:
            del helpers[new["id"]]
        row = as_row(conntrack_helpers, {**new, "router_id": router_id})
        with self.db.transaction() as tx:
            if key is not None:
                tx.write(sa.delete(conntrack_helpers).where(conntrack_helpers.c.id == key))
            if values is not None:
                tx.insert(conntrack_helpers, [row])
            shown = [{name: helper[name] for name in SHOWN_IN_ROUTER} for helper in helpers.values()]
            update_row(tx, routers, router, {"conntrack_helpers": shown})
        return new

    def _check(self, new: Object, others: Sequence[Object]) -> None:
        protocols = self._allowed.get(new["helper"])
        if protocols is None:
            raise ConntrackHelperNotAllowed(helper=new["helper"])
        if new["protocol"] not in protocols:
            raise InvalidProtocolForHelper(
                helper=new["helper"], protocol=new["protocol"], supported_protocols=", ".join(protocols)
            )
        if any(all(other[name] == new[name] for name in SHOWN_IN_ROUTER) for other in others):
            raise errors.BadRequest(resource="conntrack_helper", msg="the router has the same one already")
