"""Conntrack helpers of routers: kernel modules that follow protocols with several connections, as FTP or TFTP.

A helper is a row of its own, and part of its router's row as the API shows it there. Both are written on the router's
revision, so concurrent requests cannot lose one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, new_id, update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.l3.routers import view as router_view
from neutrino.server.view_collection import ChildViewCollection

Object = dict[str, Any]
_c, _r = t.conntrack_helpers.c, t.routers.c
SHOWN_IN_ROUTER = ("protocol", "port", "helper")
VIEW = View(
    t.conntrack_helpers,
    computed={"ext_parent:project_id": sa.select(_r.project_id).where(_r.id == _c.router_id).scalar_subquery()},
    scope=sa.true(),
    hidden=("ext_parent:project_id", "router_id"),
)
Allowed = Mapping[str, Sequence[str]]  # by helper, its protocols


class ConntrackHelpers(ChildViewCollection):
    def __init__(self, db: Database, allowed: Allowed) -> None:
        super().__init__(db, VIEW, _c.router_id, router_view.VIEW, errors.RouterNotFound)
        self._allowed = allowed

    def create(self, context: Context, router_id: str, values: Object) -> Object:
        new = {"id": new_id(), **{name: values[name] for name in SHOWN_IN_ROUTER}}
        self._check(new)

        def attempt() -> Object:
            router, helpers = self._load(router_id)
            _check_unique(new, helpers)
            with self.db.transaction() as tx:
                tx.insert(t.conntrack_helpers, [as_row(t.conntrack_helpers, {**new, "router_id": router_id})])
                _update_router(tx, router, [*helpers, new])
            return new

        return self.db.retrying(attempt)

    def update(self, context: Context, router_id: str, key: str, values: Object, revision: int | None) -> Object:
        def attempt() -> Object:
            router, helpers = self._load(router_id)
            new = {**_one(helpers, key), **values}
            self._check(new)
            _check_unique(new, [helper for helper in helpers if helper["id"] != key])
            with self.db.transaction() as tx:
                tx.execute(sa.update(t.conntrack_helpers).where(_c.id == key).values(as_row(t.conntrack_helpers, new)))
                _update_router(tx, router, [new if helper["id"] == key else helper for helper in helpers])
            return new

        return self.db.retrying(attempt)

    def delete(self, context: Context, router_id: str, key: str, revision: int | None) -> None:
        def attempt() -> None:
            router, helpers = self._load(router_id)
            _one(helpers, key)
            with self.db.transaction() as tx:
                tx.execute(sa.delete(t.conntrack_helpers).where(_c.id == key))
                _update_router(tx, router, [helper for helper in helpers if helper["id"] != key])

        self.db.retrying(attempt)

    def _load(self, router_id: str) -> tuple[Object, list[Object]]:
        """A router and its helpers."""
        with self.db.read() as connection:
            router = router_view.load(connection, router_id)
            rows = VIEW.load_in(connection, "router_id", [router_id])
        return router, [{name: row[name] for name in VIEW.names} for row in rows]

    def _check(self, new: Object) -> None:
        protocols = self._allowed.get(new["helper"])
        if protocols is None:
            raise errors.ConntrackHelperNotAllowed(helper=new["helper"])
        if new["protocol"] not in protocols:
            raise errors.InvalidProtocolForHelper(
                helper=new["helper"], protocol=new["protocol"], supported_protocols=", ".join(protocols)
            )


def _one(helpers: Sequence[Object], key: str) -> Object:
    found = next((helper for helper in helpers if helper["id"] == key), None)
    if found is None:
        raise errors.ConntrackHelperNotFound(id=key)
    return found


def _check_unique(new: Object, others: Sequence[Object]) -> None:
    if any(all(other[name] == new[name] for name in SHOWN_IN_ROUTER) for other in others):
        raise errors.BadRequest(resource="conntrack_helper", msg="the router has the same one already")


def _update_router(tx: Transaction, router: Object, helpers: Sequence[Object]) -> None:
    shown = [{name: helper[name] for name in SHOWN_IN_ROUTER} for helper in helpers]
    update_row(tx, t.routers, router, {"conntrack_helpers": shown})
