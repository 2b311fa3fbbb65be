"""Firewall groups: the API. A group has a policy for each direction and the ports that these apply to.

A port, of an instance or the interface of a router, is in one group at most: its primary key in `group_ports`
decides between two requests. Deleting a port removes it from its group by that table's foreign key.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall import errors
from neutrino.features.firewall.checks import PENDING_CREATE, PENDING_UPDATE, POLICIES, is_enforced, shown_status
from neutrino.features.firewall.default_groups import DEFAULT_NAME, DefaultGroups, delete_default_policies
from neutrino.features.firewall.rules import FirewallCollection
from neutrino.features.firewall.tables import firewall_groups, firewall_policies, group_ports
from neutrino.features.firewall.views import GROUPS, MAX_PARAMETERS, visible_rows
from neutrino.model.device_owners import INTERFACES
from neutrino.model.objects import Object
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context
from neutrino.server.db.objects import exists, fresh
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.transaction import Transaction
from neutrino.server.errors import PortNotFound
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.views import PORTS
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas
from neutrino.server.uses import GroupDeletion

TYPE = "Firewall Group"  # in messages
# Ports of other VIF types never pass the switch that filters them.
SUPPORTED_VIFS = (VIF_UNBOUND, VIF_FAILED, "ovs", "vhostuser")
_PORT_FIELDS = ("id", "project_id", "device_owner", "binding:vif_type", "binding:vnic_type")


class FirewallGroups(FirewallCollection):
    needed = ("is_default",)

    def __init__(
        self, db: Database, quotas: Quotas, defaults: DefaultGroups, deletions: Sequence[GroupDeletion] = ()
    ) -> None:
        """`deletions`: of objects of other features that are deleted with a group."""
        super().__init__(db, GROUPS, quotas, defaults.ensure)
        self._deletions = tuple(deletions)
        self._defaults = defaults

    def new(self, context: Context, values: Object) -> Object:
        return fresh({**values, "ports": sorted(values["ports"]), "status": PENDING_CREATE, "is_default": False})

    def changed(self, context: Context, before: Object, values: Object) -> Object:
        _check_name(values)
        if before["is_default"]:
            _check_default_update(context, before, values)
        after = {**before, **values}
        after["ports"] = sorted(after["ports"])
        if any(after[name] != before[name] for name in ("ports", "admin_state_up", *POLICIES)):
            after["status"] = PENDING_UPDATE
        return after

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for group in objects:
            _check_policies(connection, context, group, POLICIES)
            _check_ports(connection, context, group, group["ports"])
            _check_name(group)
        _refuse_repeated(objects)
        # As in Neutron, the first group of a project comes with its default group. In its own transaction, because it stays
        # even if this request fails.
        for project in sorted({group["project_id"] for group in objects}):
            self._defaults.ensure(project)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        _check_policies(connection, context, after, [name for name in POLICIES if after[name] != before[name]])
        _check_ports(connection, context, before, _missing_in(before, after))

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if before["ports"]:
            raise errors.FirewallGroupInUse(id=before["id"])
        if before["is_default"] and not context.is_admin:
            raise errors.FirewallGroupCannotRemoveDefault()

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is None:
            assert before is not None
            _refuse_new_ports(tx, before["id"])
            for delete in self._deletions:
                delete(tx, before["id"])
            return
        if before is not None:
            _remove_ports(tx, before["id"], _missing_in(after, before))
            if is_enforced(before) != is_enforced(after):  # ports that stay are filtered from now on, or no longer
                log_ports(tx, after["ports"])
        add_ports(tx, after["id"], after["ports"] if before is None else _missing_in(before, after))
        after["status"] = shown_status(after, bool(after["ports"]))

    def delete_row(self, tx: Transaction, before: Object) -> None:
        super().delete_row(tx, before)
        if before["is_default"]:
            delete_default_policies(tx, before)


def _missing_in(group: Object, other: Object) -> list[str]:
    """The ports of the other form of a group that this one does not have."""
    return [port for port in other["ports"] if port not in group["ports"]]


def _refuse_new_ports(tx: Transaction, key: str) -> None:
    """Stale if the group has got a port since: its foreign key would remove it from the group, and no host would learn it.

    The revision does not tell, because automatic association keeps it. With the group's row locked, another transaction
    cannot add a port: it waits, and fails on the foreign key. SQLite has no row locks, and one writer at a time.
    """
    tx.execute(sa.select(firewall_groups.c.id).where(firewall_groups.c.id == key).with_for_update())
    if exists(tx.connection, group_ports.c.firewall_group_id == key):
        raise Stale


def _shown(group: Object) -> Object:
    return {**group, "status": shown_status(group, bool(group["ports"]))}


# --- ports of a group -------------------------------------------------------------------------------------------------


def add_ports(tx: Transaction, group_id: str, ports: Sequence[str]) -> None:
    tx.insert(group_ports, [{"port_id": port, "firewall_group_id": group_id} for port in ports])
    log_ports(tx, ports)


def _remove_ports(tx: Transaction, group_id: str, ports: Sequence[str]) -> None:
    for start in range(0, len(ports), MAX_PARAMETERS):
        some = ports[start : start + MAX_PARAMETERS]
        tx.write(
            sa.delete(group_ports).where(group_ports.c.firewall_group_id == group_id, group_ports.c.port_id.in_(some))
        )
    log_ports(tx, ports)


def log_ports(tx: Transaction, ports: Iterable[str]) -> None:
    """Log ports whose group changes; the feed derives their routers."""
    for port in ports:
        tx.record("port", port)


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_name(values: Object) -> None:
    if values.get("name") == DEFAULT_NAME:
        raise errors.FirewallDefaultParameterExists(name=DEFAULT_NAME, resource_type=TYPE)


def _check_default_update(context: Context, before: Object, values: Object) -> None:
    """The owner of a default group changes only its ports; an administrator all but its name."""
    fixed = ("name",) if context.is_admin else ("name", "description", "admin_state_up", *POLICIES)
    if any(name in values for name in fixed):
        raise errors.FirewallDefaultObjectUpdateRestricted(resource_id=before["id"], resource_type=TYPE)


def _check_policies(connection: Connection, context: Context, group: Object, names: Iterable[str]) -> None:
    ids = [group[name] for name in names if group[name] is not None]
    found = visible_rows(connection, context, firewall_policies, ids, errors.FirewallPolicyNotFound)
    for policy in found.values():
        if not policy.shared and policy.project_id != group["project_id"]:
            raise errors.FirewallPolicyConflict(id=policy.id)


def _check_ports(connection: Connection, context: Context, group: Object, ports: Sequence[str]) -> None:
    """Refuse ports that the caller may not see, of another project, of a wrong kind, or of another group."""
    if not ports:
        return
    asked = Query({"id": tuple(ports)}, fields=_PORT_FIELDS, everyone=context.is_admin)
    found = {port["id"]: port for port in PORTS.many(connection, asked, context.project_id)}
    for key in ports:
        if key not in found:
            raise PortNotFound(id=key)
        _check_port(found[key], group["project_id"])
    taken = sa.select(group_ports.c.port_id).where(
        group_ports.c.port_id.in_(ports), group_ports.c.firewall_group_id != group["id"]
    )
    in_use = sorted(connection.execute(taken).scalars())
    if in_use:
        raise errors.FirewallGroupPortInUse(port_ids=", ".join(in_use))


def _check_port(port: Object, project_id: str) -> None:
    if port["project_id"] != project_id:
        raise errors.FirewallGroupPortInvalidProject(port_id=port["id"], project_id=port["project_id"])
    if port["device_owner"] in INTERFACES:
        return
    if not port["device_owner"].startswith(COMPUTE_OWNER):
        raise errors.FirewallGroupPortInvalid(port_id=port["id"])
    if unsupported := _unsupported(port):
        raise errors.FirewallGroupPortNotSupported(port_id=port["id"], what=unsupported, value=port[unsupported])


def is_supported(port: Object) -> bool:
    """Whether the traffic of an instance's port passes the switch, which filters it."""
    return not _unsupported(port)


def _unsupported(port: Object) -> str:
    """The attribute by which a port of an instance cannot be filtered, or an empty text."""
    known = {"binding:vif_type": SUPPORTED_VIFS, "binding:vnic_type": ("normal",)}
    return next((name for name, supported in known.items() if port[name] not in supported), "")


def _refuse_repeated(groups: Sequence[Object]) -> None:
    """Refuse a bulk request with a port in two of its groups."""
    times = Counter(port for group in groups for port in group["ports"])
    repeated = sorted(port for port, number in times.items() if number > 1)
    if repeated:
        raise errors.FirewallGroupPortInUse(port_ids=", ".join(repeated))
