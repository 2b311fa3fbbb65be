"""QoS policies: create, update, delete; one per project may be the default of its new networks."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.errors import QoSPolicyDefaultAlreadyExists
from neutrino.features.qos.tables import default_qos_policies
from neutrino.features.qos.use import SHAREABLE, check_unused
from neutrino.model.objects import Object
from neutrino.server.access import rbac, sharing
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db.objects import exists
from neutrino.server.db.transaction import Transaction


class Policies(Collection):
    def new(self, context: Context, values: Object) -> Object:
        return {**super().new(context, values), "rules": []}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        defaults = [policy["project_id"] for policy in objects if policy["is_default"]]
        for i, project_id in enumerate(defaults):
            _check_no_default(connection, project_id, taken=project_id in defaults[:i])

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        if after["is_default"] and not before["is_default"]:
            _check_no_default(connection, before["project_id"])
        if before["shared"] and not after["shared"]:
            rbac.check_unshared(connection, SHAREABLE, before["id"])

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        # An object that gets the policy later makes the transaction fail on its foreign key, and it is decided again.
        check_unused(connection, before["id"])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        """Share or unshare the policy with all, and make it the default or not."""
        if after is None:
            return
        sharing.write_shared(tx, SHAREABLE.kind, before, after)
        was_default = before is not None and before["is_default"]
        if after["is_default"] and not was_default:
            # Of two requests that both find no default, one fails on the primary key.
            tx.insert(default_qos_policies, [{"project_id": after["project_id"], "qos_policy_id": after["id"]}])
        elif was_default and not after["is_default"]:
            tx.write(sa.delete(default_qos_policies).where(default_qos_policies.c.qos_policy_id == after["id"]))


def _check_no_default(connection: Connection, project_id: str, *, taken: bool = False) -> None:
    if taken or exists(connection, default_qos_policies.c.project_id == project_id):
        raise QoSPolicyDefaultAlreadyExists(project_id=project_id)
