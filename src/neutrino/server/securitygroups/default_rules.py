"""Templates of rules: what a new security group starts with.

A template is used for the default groups of projects, for all other groups, or for both. Groups that exist already keep the
rules that they have. The unique columns `in_default` and `in_others` hold the identity of the rule where a template is used
there, so that no new group gets a rule twice.
"""

from collections.abc import Sequence
from functools import cache

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.default_security_group import DEFAULT_SECURITY_GROUP_RULE, PARENT_GROUP
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists, new_id
from neutrino.server.db.session import Database
from neutrino.server.db.sql import Selection
from neutrino.server.db.view import View
from neutrino.server.securitygroups.checks import Rule, check_rule
from neutrino.server.uses import RuleRemote

_MATCH = ("direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
_REMOTE = ("remote_group_id", "remote_address_group_id")
# Templates belong to no project: everybody who may read them reads all.
VIEW = View(
    t.default_security_group_rules,
    scope=sa.true(),
    hidden=("in_default", "in_others"),
    not_found=errors.DefaultSecurityGroupRuleNotFound,
)


@cache
def _templates(default: bool) -> Selection:
    # A template may outlive the group that it names: a rule for that group would be refused.
    known = sa.or_(
        t.default_security_group_rules.c.remote_group_id.is_(None),
        t.default_security_group_rules.c.remote_group_id == PARENT_GROUP,
        t.default_security_group_rules.c.remote_group_id.in_(_GROUPS),
    )
    used = (
        t.default_security_group_rules.c.used_in_default_sg
        if default
        else t.default_security_group_rules.c.used_in_non_default_sg
    )
    statement = sa.select(*(t.default_security_group_rules.c[name] for name in (*_MATCH, *_REMOTE))).where(
        used.is_(True), known
    )
    return statement.order_by(
        t.default_security_group_rules.c.direction,
        t.default_security_group_rules.c.ethertype,
        t.default_security_group_rules.c.id,
    )


_GROUPS = sa.select(t.security_groups.c.id)


def read_templates(connection: Connection, *, default: bool) -> Sequence[Object]:
    """The templates for a default group, or for any other."""
    return [dict(row) for row in connection.execute(_templates(default)).mappings()]


def first_rules(templates: Sequence[Object], group_id: str) -> list[Rule]:
    """The rules of a new group."""
    return [check_rule({**template, "remote_group_id": _remote(template, group_id)}) for template in templates]


def _remote(template: Object, group_id: str) -> str | None:
    remote: str | None = template["remote_group_id"]
    return group_id if remote == PARENT_GROUP else remote


class DefaultRules(Collection):
    extensions = (
        Extension(
            "security-groups-default-rules",
            "Default rules for security groups",
            "Templates of the rules that a new security group starts with.",
        ),
    )

    def __init__(self, db: Database, remotes: Sequence[RuleRemote] = ()) -> None:
        super().__init__(db, VIEW)
        self._remotes = remotes
        self.collections = ((DEFAULT_SECURITY_GROUP_RULE, self),)

    def new(self, context: Context, values: Object) -> Object:
        rule = check_rule(values)
        return {
            "id": new_id(),
            **{name: getattr(rule, name) for name in (*_MATCH, *_REMOTE)},
            **{name: values[name] for name in ("description", "used_in_default_sg", "used_in_non_default_sg")},
            # Unique: an equal template that is created at the same time makes the insert fail, and it is decided again.
            "in_default": rule.identity if values["used_in_default_sg"] else None,
            "in_others": rule.identity if values["used_in_non_default_sg"] else None,
        }

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for template in objects:
            _check_remotes(connection, check_rule(template), self._remotes)
            _refuse_existing(connection, template)


def _check_remotes(connection: Connection, rule: Rule, remotes: Sequence[RuleRemote]) -> None:
    group = rule.remote_group_id
    if group not in (None, PARENT_GROUP) and not exists(connection, t.security_groups.c.id == group):
        raise errors.SecurityGroupNotFound(id=group)
    for remote in remotes:
        key = remote.of(rule)
        if key is not None and not exists(connection, remote.column == key):
            raise remote.not_found(id=key)


def _refuse_existing(connection: Connection, template: Object) -> None:
    """Refuse a second template of a rule for the same groups."""
    unique = [(t.default_security_group_rules.c[name], template[name]) for name in ("in_default", "in_others")]
    same = sa.or_(*(column == identity for column, identity in unique if identity is not None), sa.false())
    found = connection.execute(sa.select(t.default_security_group_rules.c.id).where(same)).scalar()
    if found is not None:
        raise errors.DefaultSecurityGroupRuleExists(rule_id=found)
