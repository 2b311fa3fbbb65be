"""The `stateful` of new security groups that do not give it: a setting of their project, or else of the whole cloud."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.default_security_group import DEFAULT_STATEFULNESS
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists, new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.view_collection import ViewCollection

CLOUD = "*"  # the scope of the setting without a project
_c = t.security_groups_default_statefulness.c
_SETTING = (
    sa.select(_c.stateful)
    .where(_c.scope.in_((CLOUD, sa.bindparam("project", type_=sa.String))))
    .order_by(_c.project_id.is_(None))  # that of the project first
    .limit(1)
)
VIEW = View(
    t.security_groups_default_statefulness,
    hidden=("scope",),
    not_found=errors.SecurityGroupDefaultStatefulnessNotFound,
)


def default_stateful(connection: Connection, project_id: str) -> bool:
    found = connection.execute(_SETTING, {"project": _scope(project_id)}).scalar()
    return True if found is None else bool(found)


def _scope(project_id: str | None) -> str:
    """The value of the unique column: a NULL in `project_id` would not be unique."""
    return CLOUD if project_id is None else f"project {project_id}"


class DefaultStatefulness(ViewCollection):
    extensions = (
        Extension(
            "security-groups-default-statefulness",
            "Security Groups Default Statefulness",
            "The default of `stateful` for new security groups, per project or for all.",
        ),
    )

    def __init__(self, db: Database) -> None:
        super().__init__(db, VIEW)
        self.collections = ((DEFAULT_STATEFULNESS, self),)

    @retried
    def create(self, context: Context, values: Object) -> Object:
        project = values["project_id"]
        made: dict[str, Any] = {"id": new_id(), "project_id": project, "stateful": values["stateful"]}
        with self.db.read() as connection:
            if exists(connection, _c.scope == _scope(project)):
                raise errors.SecurityGroupDefaultStatefulnessAlreadyExists(project_id=project or "system-wide")
        with self.db.transaction() as tx:
            # A setting that was created since makes this fail on the unique scope, and it is decided again.
            tx.insert(t.security_groups_default_statefulness, [{**made, "scope": _scope(project)}])
        return {**made, "tenant_id": project}

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.transaction() as tx:
            if values:
                tx.execute(sa.update(t.security_groups_default_statefulness).where(_c.id == key).values(**values))
            return VIEW.get(tx.connection, key)

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.transaction() as tx:
            if not tx.execute(sa.delete(t.security_groups_default_statefulness).where(_c.id == key)).rowcount:
                raise errors.SecurityGroupDefaultStatefulnessNotFound(id=key)
