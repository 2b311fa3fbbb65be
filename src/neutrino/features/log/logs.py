"""Logs: the API. A log names the packets that hosts write down: of one port, of the ports of a group, or of a project.

The group is a security group or a firewall group, by `resource_type`. Of firewall groups, ports of routers are logged.

A log is deleted with its group or port, in the same transaction. Foreign keys would do that too, but hosts learn
of a deleted log from the change log, so it is deleted explicitly.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall.tables import firewall_groups, group_ports
from neutrino.features.log.concerns import CONCERNS
from neutrino.features.log.tables import logs
from neutrino.features.log.types import FIREWALL_GROUP, SECURITY_GROUP
from neutrino.model.device_owners import INTERFACES
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.errors import Conflict, InvalidInput, NotFound
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.query import Query

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
    template = "resource_id: there is no {resource_type} {resource_id}."


class InvalidResourceConstraint(InvalidInput):
    template = "The {resource} {resource_id} (resource_id) is not one of {target_resource} {target_id} (target_id)."


class TargetResourceNotAssociated(InvalidInput):
    template = "Port {target_id} (target_id) has no firewall group."


# The columns of groups have foreign keys; the API has one attribute for both.
_GROUP_COLUMNS = {SECURITY_GROUP: "security_group_id", FIREWALL_GROUP: "firewall_group_id"}
LOGS = View(
    logs,
    renamed={_GROUP_COLUMNS[SECURITY_GROUP]: "resource_id"},
    computed={"resource_id": sa.func.coalesce(logs.c.resource_id, logs.c.firewall_group_id)},
    hidden=("tags", *_GROUP_COLUMNS.values()),
    not_found=LogResourceNotFound,
)


class Logs(Collection):
    def __init__(self, db: Database, types: Sequence[str]) -> None:
        """`types`: those of resources that are logged."""
        super().__init__(db, LOGS)
        self._types = types

    def new(self, context: Context, values: Object) -> Object:
        if values["resource_type"] not in self._types:
            raise InvalidLogResourceType(resource_type=values["resource_type"])
        others = {name: value for name, value in values.items() if name != "resource_id"}
        groups = dict.fromkeys(_GROUP_COLUMNS.values()) | {
            _GROUP_COLUMNS[values["resource_type"]]: values["resource_id"]
        }
        return super().new(context, {**others, **groups})

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for log in objects:
            _check(connection, context, log)

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is not None and before is None:  # as the API shows it
            groups = [after.pop(name) for name in _GROUP_COLUMNS.values()]
            after["resource_id"] = next(filter(None, groups), None)
        if before is not None and after is None and before["resource_type"] == FIREWALL_GROUP:
            _changes_firewall_groups(tx, logs.c.id == before["id"], filter(None, [before["target_id"]]))


class LoggableResources:
    def __init__(self, types: Sequence[str]) -> None:
        self._types = types

    def index(self, context: Context, query: Query) -> list[Object]:
        return [] if query.marker is not None else [{"type": each} for each in self._types]


# --- what may be logged -----------------------------------------------------------------------------------------------


def _check(connection: Connection, context: Context, values: Object) -> None:
    """Of other projects, only an administrator logs packets, even if the policy lets others create logs."""
    type_, port_id = values["resource_type"], values["target_id"]
    group_id, groups = values[_GROUP_COLUMNS[type_]], firewall_groups if type_ == FIREWALL_GROUP else t.security_groups
    if group_id is not None and not exists(connection, groups.c.id == group_id, *_own(context, groups)):
        raise ResourceNotFound(resource_type=type_, resource_id=group_id)
    if port_id is None:
        return
    columns = (t.ports.c.id, t.ports.c.vif_type, t.ports.c.vnic_type, t.ports.c.device_owner)
    port = connection.execute(sa.select(*columns).where(t.ports.c.id == port_id, *_own(context, t.ports))).first()
    if port is None:
        raise TargetResourceNotFound(target_id=port_id)
    if type_ == FIREWALL_GROUP:
        is_member = _check_router_port(connection, port, group_id)
    else:
        is_member = _check_port(connection, port, group_id)
    if not is_member:
        raise InvalidResourceConstraint(resource=type_, resource_id=group_id, target_resource="port", target_id=port_id)


def _own(context: Context, table: sa.Table) -> Sequence[sa.ColumnElement[bool]]:
    return () if context.is_admin else (table.c.project_id == context.project_id,)


def _check_port(connection: Connection, port: NamedRow, group_id: str | None) -> bool:
    """Refuse a port that is not filtered on a switch of ours; otherwise whether it has the security group."""
    bound = port.vif_type not in (VIF_UNBOUND, VIF_FAILED)
    if port.vif_type not in _SUPPORTED_VIFS if bound else port.vnic_type != "normal":
        raise LoggingTypeNotSupported(log_type=SECURITY_GROUP, port_id=port.id)
    of_port, of_group = t.port_security_groups.c.port_id, t.port_security_groups.c.security_group_id
    return group_id is None or exists(connection, of_port == port.id, of_group == group_id)


def _check_router_port(connection: Connection, port: NamedRow, group_id: str | None) -> bool:
    """Refuse another port than a router's, and one without a firewall group; otherwise whether it is in the group."""
    if port.device_owner not in INTERFACES:
        raise LoggingTypeNotSupported(log_type=FIREWALL_GROUP, port_id=port.id)
    found = connection.execute(
        sa.select(group_ports.c.firewall_group_id).where(group_ports.c.port_id == port.id)
    ).scalar()
    if found is None and group_id is None:
        raise TargetResourceNotAssociated(target_id=port.id)
    return group_id is None or found == group_id


# --- deletion of what a log is for ------------------------------------------------------------------------------------


def delete_of_group(tx: Transaction, group_id: str) -> None:
    """Delete the logs of a security group that is deleted."""
    _delete(tx, logs.c.resource_id == group_id)


def delete_of_firewall_group(tx: Transaction, group_id: str) -> None:
    """The same for a firewall group."""
    _delete(tx, logs.c.firewall_group_id == group_id)


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """Delete the logs of a port that is deleted."""
    if before is None or after is not None:
        return None
    return lambda tx: delete_of_port(tx, before["id"])


def delete_of_port(tx: Transaction, port_id: str) -> None:
    _delete(tx, logs.c.target_id == port_id)


def _delete(tx: Transaction, condition: sa.ColumnElement[bool]) -> None:
    columns = (logs.c.id, logs.c.project_id, logs.c.resource_type, logs.c.target_id)
    rows = tx.execute(sa.select(*columns).where(condition)).all()
    of_firewalls = [row for row in rows if row.resource_type == FIREWALL_GROUP]
    if of_firewalls:
        _changes_firewall_groups(tx, condition, {row.target_id for row in of_firewalls if row.target_id is not None})
    tx.write(sa.delete(logs).where(condition))
    for row in rows:
        tx.log(logs, {"id": row.id, "project_id": row.project_id}, deleted=True)


def _changes_firewall_groups(tx: Transaction, condition: sa.ColumnElement[bool], ports: Iterable[str]) -> None:
    """Log the firewall groups that have these logs as a part: once the logs are deleted, they cannot be found.

    `ports`: those that the logs are for. A port may join another group at the same time, whose hosts would keep the log.
    That transaction locks the port's row by its foreign key: it is waited for here, and its group found, or it waits, and
    the group is read without the log. Groups that are created meanwhile are found by the feed (`feed.groups_of_logs`).
    """
    if locked := sorted(ports):
        tx.execute(sa.select(t.ports.c.id).where(t.ports.c.id.in_(locked)).order_by(t.ports.c.id).with_for_update())
        tx.exclude_other_nodes(t.ports.c.status, locked)
    concerned = sa.select(firewall_groups.c.id).select_from(firewall_groups.join(logs, CONCERNS)).where(condition)
    for group_id in tx.execute(concerned).scalars():
        tx.record("firewall_group", group_id)
