"""The use of QoS policies by networks, ports, floating IPs and router gateways: who may set one, and where it works.

Without a policy none of these checks reads anything.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.errors import (
    PolicyRemoveAuthorizationError,
    QosPolicyInUse,
    QosPolicyNotFound,
    QosRuleTrackedInPlacement,
)
from neutrino.features.qos.support import RuleSupport
from neutrino.features.qos.tables import qos_policies
from neutrino.model.objects import Values
from neutrino.server.access.sharing import SHARED, Shareable
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.sql import Column
from neutrino.server.db.view import shareable_view
from neutrino.server.ml2.attributes import Drivers

Rules = Sequence[Values]
VIEW = shareable_view(qos_policies, QosPolicyNotFound)
# What may have a policy, with its name in errors. By the names of tables and columns: some are of another feature.
_HOLDERS = {
    "port": ("ports", "qos_policy_id"),
    "network": ("networks", "qos_policy_id"),
    "fip": ("floatingips", "qos_policy_id"),
    "router": ("routers", "gw_qos_policy_id"),
}


def _columns() -> dict[str, Column]:
    return {kind: t.metadata.tables[table].c[column] for kind, (table, column) in _HOLDERS.items()}


SHAREABLE = Shareable(
    kind="qos_policy",
    table=qos_policies,
    users=lambda: {SHARED: [(column.table.c.project_id, column) for column in _columns().values()]},
    is_strict=True,
)


def check_policy(connection: Connection, context: Context, new: str | None, old: str | None = None) -> Rules:
    """The rules of the policy that a request sets instead of the old one; none if it stays the same.

    Both must be visible to the caller: a policy that an administrator has set, and not shared, can be neither replaced nor
    cleared. It lasts as long as the object: a port or gateway that the project deletes and creates again has none.
    """
    if new == old:
        return ()
    who = context.project_id, context.is_admin
    if old is not None and VIEW.show(connection, old, project=who[0], everyone=who[1], fields=("id",)) is None:
        raise PolicyRemoveAuthorizationError(policy_id=old)
    if new is None:
        return ()
    rules: Rules = VIEW.get(connection, new, who[0], everyone=who[1])["rules"]
    return rules


def check_routed(connection: Connection, context: Context, before: Values, after: Values) -> None:
    """Check the policy of a gateway or floating IP."""
    check_policy(connection, context, after.get("qos_policy_id"), before.get("qos_policy_id"))


def check_unused(connection: Connection, policy_id: str) -> None:
    for kind, column in _columns().items():
        user = connection.execute(sa.select(column.table.c.id).where(column == policy_id).limit(1)).scalar()
        if user is not None:
            raise QosPolicyInUse(policy_id=policy_id, object_type=kind, object_id=user)


# --- by what the mechanism drivers support ----------------------------------------------------------------------------


def check_new_ports(connection: Connection, context: Context, drivers: Drivers, ports: Iterable[Values]) -> None:
    """Check the policies of new ports, their own or their network's; each policy is read once."""
    known: dict[tuple[str | None, str | None], Rules] = {}
    for port in ports:
        own, inherited = key = port["qos_policy_id"], port["qos_network_policy_id"]
        if key not in known:
            known[key] = check_policy(connection, context, own) if own else _rules_of(connection, inherited)
        _check_port(drivers, port, known[key])


def check_port_update(
    connection: Connection, context: Context, drivers: Drivers, before: Values, after: Values
) -> None:
    _check_port(drivers, after, check_policy(connection, context, after["qos_policy_id"], before["qos_policy_id"]))


def check_network_update(
    connection: Connection, context: Context, drivers: Drivers, before: Values, after: Values
) -> None:
    """Every port without a policy of its own gets that of its network."""
    rules = check_policy(connection, context, after["qos_policy_id"], before["qos_policy_id"])
    if rules:
        on_network = t.ports.c.network_id == before["id"], t.ports.c.qos_policy_id.is_(None)
        _check_ports(connection, RuleSupport.of(drivers), rules, *on_network)


def check_ports(connection: Connection, support: RuleSupport, policy_id: str, rules: Rules) -> None:
    """Refuse rules of a policy that a port with this policy, its own or its network's, does not support."""
    for conditions in _with_policy(policy_id):
        _check_ports(connection, support, rules, *conditions)


def _check_port(drivers: Drivers, port: Values, rules: Rules) -> None:
    if rules:
        support = RuleSupport.of(drivers)
        support.check_port(port["id"], port["binding:vnic_type"], port["binding:vif_type"], rules)


def _check_ports(
    connection: Connection, support: RuleSupport, rules: Rules, *conditions: sa.ColumnElement[bool]
) -> None:
    ports = t.ports.c
    # One row for all ports of a kind, however many there are.
    kinds = sa.select(sa.func.min(ports.id), ports.vnic_type, ports.vif_type).group_by(ports.vnic_type, ports.vif_type)
    for port_id, vnic_type, vif_type in connection.execute(kinds.where(*conditions)):
        support.check_port(port_id, vnic_type, vif_type, rules)


def _rules_of(connection: Connection, policy_id: str | None) -> Rules:
    """The rules of a policy in use, of any project."""
    if policy_id is None:
        return ()
    rules: Rules = VIEW.get(connection, policy_id)["rules"]
    return rules


def check_not_placed(connection: Connection, policy_id: str) -> None:
    """Refuse to change a minimum that Placement has allocated for an instance's port."""
    for conditions in _with_policy(policy_id):
        of_instance = t.ports.c.device_owner.startswith(COMPUTE_OWNER)
        port_id = connection.execute(sa.select(t.ports.c.id).where(*conditions, of_instance).limit(1)).scalar()
        if port_id is not None:
            raise QosRuleTrackedInPlacement(policy_id=policy_id, port_id=port_id)


def _with_policy(policy_id: str) -> Iterable[tuple[sa.ColumnElement[bool], ...]]:
    """The conditions of ports with a policy: those of their own, then those of their network's.

    One query for each: for both together databases look up `qos_policy_id = … OR qos_policy_id IS NULL`, nearly all ports.
    """
    networks = sa.select(t.networks.c.id).where(t.networks.c.qos_policy_id == policy_id)
    # An expression, for which no index can be used: SQLite would prefer that of IS NULL to that of the networks.
    has_none = sa.func.coalesce(t.ports.c.qos_policy_id, "") == ""
    return (t.ports.c.qos_policy_id == policy_id,), (has_none, t.ports.c.network_id.in_(networks))
