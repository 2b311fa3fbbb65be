"""Conntrack helpers of routers: kernel modules that follow protocols with several connections, as FTP or TFTP.

A helper is a row of its own, and part of its router's row as the API shows it there. Both are written on the router's
revision, so concurrent requests cannot lose one.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from neutrino.features.router.errors import ConntrackHelperNotAllowed, ConntrackHelperNotFound, InvalidProtocolForHelper
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.tables import conntrack_helpers, routers
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import ChildCollection, child_view
from neutrino.server.context import Context
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.host_limits import check_number

SHOWN_IN_ROUTER = ("protocol", "port", "helper")
VIEW = child_view(conntrack_helpers.c.router_id, routers, ConntrackHelperNotFound)
Allowed = Mapping[str, Sequence[str]]  # by helper, its protocols


class ConntrackHelpers(ChildCollection):
    def __init__(self, db: Database, allowed: Allowed) -> None:
        super().__init__(db, VIEW, conntrack_helpers.c.router_id, router_view.VIEW)
        self._allowed = allowed

    def check(
        self, connection: Connection, context: Context, parent: Object, before: Object | None, after: Object | None
    ) -> None:
        if before is None:
            check_number(connection, conntrack_helpers.c.router_id, [parent["id"]], "Router", "conntrack helpers")
        if after is not None:
            self._check(after, _others(parent, before))

    def also_write(self, tx: Transaction, parent: Object, before: Object | None, after: Object | None) -> None:
        shown = [*_others(parent, before), *(() if after is None else (_shown(after),))]
        update_row(tx, routers, parent, {"conntrack_helpers": shown})

    def _check(self, new: Object, others: Sequence[Object]) -> None:
        protocols = self._allowed.get(new["helper"])
        if protocols is None:
            raise ConntrackHelperNotAllowed(helper=new["helper"])
        if new["protocol"] not in protocols:
            raise InvalidProtocolForHelper(
                helper=new["helper"], protocol=new["protocol"], supported_protocols=", ".join(protocols)
            )
        if _shown(new) in others:
            raise errors.BadRequest(resource="conntrack_helper", msg="the router has the same one already")


def _shown(helper: Object) -> Object:
    """The form in the router."""
    return {name: helper[name] for name in SHOWN_IN_ROUTER}


def _others(router: Object, helper: Object | None) -> list[Object]:
    """The router's helpers without this one; no two are equal."""
    return [other for other in router["conntrack_helpers"] if helper is None or other != _shown(helper)]
