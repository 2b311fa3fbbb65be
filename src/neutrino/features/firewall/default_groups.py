"""The default firewall group of a project: created on first use, with policies and rules from the configuration.

Of requests that create it at the same time, the primary key of `default_firewall_groups` lets one through; the others retry
and find it. Its objects count against the quotas, but no quota prevents them.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.firewall.checks import PENDING_CREATE, POLICIES
from neutrino.features.firewall.options import DIRECTIONS, RULE_NAMES, DefaultRules
from neutrino.features.firewall.policies import DEFAULT_NAMES, insert_policy_rules, is_used
from neutrino.features.firewall.rules import new_rule
from neutrino.features.firewall.tables import (
    default_groups,
    firewall_groups,
    firewall_policies,
    firewall_rules,
    policy_rules,
)
from neutrino.model.objects import Object
from neutrino.server.access import sharing
from neutrino.server.db.objects import as_row, exists, fresh
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction

DEFAULT_NAME = "default"

_DEFAULT = sa.select(default_groups.c.firewall_group_id).where(
    default_groups.c.project_id == sa.bindparam("project", type_=sa.String)
)


@dataclass(frozen=True)
class DefaultGroups:
    db: Database
    rules: DefaultRules

    @retried
    def ensure(self, project_id: str) -> str:
        """The id of the project's default group, created if it does not exist."""
        with self.db.read() as connection:
            found = connection.execute(_DEFAULT, {"project": project_id}).scalar()
        if found is not None:
            return str(found)
        with self.db.transaction() as tx:
            return self._insert(tx, project_id)

    def _insert(self, tx: Transaction, project_id: str) -> str:
        policies = {}
        for direction in DIRECTIONS:
            rules = [new_rule({**self.rules[direction, version], "project_id": project_id}) for version in (4, 6)]
            tx.insert(firewall_rules, [as_row(firewall_rules, rule) for rule in rules], limits={})
            ids = [rule["id"] for rule in rules]
            policy = fresh(
                {
                    "project_id": project_id,
                    "name": f"default {direction}",
                    "description": f"{direction.capitalize()} firewall policy",
                    "shared": False,
                    "audited": False,
                    "firewall_rules": ids,
                }
            )
            tx.insert(firewall_policies, [as_row(firewall_policies, policy)], limits={})
            insert_policy_rules(tx, policy["id"], ids)
            policies[f"{direction}_firewall_policy_id"] = policy["id"]
        group = fresh(
            {
                "project_id": project_id,
                "name": DEFAULT_NAME,
                "description": "Default firewall group",
                "admin_state_up": True,
                "shared": False,
                "is_default": True,
                "status": PENDING_CREATE,
                **policies,
            }
        )
        tx.insert(firewall_groups, [as_row(firewall_groups, group)], limits={})
        tx.insert(default_groups, [{"project_id": project_id, "firewall_group_id": group["id"]}])
        return str(group["id"])


def delete_default_policies(tx: Transaction, group: Object) -> None:
    """Delete the policies that were made for a deleted default group, if no other group has them, with their own rules.

    Policies that an administrator has given to the group instead stay.
    """
    for policy_id in {group[name] for name in POLICIES if group[name] is not None}:
        policy = tx.execute(sa.select(firewall_policies).where(firewall_policies.c.id == policy_id)).one()
        if policy.name not in DEFAULT_NAMES or exists(tx.connection, is_used(policy_id)):
            continue
        # Of the same project: a shared rule of another one may have such a name too.
        made = firewall_rules.c.name.in_(RULE_NAMES), firewall_rules.c.project_id == policy.project_id
        of_policy = policy_rules.c.firewall_policy_id == policy_id
        having = sa.select(firewall_rules).join(policy_rules, policy_rules.c.firewall_rule_id == firewall_rules.c.id)
        rules = tx.execute(having.where(*made, of_policy)).all()
        sharing.delete_object(tx, firewall_policies, policy._asdict())
        for rule in rules:
            if not exists(tx.connection, policy_rules.c.firewall_rule_id == rule.id):
                sharing.delete_object(tx, firewall_rules, rule._asdict())
