"""QoS rules and rule types, as the API shows them.

A rule is a row of its own, for lists, and a part of its policy's row, where the API and the hosts get it from. Both are
written on the condition of the policy's revision: concurrent requests cannot add rules that contradict each other, and
a rule is one change of one object for the hosts, however many ports have the policy.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from neutrino.features.qos.errors import QosPolicyNotFound, QosRuleNotFound
from neutrino.features.qos.resources import QOS_RULES, RULE_PARAMETERS
from neutrino.features.qos.rule_checks import PLACED, check_rule
from neutrino.features.qos.support import RuleSupport
from neutrino.features.qos.tables import qos_policies, qos_rules
from neutrino.features.qos.use import VIEW as POLICIES
from neutrino.features.qos.use import check_not_placed, check_ports
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import ChildCollection
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, new_id, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.query import Query

_OWNER = sa.select(qos_policies.c.project_id).where(qos_policies.c.id == qos_rules.c.qos_policy_id).scalar_subquery()
_IN_POLICY_ALONE = ("qos_policy_id", "type")


class Rules(ChildCollection):
    """The rules of one type, below their policies."""

    def __init__(self, db: Database, type_: str, support: RuleSupport) -> None:
        view = View(
            qos_rules,
            columns=("id", "qos_policy_id", *RULE_PARAMETERS[type_]),
            computed={"ext_parent:project_id": _OWNER},
            scope=sa.true(),  # the caller has to see the policy
            hidden=("ext_parent:project_id", "qos_policy_id"),
        )
        super().__init__(db, view, qos_rules.c.qos_policy_id, POLICIES)
        self._type, self._support = type_, support

    def target(self, context: Context, parent_id: str, values: Object | None = None) -> Object:
        """The owner of the policy. As in Neutron, adding a rule to a policy of others is forbidden (403), not hidden."""
        if values is None:
            return super().target(context, parent_id)
        with self.db.read() as connection:
            return {"ext_parent:project_id": POLICIES.get(connection, parent_id)["project_id"]}

    def index(self, context: Context, policy_id: str, query: Query) -> list[Object]:
        mine = self._parent == policy_id, qos_rules.c.type == self._type
        with self.db.read() as connection:
            return self._view.many(connection, query, context.project_id, *mine)

    def show(
        self, context: Context, policy_id: str, key: str, fields: Sequence[str] | None, everyone: bool
    ) -> Object | None:
        self.target(context, policy_id)
        asked = Query(fields=None if fields is None else tuple(fields), everyone=True)
        mine = self._parent == policy_id, qos_rules.c.type == self._type, qos_rules.c.id == key
        with self.db.read() as connection:
            rows = self._view.many(connection, asked, None, *mine)
        return rows[0] if rows else None

    def create(self, context: Context, policy_id: str, values: Object) -> Object:
        return self._write(policy_id, None, values)

    def update(self, context: Context, policy_id: str, key: str, values: Object, revision: int | None) -> Object:
        return self._write(policy_id, key, values)

    def delete(self, context: Context, policy_id: str, key: str, revision: int | None) -> None:
        self._write(policy_id, key, None)

    @retried
    def _write(self, policy_id: str, key: str | None, values: Object | None) -> Object:
        """Create (without a key), update, or delete (without values) a rule, in its own row and in the policy's."""
        with self.db.read() as connection:
            policy = POLICIES.get(connection, policy_id)
            rules = {rule["id"]: rule for rule in policy["rules"]}
            before = {} if key is None else _of_type(rules, key, self._type)
            rule = {"id": key or new_id(), **before, **(values or {}), "qos_policy_id": policy_id, "type": self._type}
            if values is not None:
                check_rule(policy_id, policy["rules"], rule)
                check_ports(connection, self._support, policy_id, [rule])
            if self._type in PLACED:
                check_not_placed(connection, policy_id)
        rules.pop(rule["id"], None) if values is None else rules.update({rule["id"]: rule})
        with self.db.transaction() as tx:
            update_row(tx, qos_policies, policy, {"rules": list(rules.values())})
            if values is None:
                tx.write(sa.delete(qos_rules).where(qos_rules.c.id == key))
            elif key is None:
                tx.insert(qos_rules, [as_row(qos_rules, rule)])
            else:
                tx.write(sa.update(qos_rules).where(qos_rules.c.id == key).values(as_row(qos_rules, rule)))
        return {name: value for name, value in rule.items() if name not in _IN_POLICY_ALONE}

    # --- by the rule's id alone -----------------------------------------------------------------------------------

    def policy_of(self, key: str) -> str:
        with self.db.read() as connection:
            found = connection.execute(
                sa.select(qos_rules.c.qos_policy_id).where(qos_rules.c.id == key, qos_rules.c.type == self._type)
            ).scalar()
        if found is None:
            raise QosRuleNotFound(id=key)
        return str(found)


def _of_type(rules: Object, key: str, type_: str) -> Object:
    if key not in rules or rules[key]["type"] != type_:
        raise QosRuleNotFound(id=key)
    found: Object = rules[key]
    return found


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
