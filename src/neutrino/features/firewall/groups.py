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
from neutrino.features.firewall.tables import firewall_groups, firewall_policies, group_ports
from neutrino.features.firewall.views import GROUPS, MAX_PARAMETERS, ports_of, visible_rows
from neutrino.model.device_owners import INTERFACES
from neutrino.model.objects import Object
from neutrino.server.access import sharing
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.collection import Listing
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, exists, fresh, update_row
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.errors import PortNotFound
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.views import PORTS
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

KIND = "firewall_group"
TYPE = "Firewall Group"  # in messages
# Ports of other VIF types never pass the switch that filters them.
SUPPORTED_VIFS = (VIF_UNBOUND, VIF_FAILED, "ovs", "vhostuser")
_PORT_FIELDS = ("id", "project_id", "device_owner", "binding:vif_type", "binding:vnic_type")


class FirewallGroups(Listing):
    def __init__(self, db: Database, quotas: Quotas, defaults: DefaultGroups) -> None:
        super().__init__(db, GROUPS)
        self._quotas = quotas
        self._defaults = defaults

    def index(self, context: Context, query: Query) -> list[Object]:
        self._defaults.ensure_for_list(context, query)
        return super().index(context, query)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        made = [fresh({**item, "ports": sorted(item["ports"]), "status": PENDING_CREATE}) for item in items]
        with self.db.read() as connection:
            for group in made:
                _check_policies(connection, context, group, POLICIES)
                _check_ports(connection, context, group, group["ports"])
                _check_name(group)
            _refuse_repeated(made)
            limits = self._quotas.limits(connection, KIND, made)
        # As in Neutron, the first group of a project comes with its default group. In its own transaction, because it stays
        # even if this request fails.
        for project in sorted({group["project_id"] for group in made}):
            self._defaults.ensure(project)
        with self.db.transaction() as tx:
            rows = [as_row(firewall_groups, {**group, "is_default": False}) for group in made]
            tx.insert(firewall_groups, rows, limits)
            for group in made:
                add_ports(tx, group["id"], group["ports"])
        return [_shown(group) for group in made]

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = GROUPS.get(connection, key, revision=revision, more=("is_default",))
            before["ports"] = ports_of(connection, key)
            _check_policies(connection, context, {**before, **values}, [name for name in POLICIES if name in values])
            wanted = sorted(values["ports"] if "ports" in values else before["ports"])
            added = [port for port in wanted if port not in before["ports"]]
            _check_ports(connection, context, before, added)
            _check_name(values)
        if before["is_default"]:
            _check_default_update(context, before, values)
        after = {**before, **values, "ports": wanted}
        row = {name: value for name, value in values.items() if name != "ports"}
        if any(after[name] != before[name] for name in ("ports", "admin_state_up", *POLICIES)):
            row["status"] = after["status"] = PENDING_UPDATE
        removed = [port for port in before["ports"] if port not in wanted]
        with self.db.transaction() as tx:
            stamp = update_row(tx, firewall_groups, before, row)
            _remove_ports(tx, key, removed)
            add_ports(tx, key, added)
            if is_enforced(before) != is_enforced(after):  # the ports that stay are filtered from now on, or no longer
                log_ports(tx, wanted)
        return _shown({**after, **stamp})

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = GROUPS.get(connection, key, revision=revision, more=("is_default",))
            if ports_of(connection, key):
                raise errors.FirewallGroupInUse(id=key)
        if before["is_default"] and not context.is_admin:
            raise errors.FirewallGroupCannotRemoveDefault()
        with self.db.transaction() as tx:
            _refuse_new_ports(tx, key)
            sharing.delete_object(tx, firewall_groups, before)
            if before["is_default"]:
                delete_default_policies(tx, before)


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
