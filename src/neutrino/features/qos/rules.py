"""QoS rules and rule types, as the API shows them.

A rule is a row of its own, for lists, and a part of its policy's row, where the API and the hosts get it from. Both are
written on the condition of the policy's revision: concurrent requests cannot add rules that contradict each other, and
a rule is one change of one object for the hosts, however many ports have the policy.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.errors import QosPolicyNotFound, QosRuleNotFound
from neutrino.features.qos.resources import QOS_RULES, RULE_PARAMETERS
from neutrino.features.qos.rule_checks import PLACED, check_rule
from neutrino.features.qos.support import RuleSupport
from neutrino.features.qos.tables import qos_policies, qos_rules
from neutrino.features.qos.use import VIEW as POLICIES
from neutrino.features.qos.use import check_not_placed, check_ports
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import ChildCollection, child_view
from neutrino.server.context import Context
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.query import Query


class Rules(ChildCollection):
    """The rules of one type, below their policies."""

    def __init__(self, db: Database, type_: str, support: RuleSupport) -> None:
        columns = ("id", "qos_policy_id", *RULE_PARAMETERS[type_])
        of_type = qos_rules.c.type == type_
        parent = qos_rules.c.qos_policy_id
        view = child_view(parent, qos_policies, QosRuleNotFound, columns=columns, only=of_type)
        super().__init__(db, view, parent, POLICIES)
        self._type, self._support = type_, support

    def target(self, context: Context, parent_id: str, values: Object | None = None) -> Object:
        """The owner of the policy. As in Neutron, adding a rule to a policy of others is forbidden (403), not hidden."""
        if values is None:
            return super().target(context, parent_id)
        with self.db.read() as connection:
            return {"ext_parent:project_id": POLICIES.get(connection, parent_id)["project_id"]}

    def changed(self, before: Object | None, values: Object) -> Object:
        return {**super().changed(before, values), "type": self._type}

    def check(
        self, connection: Connection, context: Context, parent: Object, before: Object | None, after: Object | None
    ) -> None:
        if after is not None:
            check_rule(parent["id"], parent["rules"], after)
            check_ports(connection, self._support, parent["id"], [after])
        if self._type in PLACED:
            check_not_placed(connection, parent["id"])

    def also_write(self, tx: Transaction, parent: Object, before: Object | None, after: Object | None) -> None:
        rules = {rule["id"]: rule for rule in parent["rules"]}
        if before is not None:
            rules.pop(before["id"], None)
        if after is not None:
            rules[after["id"]] = {**after, "qos_policy_id": parent["id"]}
        update_row(tx, qos_policies, parent, {"rules": list(rules.values())})

    # --- by the rule's id alone -----------------------------------------------------------------------------------

    def policy_of(self, key: str) -> str:
        with self.db.read() as connection:
            found = connection.execute(
                sa.select(qos_rules.c.qos_policy_id).where(qos_rules.c.id == key, qos_rules.c.type == self._type)
            ).scalar()
        if found is None:
            raise QosRuleNotFound(id=key)
        return str(found)


class RuleAliases:
    """The rules of one type, without their policies."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        try:
            return self._rules.show(context, self._rules.policy_of(key), key, fields, everyone)
        except QosPolicyNotFound:  # of another project: the rule does not exist for the caller
            return None

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        return self._rules.update(context, self._rules.policy_of(key), key, values, revision)

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        self._rules.delete(context, self._rules.policy_of(key), key, revision)


def _page(types: Sequence[str], query: Query) -> Sequence[str]:
    """One page of a list: after the marker or, in reverse, before it. After an unknown marker it is empty."""
    if query.marker is not None and query.marker not in types:
        return ()
    at = None if query.marker is None else types.index(query.marker)
    if query.reverse:
        before = types[:at]
        return before if query.limit is None else before[-query.limit :]
    after = types if at is None else types[at + 1 :]
    return after[: query.limit]


class RuleTypes:
    def __init__(self, support: RuleSupport) -> None:
        self._support = support

    def index(self, context: Context, query: Query) -> list[Object]:
        wanted = {name: True in values for name, values in query.filters.items()}
        return [{"type": type_} for type_ in _page(self._support.types(**wanted), query)]

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        if not context.is_admin:  # as in Neutron, details of drivers are for administrators
            raise errors.NotAuthorized()
        if key not in QOS_RULES:
            return None
        shown: Object = {"type": key, "drivers": self._support.details(key)}
        return shown if fields is None else {name: value for name, value in shown.items() if name in fields}
