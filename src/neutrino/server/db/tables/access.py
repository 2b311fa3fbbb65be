"""RBAC policies, quotas and tags."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import History, integers, optional_ids, primary_id, table, text

rbac_policies = table(
    "rbac_policies",
    primary_id(),
    text(255, "project_id", index=True),
    text(32, "object_type"),
    optional_ids("object_id", nullable=False, index=True),
    text(32, "action"),
    text(255, "target_project", index=True),
    sa.UniqueConstraint("object_id", "action", "target_project", "object_type"),
    history=History("rbac_policy"),
    quota="rbac_policy",
)

quotas = table(
    "quotas", text(255, "project_id", primary_key=True), text(64, "resource", primary_key=True), integers("limit")
)

# How many objects of a resource a project has. Incremented on a condition on the limit, so two writers cannot exceed it.
quota_usages = table(
    "quota_usages",
    text(255, "project_id", primary_key=True),
    text(64, "resource", primary_key=True),
    integers("used", default=0),
)

tags = table(
    "tags", optional_ids("object_id", nullable=False, primary_key=True), text(255, "tag", primary_key=True, index=True)
)
