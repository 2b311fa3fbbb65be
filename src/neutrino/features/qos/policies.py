"""QoS policies: create, update, delete; one per project may be the default of its new networks."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.qos.errors import QoSPolicyDefaultAlreadyExists
from neutrino.features.qos.tables import default_qos_policies, qos_policies
from neutrino.features.qos.use import SHAREABLE, VIEW, check_unused
from neutrino.model.objects import Object
from neutrino.server.access import rbac, sharing
from neutrino.server.collection import Listing
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, exists, fresh, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.quota.quotas import Quotas


class Policies(Listing):
    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, VIEW)
        self._quotas = quotas

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        made = [{**fresh(values, revision=0), "rules": []} for values in several]
        defaults = [policy["project_id"] for policy in made if policy["is_default"]]
        with self.db.read() as connection:
            for i, project_id in enumerate(defaults):
                _check_no_default(connection, project_id, taken=project_id in defaults[:i])
            limits = self._quotas.limits(connection, SHAREABLE.kind, made)
        with self.db.transaction() as tx:
            tx.insert(qos_policies, [as_row(qos_policies, policy) for policy in made], limits)
            for policy in made:
                _write_flags(tx, {"shared": False, "is_default": False}, policy)
        return made

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, context.project_id, revision=revision)
            after = {**before, **values}
            if after["is_default"] and not before["is_default"]:
                _check_no_default(connection, before["project_id"])
            if before["shared"] and not after["shared"]:
                rbac.check_unshared(connection, SHAREABLE, key)
        with self.db.transaction() as tx:
            stamp = update_row(tx, qos_policies, before, values)
            _write_flags(tx, before, after)
        return {**after, **stamp}

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = VIEW.get(connection, key, context.project_id, revision=revision)
            check_unused(connection, key)
        with self.db.transaction() as tx:
            # An object that got the policy since makes this fail on its foreign key, and it is decided again.
            sharing.delete_object(tx, qos_policies, before)


def _check_no_default(connection: Connection, project_id: str, *, taken: bool = False) -> None:
    if taken or exists(connection, default_qos_policies.c.project_id == project_id):
        raise QoSPolicyDefaultAlreadyExists(project_id=project_id)


def _write_flags(tx: Transaction, before: Object, after: Object) -> None:
    """Share or unshare the policy with all, and make it the default or not."""
    key, project_id = after["id"], after["project_id"]
    if after["shared"] and not before["shared"]:
        sharing.share_with_all(tx, SHAREABLE.kind, key, project_id)
    elif before["shared"] and not after["shared"]:
        sharing.unshare_with_all(tx, SHAREABLE.kind, key)
    if after["is_default"] and not before["is_default"]:
        # Of two requests that both find no default, one fails on the primary key.
        tx.insert(default_qos_policies, [{"project_id": project_id, "qos_policy_id": key}])
    elif before["is_default"] and not after["is_default"]:
        tx.write(sa.delete(default_qos_policies).where(default_qos_policies.c.qos_policy_id == key))
