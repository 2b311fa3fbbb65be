"""The use of QoS policies by networks, ports, floating IPs and router gateways: who may set one, and where it works.

Without a policy none of these checks reads anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, scalar
from neutrino.server.db.view import shareable_view
from neutrino.server.qos.support import RuleSupport

Rules = Sequence[Mapping[str, Any]]
VIEW = shareable_view(t.qos_policies, errors.QosPolicyNotFound)
_p, _n, _d = t.ports.c, t.networks.c, t.default_qos_policies.c
DEFAULT_POLICY = Lookup(
    sa.select(_d.qos_policy_id).where(_d.project_id == sa.bindparam("project", type_=sa.String)), scalar
)
# The columns with the policy of an object, by the object's type.
USERS: Mapping[str, sa.Column[Any]] = {
    "port": _p.qos_policy_id,
    "network": _n.qos_policy_id,
    "fip": t.floatingips.c.qos_policy_id,
    "router": t.routers.c.gw_qos_policy_id,
}


def check_policy(connection: Connection, context: Context, new: str | None, old: str | None = None) -> Rules:
    """The rules of the policy that a request sets instead of the old one; none if it stays the same.

    Both must be visible to the caller: a policy that an administrator has set, and not shared, can be neither replaced nor
    cleared. It lasts as long as the object: a port or gateway that the project deletes and creates again has none.
    """
    if new == old:
        return ()
    who = context.project_id, context.is_admin
    if old is not None and VIEW.show(connection, old, project=who[0], everyone=who[1], fields=("id",)) is None:
        raise errors.PolicyRemoveAuthorizationError(policy_id=old)
    if new is None:
        return ()
    rules: Rules = VIEW.get(connection, new, who[0], everyone=who[1])["rules"]
    return rules


def check_unused(connection: Connection, policy_id: str) -> None:
    for kind, column in USERS.items():
        user = connection.execute(sa.select(column.table.c.id).where(column == policy_id).limit(1)).scalar()
        if user is not None:
            raise errors.QosPolicyInUse(policy_id=policy_id, object_type=kind, object_id=user)


@dataclass(frozen=True)
class PolicyUse:
    """Checks of policies on ports, by what the mechanism drivers support."""

    support: RuleSupport

    def check_new_ports(self, connection: Connection, context: Context, ports: Iterable[Values]) -> None:
        """Check the policies of new ports, their own or their network's; each policy is read once."""
        known: dict[tuple[str | None, str | None], Rules] = {}
        for port in ports:
            own, inherited = key = port["qos_policy_id"], port["qos_network_policy_id"]
            if key not in known:
                known[key] = check_policy(connection, context, own) if own else _rules_of(connection, inherited)
            self._check_port(port, known[key])

    def check_port_update(self, connection: Connection, context: Context, before: Values, after: Values) -> None:
        self._check_port(after, check_policy(connection, context, after["qos_policy_id"], before["qos_policy_id"]))

    def check_network_update(
        self, connection: Connection, context: Context, before: Values, policy: str | None
    ) -> None:
        """Every port without a policy of its own gets that of its network."""
        rules = check_policy(connection, context, policy, before["qos_policy_id"])
        if rules:
            self._check_ports(connection, rules, _p.network_id == before["id"], _p.qos_policy_id.is_(None))

    def check_ports(self, connection: Connection, policy_id: str, rules: Rules) -> None:
        """Refuse rules of a policy that a port with this policy, its own or its network's, does not support."""
        for conditions in _with_policy(policy_id):
            self._check_ports(connection, rules, *conditions)

    def _check_port(self, port: Values, rules: Rules) -> None:
        if rules:
            self.support.check_port(port["id"], port["binding:vnic_type"], port["binding:vif_type"], rules)

    def _check_ports(self, connection: Connection, rules: Rules, *conditions: sa.ColumnElement[bool]) -> None:
        # One row for all ports of a kind, however many there are.
        kinds = sa.select(sa.func.min(_p.id), _p.vnic_type, _p.vif_type).group_by(_p.vnic_type, _p.vif_type)
        for port_id, vnic_type, vif_type in connection.execute(kinds.where(*conditions)):
            self.support.check_port(port_id, vnic_type, vif_type, rules)


def _rules_of(connection: Connection, policy_id: str | None) -> Rules:
    """The rules of a policy that is in use, whoever owns it."""
    if policy_id is None:
        return ()
    rules: Rules = VIEW.get(connection, policy_id)["rules"]
    return rules


def check_not_placed(connection: Connection, policy_id: str) -> None:
    """Refuse to change a minimum that Placement has allocated for an instance's port."""
    for conditions in _with_policy(policy_id):
        placed = sa.select(_p.id).where(*conditions, _p.device_owner.startswith(COMPUTE_OWNER)).limit(1)
        port_id = connection.execute(placed).scalar()
        if port_id is not None:
            raise errors.QosRuleTrackedInPlacement(policy_id=policy_id, port_id=port_id)


def _with_policy(policy_id: str) -> Iterable[tuple[sa.ColumnElement[bool], ...]]:
    """The conditions of ports with a policy: those of their own, then those of their network's.

    One query for each: for both together databases look up `qos_policy_id = … OR qos_policy_id IS NULL`, nearly all ports.
    """
    networks = sa.select(_n.id).where(_n.qos_policy_id == policy_id)
    # An expression, for which no index can be used: SQLite would prefer that of IS NULL to that of the networks.
    has_none = sa.func.coalesce(_p.qos_policy_id, "") == ""
    return (_p.qos_policy_id == policy_id,), (has_none, _p.network_id.in_(networks))
