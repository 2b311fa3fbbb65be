"""Index of the change log by project: the history of a project does not read the changes of all others."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

TABLE, INDEX = "changes", "ix_changes_project_id_position"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made it already.
    if INDEX not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(TABLE)}:
        op.create_index(INDEX, TABLE, ["project_id", "position"])
