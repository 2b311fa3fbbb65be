"""The `stateful` of new security groups that do not give it: a setting of their project, or else of the whole cloud."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.default_security_group import DEFAULT_STATEFULNESS
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database
from neutrino.server.db.view import View

CLOUD = "*"  # the scope of the setting without a project
_SETTING = (
    sa.select(t.security_groups_default_statefulness.c.stateful)
    .where(t.security_groups_default_statefulness.c.scope.in_((CLOUD, sa.bindparam("project", type_=sa.String))))
    .order_by(t.security_groups_default_statefulness.c.project_id.is_(None))  # that of the project first
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


class DefaultStatefulness(Collection):
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

    def new(self, context: Context, values: Object) -> Object:
        return {**super().new(context, values), "scope": _scope(values["project_id"])}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for i, setting in enumerate(objects):
            twice = any(other["scope"] == setting["scope"] for other in objects[:i])
            if twice or exists(connection, t.security_groups_default_statefulness.c.scope == setting["scope"]):
                project = setting["project_id"] or "system-wide"
                raise errors.SecurityGroupDefaultStatefulnessAlreadyExists(project_id=project)
