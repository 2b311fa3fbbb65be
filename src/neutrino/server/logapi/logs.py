"""Logs: the API. A log names the packets that hosts write down: of one port, of the ports of a group, or of a project.

A log is deleted with its security group or port, in the same transaction. Foreign keys would do that too, but hosts learn
of a deleted log from the change log, so it is deleted explicitly.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.resources.log import SECURITY_GROUP
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, exists, fresh
from neutrino.server.db.reads import Lookup, first, read
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.query import Query
from neutrino.server.view_collection import ViewCollection

VIEW = View(t.logs, hidden=("tags",), not_found=errors.LogResourceNotFound)
_SUPPORTED_VIFS = ("ovs", "vhostuser")
_c, _p, _m = t.logs.c, t.ports.c, t.port_security_groups.c
_OF_PORT = Lookup(sa.select(_c.id).where(_c.target_id == sa.bindparam("port", type_=sa.String)), first)


class Logs(ViewCollection):
    def __init__(self, db: Database) -> None:
        super().__init__(db, VIEW)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        with self.db.read() as connection:
            for values in several:
                _check(connection, context, values)
        made = [fresh(values, revision=0) for values in several]
        with self.db.transaction() as tx:
            # A group or port that is deleted meanwhile makes this fail on its foreign key, and it is decided again.
            tx.insert(t.logs, [as_row(t.logs, log) for log in made])
        return made

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, revision=revision)
        with self.db.transaction() as tx:
            delete_row(tx, t.logs, before)


class LoggableResources:
    def index(self, context: Context, query: Query) -> list[Object]:
        return [] if query.marker is not None else [{"type": SECURITY_GROUP}]


def _check(connection: Connection, context: Context, values: Object) -> None:
    """Of other projects, only an administrator logs packets, even if the policy lets others create logs."""
    group_id, port_id = values["resource_id"], values["target_id"]
    own_group = sa.true() if context.is_admin else t.security_groups.c.project_id == context.project_id
    own_port = sa.true() if context.is_admin else _p.project_id == context.project_id
    if values["resource_type"] != SECURITY_GROUP:
        raise errors.InvalidLogResourceType(resource_type=values["resource_type"])
    if group_id is not None and not exists(connection, t.security_groups.c.id == group_id, own_group):
        raise errors.ResourceNotFound(resource_id=group_id)
    if port_id is None:
        return
    port = connection.execute(sa.select(_p.vif_type, _p.vnic_type).where(_p.id == port_id, own_port)).first()
    if port is None:
        raise errors.TargetResourceNotFound(target_id=port_id)
    bound = port.vif_type not in (VIF_UNBOUND, VIF_FAILED)
    if port.vif_type not in _SUPPORTED_VIFS if bound else port.vnic_type != "normal":
        raise errors.LoggingTypeNotSupported(log_type=SECURITY_GROUP, port_id=port_id)
    if group_id is not None and not exists(connection, _m.port_id == port_id, _m.security_group_id == group_id):
        raise errors.InvalidResourceConstraint(
            resource=SECURITY_GROUP, resource_id=group_id, target_resource="port", target_id=port_id
        )


# --- deletion of what a log is for ------------------------------------------------------------------------------------


def delete_of_group(tx: Transaction, group_id: str) -> None:
    _delete(tx, _c.resource_id == group_id)


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """A hook of ports: the logs of a port that is deleted."""
    if before is None or after is not None:
        return None
    if read(connection, _OF_PORT(port=before["id"])) is None:
        return None
    return lambda tx: _delete(tx, _c.target_id == before["id"])


def _delete(tx: Transaction, condition: sa.ColumnElement[bool]) -> None:
    found = tx.execute(sa.select(_c.id, _c.project_id).where(condition)).all()
    tx.write(sa.delete(t.logs).where(condition))
    for row in found:
        tx.log(t.logs, row._asdict(), deleted=True)
