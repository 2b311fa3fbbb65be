"""RBAC policies: the owner of an object lets another project, or all, use it.

A policy is deleted or changed to another project only if nobody depends on it: every project that uses the object must
still have access by another policy. A `Shareable` has the columns that name the projects that use an object.

A network shows its policies (`shared`, `router:external`), so they increment the network's revision. The first policy for
external access makes a network external, and deleting the last one makes it internal.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.device_owners import FLOATING, GATEWAY
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access.sharing import EVERYONE, EXTERNAL, SHARED, Shareable, Users
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.rbac_policy import rbac_policy
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.db.view import View
from neutrino.server.quota.quotas import Quotas

VIEW = View(t.rbac_policies, renamed={"target_tenant": "target_project"}, not_found=errors.RbacPolicyNotFound)
GATEWAYS = (GATEWAY, FLOATING)


def _networks(external_users: Users) -> Shareable:
    gateways = t.ports.c.project_id, t.ports.c.network_id, t.ports.c.device_owner.in_(GATEWAYS)
    users = {SHARED: [(t.ports.c.project_id, t.ports.c.network_id)], EXTERNAL: [gateways, *external_users]}
    return Shareable(kind="network", table=t.networks, users=lambda: users)


def _shared(kind: str, table: sa.Table, *user: object) -> Shareable:
    return Shareable(kind=kind, table=table, users=lambda: {SHARED: [user]})


CORE = (
    _shared(
        "security_group",
        t.security_groups,
        t.ports.c.project_id,
        t.port_security_groups.c.security_group_id,
        t.port_security_groups.c.port_id == t.ports.c.id,
    ),
    _shared("address_scope", t.address_scopes, t.subnetpools.c.project_id, t.subnetpools.c.address_scope_id),
    _shared("subnetpool", t.subnetpools, t.subnets.c.project_id, t.subnets.c.subnetpool_id),
)


class RbacPolicies(Collection):
    extensions = (
        Extension("rbac-policies", "RBAC Policies", "Sharing single objects with single projects."),
        Extension("rbac-security-groups", "Add security_group type to network RBAC", "Security groups can be shared."),
        Extension("rbac-address-scope", "Add address_scope type to RBAC", "Address scopes can be shared."),
        Extension("rbac-subnetpool", "Add subnetpool type to RBAC", "Subnet pools can be shared."),
    )

    def __init__(
        self, db: Database, quotas: Quotas, of_features: Sequence[Shareable] = (), external_users: Users = ()
    ) -> None:
        """`external_users`: what uses external networks, beside ports that belong to a project."""
        super().__init__(db, VIEW, quotas)
        self._kinds = {one.kind: one for one in (_networks(external_users), *CORE, *of_features)}
        self.collections = ((rbac_policy(tuple(self._kinds)), self),)

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for policy in objects:
            _check_action(self._kinds[policy["object_type"]], policy)
        for i, policy in enumerate(objects):
            _check_object(connection, context, self._table_of(policy), policy)
            _check_scope_of_pool(connection, policy)
            _check_twice(connection, policy, objects[:i])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            _touch(tx, self._table_of(after), after, external=True if after["action"] == EXTERNAL else None)

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = VIEW.get(connection, key)
            after = {**before, **values}
            _check_object(connection, context, self._table_of(after), after)
            if after["target_tenant"] == before["target_tenant"]:
                return after
            _check_twice(connection, after)
            _check_scope_of_pool(connection, after)
            _check_unused(connection, self._kinds[before["object_type"]], before, after["target_tenant"])
        with self.db.transaction() as tx:
            # Stale if another request has changed or deleted it since it was read.
            tx.change(sa.update(t.rbac_policies).where(_as_read(before)).values(target_project=after["target_tenant"]))
            targets = before["target_tenant"], after["target_tenant"]
            tx.log(t.rbac_policies, before, changed={"target_tenant": targets})
            _touch(tx, self._table_of(after), after)
        return after

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = VIEW.get(connection, key)
            others = _check_unused(connection, self._kinds[before["object_type"]], before)
            last = before["action"] == EXTERNAL and not others
        with self.db.transaction() as tx:
            tx.change(sa.delete(t.rbac_policies).where(_as_read(before)))
            tx.use("rbac_policy", before["project_id"], -1)
            tx.log(t.rbac_policies, before, deleted=True)
            _touch(tx, self._table_of(before), before, external=False if last else None, must_exist=False)

    def _table_of(self, policy: Object) -> sa.Table:
        return self._kinds[policy["object_type"]].table


def _as_read(policy: Object) -> sa.ColumnElement[bool]:
    return sa.and_(t.rbac_policies.c.id == policy["id"], t.rbac_policies.c.target_project == policy["target_tenant"])


# --- policies in use --------------------------------------------------------------------------------------------------


def _check_unused(connection: Connection, shared: Shareable, policy: Object, *new_targets: str) -> set[str]:
    """Refuse to remove the access of a project that uses the object and has no other policy for it.

    Gives the targets of the other policies.
    """
    others = connection.execute(sa.select(t.rbac_policies.c.target_project).where(*_same_access(policy))).scalars()
    action, object_id, strict = policy["action"], policy["object_id"], shared.is_strict
    targets = {*others, *(target for target in new_targets if target == EVERYONE or not strict)}
    if EVERYONE in targets:
        return targets
    is_default = t.networks.c.id == object_id, t.networks.c.is_default
    if action == EXTERNAL and policy["target_tenant"] == EVERYONE and exists(connection, *is_default):
        raise errors.RbacPolicyInUse(object_id=object_id, details="The default external network is shared with all.")
    left_out = _users_of(connection, shared.users()[action], object_id) - targets
    if not strict:
        left_out -= {_owner(connection, shared.table, policy)}
    # A policy for one project can only affect that project.
    if policy["target_tenant"] != EVERYONE:
        left_out &= {policy["target_tenant"]}
    if left_out:
        raise errors.RbacPolicyInUse(
            object_id=object_id, details=f"These projects use it: {', '.join(sorted(left_out)[:10])}."
        )
    gateways = t.ports.c.network_id == object_id, t.ports.c.device_owner.in_(GATEWAYS)
    if action == EXTERNAL and not targets and exists(connection, *gateways):
        raise errors.RbacPolicyInUse(object_id=object_id, details="Routers have gateways on this network.")
    return targets


def check_unshared(connection: Connection, shared: Shareable, object_id: str) -> None:
    """Refuse to share an object not with all any more while a project uses it that has no other policy for it."""
    for_all = (
        t.rbac_policies.c.object_type == shared.kind,
        t.rbac_policies.c.object_id == object_id,
        t.rbac_policies.c.action == SHARED,
        t.rbac_policies.c.target_project == EVERYONE,
    )
    for policy in VIEW.load_where(connection, *for_all):
        _check_unused(connection, shared, policy)


def _users_of(connection: Connection, users: Users, object_id: str) -> set[str]:
    """The projects that use the object. The empty project is the server itself."""
    projects: set[str] = set()
    for project, key, *conditions in users:
        using = sa.select(project).where(key == object_id, *conditions).distinct()
        projects |= set(connection.execute(using).scalars())
    return projects - {""}


def _check_action(shared: Shareable, values: Object) -> None:
    valid = tuple(shared.users())
    if values["action"] not in valid:
        raise errors.InvalidActionForType(
            action=values["action"], object_type=values["object_type"], valid_actions=", ".join(valid)
        )


def _check_object(connection: Connection, context: Context, table: sa.Table, policy: Object) -> None:
    """Only the owner and administrators share an object; others do not even learn whether it exists."""
    owner = _owner(connection, table, policy)
    if owner is None or (owner != context.project_id and not context.is_admin):
        raise errors.InvalidInput(error_message=f"this project has no {policy['object_type']} {policy['object_id']}")


def _owner(connection: Connection, table: sa.Table, policy: Object) -> str | None:
    return connection.execute(sa.select(table.c.project_id).where(table.c.id == policy["object_id"])).scalar()


def _check_scope_of_pool(connection: Connection, policy: Object) -> None:
    """A project that gets a subnet pool must have its address scope too."""
    if policy["object_type"] != "subnetpool":
        return
    pool = t.subnetpools.c
    scope = connection.execute(sa.select(pool.address_scope_id).where(pool.id == policy["object_id"])).scalar()
    if scope is None:
        return
    target = policy["target_tenant"]
    shared = sa.select(t.rbac_policies.c.object_id).where(t.rbac_policies.c.target_project.in_({EVERYONE, target}))
    own = t.address_scopes.c
    if not exists(connection, own.id == scope, sa.or_(own.project_id == target, own.id.in_(shared))):
        raise errors.InvalidInput(error_message=f"the pool's address scope {scope} is not shared with {target}")


def _check_twice(connection: Connection, policy: Object, made: Sequence[Object] = ()) -> None:
    same = ("object_type", "object_id", "action", "target_tenant")
    twice = any(all(other[name] == policy[name] for name in same) for other in made)
    if twice or exists(connection, *_same_access(policy), t.rbac_policies.c.target_project == policy["target_tenant"]):
        raise errors.DuplicateRbacPolicy()


def _same_access(policy: Object) -> list[sa.ColumnElement[bool]]:
    """Conditions of other policies for the same action on the same object."""
    return [
        *(t.rbac_policies.c[name] == policy[name] for name in ("object_type", "object_id", "action")),
        t.rbac_policies.c.id != policy["id"],
    ]


def _touch(
    tx: Transaction, table: sa.Table, policy: Object, *, external: bool | None = None, must_exist: bool = True
) -> None:
    """Raise the revision of a network whose sharing changed, because the network shows it; other objects do not."""
    kind, key = policy["object_type"], policy["object_id"]
    if kind == "network":
        change: Object = {"revision_number": t.networks.c.revision_number + 1, "updated_at": now()}
        if external is not None:
            change["external"] = external
        found = bool(tx.execute(sa.update(t.networks).where(t.networks.c.id == key).values(change)).rowcount)
        if found:
            tx.record(kind, key)
    else:
        found = exists(tx.connection, table.c.id == key)
    if must_exist and not found:  # deleted since it was read
        raise Stale
