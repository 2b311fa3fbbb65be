"""Security group rules: the API, and rules that are written together with their group.

A change of a rule is a change of its group: it increments the group's revision and is logged for the group. The revision is
incremented without a condition on the one that was read, because rules added at the same time do not conflict; equal rules
fail on the unique constraint. Every transaction updates the group's row before its rules, so that writers wait for each
other instead of deadlocking.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import DefaultedCollection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.changed_values import NOTHING
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.checks import Rule, check_bulk, refuse_repeated
from neutrino.server.securitygroups.views import MAX_PARAMETERS, RULES, check_references
from neutrino.server.uses import RuleRemote

Pair = tuple[Rule, Object]  # a rule, and its API object
KIND, QUOTA = "security_group", "security_group_rule"
# Not asdict(): it copies every value deeply, which took a twentieth of the time to create a group.
_RULE_VALUES = tuple(field.name for field in fields(Rule))

_g, _r, _tags = t.security_groups.c, t.security_group_rules.c, t.tags.c
_KEY = sa.bindparam("key", type_=sa.String)
_RAISE_REVISION = (
    sa.update(t.security_groups)
    .where(_g.id == _KEY)
    .values(revision_number=_g.revision_number + 1, updated_at=sa.bindparam("at", type_=sa.String))
)
_GROUP = sa.select(_g.project_id, _g.is_default).where(_g.id == _KEY)
_EQUAL = sa.select(_r.id).where(
    _r.security_group_id == _KEY, _r.identity.in_(sa.bindparam("identities", expanding=True, type_=sa.String))
)
_DELETE = sa.delete(t.security_group_rules).where(_r.id == _KEY)
_UNTAG = sa.delete(t.tags).where(_tags.object_id == _KEY)
_TOUCHES = sa.or_(_r.security_group_id == _KEY, _r.remote_group_id == _KEY)
_TOUCHING = sa.select(_r.id, _r.project_id, _r.security_group_id).where(_TOUCHES)
_UNTAG_TOUCHING = sa.delete(t.tags).where(_tags.object_id.in_(sa.select(_r.id).where(_TOUCHES)))
_DELETE_TOUCHING = sa.delete(t.security_group_rules).where(_TOUCHES)


_GROUP_REMOTE = RuleRemote(lambda rule: rule.remote_group_id, _g.id, errors.SecurityGroupNotFound)


class SecurityGroupRules(DefaultedCollection):
    def __init__(
        self,
        db: Database,
        quotas: Quotas,
        remotes: Sequence[RuleRemote],
        ensure_default: Callable[[str], object],
    ) -> None:
        super().__init__(db, RULES, quotas, ensure_default)
        self._limits = quotas.limits
        self._remotes = [_GROUP_REMOTE, *remotes]

    def target(self, context: Context, values: Object) -> Object:
        """The owner of the rule's group, on whom the policy of its rules depends."""
        with self.db.read() as connection:
            return {"security_group:project_id": _find_group(connection, values["security_group_id"]).project_id}

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        rules = check_bulk(items)
        group_id, project_id = items[0]["security_group_id"], items[0]["project_id"]
        with self.db.read() as connection:
            for remote in self._remotes:
                _check_remote(connection, context, remote, rules, project_id)
            in_default = _find_group(connection, group_id).is_default
            refuse_repeated(rules)
            _refuse_existing(connection, group_id, rules)
            limits = self._limits(connection, QUOTA, items)
        made = [
            rule_object(rule, group_id, project_id, item.get("description", ""), in_default)
            for rule, item in zip(rules, items, strict=True)
        ]
        with self.db.transaction() as tx:
            raise_revision(tx, group_id, added=made)
            insert_rules(tx, zip(rules, made, strict=True), limits)
        return made

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        """A rule is immutable: its identity prevents duplicates. Only an update to its own values is accepted."""
        with self.db.read() as connection:
            rule = RULES.get(connection, key, context.project_id)
        if any(rule.get(name) != value for name, value in values.items()):
            raise errors.HTTPBadRequest("A security group rule cannot be changed: delete it and create another.")
        return rule

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            rule = RULES.get(connection, key, revision=revision)
        with self.db.transaction() as tx:
            raise_revision(tx, rule["security_group_id"], removed=[rule])
            tx.change(_DELETE, {"key": key})
            tx.write(_UNTAG, {"key": key})
            tx.use(QUOTA, rule["project_id"], -1)
            tx.log(t.security_group_rules, rule, deleted=True)


# --- parts of other transactions --------------------------------------------------------------------------------------


def rule_object(rule: Rule, group_id: str, project_id: str, description: str | None, in_default: bool) -> Object:
    """A new rule as the API shows it."""
    return fresh(
        {
            "project_id": project_id,
            "security_group_id": group_id,
            **{name: getattr(rule, name) for name in _RULE_VALUES},
            "belongs_to_default_sg": in_default,
            "description": description,
        },
        revision=0,
    )


def insert_rules(tx: Transaction, pairs: Iterable[Pair], limits: Mapping[str, int]) -> None:
    rows = [{**as_row(t.security_group_rules, made), "identity": rule.identity} for rule, made in pairs]
    tx.insert(t.security_group_rules, rows, limits)


def raise_revision(
    tx: Transaction, group_id: str, removed: Sequence[Object] = (), added: Sequence[Object] = ()
) -> None:
    """Increment the group's revision for a change of its rules, and log it for the hosts.

    The history of the group has the rules that were removed and added, not all that it has.
    """
    rules = [[{name: rule[name] for name in ("id", *_RULE_VALUES)} for rule in some] for some in (removed, added)]
    changed = {"security_group_rules": (rules[0], rules[1])} if rules != [[], []] else NOTHING
    tx.change(_RAISE_REVISION, {"key": group_id, "at": now()})
    tx.record(KIND, group_id, changed=changed)


def remove_rules_touching(tx: Transaction, group_id: str) -> None:
    """Delete the rules of a group that is deleted, and those of other groups that refer to it."""
    touching = tx.execute(_TOUCHING, {"key": group_id}).all()
    for other in sorted({row.security_group_id for row in touching} - {group_id}):
        raise_revision(tx, other)
    tx.write(_UNTAG_TOUCHING, {"key": group_id})
    # Stale if a rule was added since: its quota and its group's revision would be missed.
    tx.change(_DELETE_TOUCHING, {"key": group_id}, rows=len(touching))
    for row in touching:
        tx.log(t.security_group_rules, row._asdict(), deleted=True)
    for project_id, count in Counter(row.project_id for row in touching).items():
        tx.use(QUOTA, project_id, -count)


# --- checks -----------------------------------------------------------------------------------------------------------


def _find_group(connection: Connection, group_id: str) -> NamedRow:
    found = connection.execute(_GROUP, {"key": group_id}).first()
    if found is None:
        raise errors.SecurityGroupNotFound(id=group_id)
    return found


def _check_remote(
    connection: Connection, context: Context, remote: RuleRemote, rules: Sequence[Rule], project_id: str
) -> None:
    keys = [key for rule in rules if (key := remote.of(rule)) is not None]
    check_references(connection, context, keys, project_id, remote.not_found, remote.column)


def _refuse_existing(connection: Connection, group_id: str, rules: Sequence[Rule]) -> None:
    identities = [rule.identity for rule in rules]
    for start in range(0, len(identities), MAX_PARAMETERS):
        some = identities[start : start + MAX_PARAMETERS]
        found = connection.execute(_EQUAL, {"key": group_id, "identities": some}).first()
        if found is not None:
            raise errors.SecurityGroupRuleExists(rule_id=found[0])
