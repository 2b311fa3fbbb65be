"""Security groups: the API, and the default group of each project."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.security_group import SECURITY_GROUP, SECURITY_GROUP_RULE
from neutrino.server.collection import DefaultedCollection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, exists, fresh
from neutrino.server.db.reads import Lookup, read, scalar
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups import rules, views
from neutrino.server.securitygroups.default_rules import first_rules, read_templates
from neutrino.server.securitygroups.default_statefulness import default_stateful
from neutrino.server.uses import GroupDeletion, RuleRemote

Limits = Mapping[str, int]  # by project
KIND = "security_group"
DEFAULT = {"name": "default", "description": "Default security group"}

_UNUSE = sa.delete(t.default_security_group_rules).where(
    t.default_security_group_rules.c.remote_group_id == sa.bindparam("key", type_=sa.String)
)
DEFAULT_GROUP = Lookup(
    sa.select(t.default_security_groups.c.security_group_id).where(
        t.default_security_groups.c.project_id == sa.bindparam("project", type_=sa.String)
    ),
    scalar,
)


class SecurityGroups(DefaultedCollection):
    extensions = (
        Extension("security-group", "security-group", "Groups of ports with rules for their traffic."),
        Extension("stateful-security-group", "Stateful security group", "Groups with or without connection tracking."),
        Extension(
            "security-groups-shared-filtering", "Security group filtering on the shared field", "Lists by shared."
        ),
        Extension(
            "security-groups-name-restrictions", "Security group name restrictions", "The name default is reserved."
        ),
        Extension(
            "security-groups-normalized-cidr",
            "Normalized CIDR field for security group rules",
            "A rule's prefix without host bits.",
        ),
        Extension(
            "security-groups-rules-belongs-to-default-sg",
            "Security group rule belongs to the project's default security group",
            "Whether a rule belongs to a default group.",
        ),
    )

    needed = ("is_default",)

    def __init__(self, db: Database, quotas: Quotas, remotes: Sequence[RuleRemote] = ()) -> None:
        super().__init__(db, views.GROUPS, quotas, self.ensure_default)
        self._limits = quotas.limits
        self.remotes = remotes
        self.rules = rules.SecurityGroupRules(db, quotas, remotes, self.ensure_default)
        self.collections = ((SECURITY_GROUP, self), (SECURITY_GROUP_RULE, self.rules))
        self.delete_hooks: list[GroupDeletion] = []

    @retried
    def ensure_default(self, project_id: str) -> str:
        """The id of the project's default group, which is created on first use.

        Of requests that create it at the same time, the primary key of `default_security_groups` lets one through; the
        others retry and find it. It counts against the quota, but no quota prevents it.
        """
        with self.db.read() as connection:
            found = read(connection, DEFAULT_GROUP(project=project_id))
            if found is not None:
                return str(found)
            templates = read_templates(connection, default=True)
            stateful = default_stateful(connection, project_id)
        with self.db.transaction() as tx:
            values = {**DEFAULT, "project_id": project_id, "stateful": stateful, "is_default": True}
            group = _insert_group(tx, values, templates, {}, {})
            tx.insert(t.default_security_groups, [{"project_id": project_id, "security_group_id": group["id"]}])
        return str(group["id"])

    # --- groups ---------------------------------------------------------------------------------------------------

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        projects = sorted({item["project_id"] for item in items})
        # As in Neutron, the first group of a project comes with its default group. In its own transaction, because it stays
        # even if this request fails.
        for project in projects:
            self.ensure_default(project)
        with self.db.read() as connection:
            limits = [self._limits(connection, resource, items) for resource in (KIND, rules.QUOTA)]
            templates = read_templates(connection, default=False)
            groups = [{**item, "stateful": _is_stateful(connection, item), "is_default": False} for item in items]
        with self.db.transaction() as tx:
            return [_insert_group(tx, group, templates, *limits) for group in groups]

    def changed(self, context: Context, before: Object, values: Object) -> Object:
        if before["is_default"] and "name" in values:
            raise errors.SecurityGroupCannotUpdateDefault()
        return {**before, **values}

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        _refuse_if_in_use(connection, before["id"])
        if before["is_default"] and not context.is_admin:
            raise errors.SecurityGroupCannotRemoveDefault()

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None:
            return
        if after is not None:
            # Checked after the update: a port that gets the group at the same time saw its old value.
            if after["stateful"] != before["stateful"]:
                _refuse_if_in_use(tx.connection, before["id"])
        else:
            rules.remove_rules_touching(tx, before["id"])
            tx.write(_UNUSE, {"key": before["id"]})
            for hook in self.delete_hooks:
                hook(tx, before["id"])


def _is_stateful(connection: Connection, values: Object) -> bool:
    return values["stateful"] if "stateful" in values else default_stateful(connection, values["project_id"])


def _insert_group(
    tx: Transaction, values: Object, templates: Sequence[Object], limits: Limits, rule_limits: Limits
) -> Object:
    group = fresh({**values, "shared": False})
    key, project, default = group["id"], group["project_id"], group["is_default"]
    pairs = [(rule, rules.rule_object(rule, key, project, None, default)) for rule in first_rules(templates, key)]
    tx.insert(t.security_groups, [as_row(t.security_groups, group)], limits)
    rules.insert_rules(tx, pairs, rule_limits)
    return {**group, views.RULES_FIELD: [made for _, made in pairs]}


def _refuse_if_in_use(connection: Connection, key: str) -> None:
    if exists(connection, t.port_security_groups.c.security_group_id == key):
        raise errors.SecurityGroupInUse(id=key, reason="a port has it")
