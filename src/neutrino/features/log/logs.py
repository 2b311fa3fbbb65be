"""Logs: the API. A log names the packets that hosts write down: of one port, of the ports of a group, or of a project.

A log is deleted with its security group or port, in the same transaction. Foreign keys would do that too, but hosts learn
of a deleted log from the change log, so it is deleted explicitly.
"""

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.log.tables import logs
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.errors import Conflict, InvalidInput, NotFound
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.query import Query

SECURITY_GROUP: Final = "security_group"  # the only type of resource whose packets hosts log
_SUPPORTED_VIFS = ("ovs", "vhostuser")


class LogResourceNotFound(NotFound):
    template = "There is no log {id}."


class InvalidLogResourceType(InvalidInput):
    template = "resource_type {resource_type} cannot be logged."


class LoggingTypeNotSupported(Conflict):
    template = "Packets of port {port_id} cannot be logged for a {log_type}."


class TargetResourceNotFound(NotFound):
    template = "target_id: there is no port {target_id}."


class ResourceNotFound(NotFound):
    template = "resource_id: there is no security group {resource_id}."


class InvalidResourceConstraint(InvalidInput):
    template = "The {resource} {resource_id} (resource_id) is not one of {target_resource} {target_id} (target_id)."


LOGS = View(logs, hidden=("tags",), not_found=LogResourceNotFound)


class Logs(Collection):
    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for log in objects:
            _check(connection, context, log)


class LoggableResources:
    def index(self, context: Context, query: Query) -> list[Object]:
        return [] if query.marker is not None else [{"type": SECURITY_GROUP}]


def _check(connection: Connection, context: Context, values: Object) -> None:
    """Of other projects, only an administrator logs packets, even if the policy lets others create logs."""
    group_id, port_id = values["resource_id"], values["target_id"]
    own_group = sa.true() if context.is_admin else t.security_groups.c.project_id == context.project_id
    own_port = sa.true() if context.is_admin else t.ports.c.project_id == context.project_id
    if values["resource_type"] != SECURITY_GROUP:
        raise InvalidLogResourceType(resource_type=values["resource_type"])
    if group_id is not None and not exists(connection, t.security_groups.c.id == group_id, own_group):
        raise ResourceNotFound(resource_id=group_id)
    if port_id is None:
        return
    binding = sa.select(t.ports.c.vif_type, t.ports.c.vnic_type).where(t.ports.c.id == port_id, own_port)
    port = connection.execute(binding).first()
    if port is None:
        raise TargetResourceNotFound(target_id=port_id)
    bound = port.vif_type not in (VIF_UNBOUND, VIF_FAILED)
    if port.vif_type not in _SUPPORTED_VIFS if bound else port.vnic_type != "normal":
        raise LoggingTypeNotSupported(log_type=SECURITY_GROUP, port_id=port_id)
    of_port, of_group = t.port_security_groups.c.port_id, t.port_security_groups.c.security_group_id
    if group_id is not None and not exists(connection, of_port == port_id, of_group == group_id):
        raise InvalidResourceConstraint(
            resource=SECURITY_GROUP, resource_id=group_id, target_resource="port", target_id=port_id
        )


# --- deletion of what a log is for ------------------------------------------------------------------------------------


def delete_of_group(tx: Transaction, group_id: str) -> None:
    """Delete the logs of a security group that is deleted."""
    _delete(tx, logs.c.resource_id == group_id)


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """Delete the logs of a port that is deleted."""
    if before is None or after is not None:
        return None
    return lambda tx: _delete(tx, logs.c.target_id == before["id"])


def _delete(tx: Transaction, condition: sa.ColumnElement[bool]) -> None:
    rows = tx.execute(sa.select(logs.c.id, logs.c.project_id).where(condition)).all()
    tx.write(sa.delete(logs).where(condition))
    for row in rows:
        tx.log(logs, {"id": row.id, "project_id": row.project_id}, deleted=True)
