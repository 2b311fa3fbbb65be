"""Who may use what of others, how much a project may have, and tags."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, Project, table

rbac_policies = table(
    "rbac_policies",
    sa.Column("id", Id, primary_key=True),
    sa.Column("project_id", Project, nullable=False, index=True),
    sa.Column("object_type", sa.String(32), nullable=False),
    sa.Column("object_id", Id, nullable=False, index=True),
    sa.Column("action", sa.String(32), nullable=False),
    sa.Column("target_project", sa.String(255), nullable=False, index=True),
    sa.UniqueConstraint("object_id", "action", "target_project", "object_type"),
)

quotas = table(
    "quotas",
    sa.Column("project_id", Project, primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("limit", sa.Integer, nullable=False),
)

# How many of a resource a project has; counted up only by a condition on the limit, so no two can pass it together.
quota_usages = table(
    "quota_usages",
    sa.Column("project_id", Project, primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("used", sa.Integer, nullable=False, default=0),
)

tags = table(
    "tags",
    sa.Column("object_id", Id, primary_key=True),
    sa.Column("tag", sa.String(255), primary_key=True, index=True),
)
