"""What RBAC policies share, and the attribute `shared`: an object is shared with every project by a policy whose target is
all projects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.model.objects import Values
from neutrino.server.db import tables as t
from neutrino.server.db.objects import delete_row, new_id
from neutrino.server.db.sql import Row
from neutrino.server.db.transaction import Transaction

SHARED, EXTERNAL = "access_as_shared", "access_as_external"
EVERYONE = "*"
# Who uses an object: the column with the project of the user, the column with the object's id, and further conditions.
Users = Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Shareable:
    """A type of objects that RBAC policies share."""

    kind: str
    table: sa.Table
    users: Callable[[], Mapping[str, Users]]  # by action; called when the tables of all features are declared
    # As in Neutron: uses of the owner count, and a policy in use cannot be narrowed to the project that uses the object.
    is_strict: bool = False


def share_with_all(tx: Transaction, kind: str, object_id: str, project_id: str, action: str = SHARED) -> None:
    policy = {
        "id": new_id(),
        "project_id": project_id,
        "object_type": kind,
        "object_id": object_id,
        "action": action,
        "target_project": EVERYONE,
    }
    tx.insert(t.rbac_policies, [policy], limits={})  # without a limit: only administrators set `shared`


def unshare_with_all(tx: Transaction, kind: str, object_id: str, action: str = SHARED) -> None:
    c = t.rbac_policies.c
    _delete(tx, c.object_type == kind, c.object_id == object_id, c.action == action, c.target_project == EVERYONE)


def write_shared(tx: Transaction, kind: str, before: Values | None, after: Values) -> None:
    """Share a new object with all, or unshare it, as the attribute `shared` says."""
    was_shared = before is not None and before["shared"]
    if after["shared"] and not was_shared:
        share_with_all(tx, kind, after["id"], after["project_id"])
    elif was_shared and not after["shared"]:
        unshare_with_all(tx, kind, after["id"])


def delete_object(tx: Transaction, table: sa.Table, before: Values) -> None:
    """Delete an object, if it has not changed since `before` was read, with its policies and tags."""
    delete_row(tx, table, before)
    forget(tx, before["id"])


def forget(tx: Transaction, object_id: str) -> None:
    """Delete the policies and tags of an object that is deleted."""
    _delete(tx, t.rbac_policies.c.object_id == object_id)
    tx.write(sa.delete(t.tags).where(t.tags.c.object_id == object_id))


def _delete(tx: Transaction, *conditions: sa.ColumnElement[bool]) -> None:
    c = t.rbac_policies.c
    # Read first: each policy counts against the quota of the project that created it.
    found = tx.execute(sa.select(c.id, c.project_id).where(*conditions)).all()
    if found:
        tx.write(sa.delete(t.rbac_policies).where(c.id.in_([row.id for row in found])))
    for row in found:
        tx.use("rbac_policy", row.project_id, -1)
        tx.log(t.rbac_policies, row._asdict(), deleted=True)
