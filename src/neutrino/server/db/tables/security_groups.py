"""Security groups, their rules, and address groups."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, Project, json, standard_columns, table

security_groups = table(
    "security_groups",
    *standard_columns(),
    sa.Column("stateful", sa.Boolean, nullable=False, default=True),
    sa.Column("is_default", sa.Boolean, nullable=False, default=False),
)

# At most one default group a project: two requests that both find none cannot both make it.
default_security_groups = table(
    "default_security_groups",
    sa.Column("project_id", Project, primary_key=True),
    sa.Column(
        "security_group_id", Id, sa.ForeignKey("security_groups.id", ondelete="CASCADE"), nullable=False, index=True
    ),
)

security_group_rules = table(
    "security_group_rules",
    *standard_columns(),
    sa.Column(
        "security_group_id", Id, sa.ForeignKey("security_groups.id", ondelete="CASCADE"), nullable=False, index=True
    ),
    sa.Column("direction", sa.String(16), nullable=False),
    sa.Column("ethertype", sa.String(16), nullable=False),
    sa.Column("protocol", sa.String(64), nullable=True),
    sa.Column("port_range_min", sa.Integer, nullable=True),
    sa.Column("port_range_max", sa.Integer, nullable=True),
    sa.Column("remote_ip_prefix", sa.String(64), nullable=True),
    sa.Column("normalized_cidr", sa.String(64), nullable=True),
    sa.Column("remote_group_id", Id, sa.ForeignKey("security_groups.id"), nullable=True, index=True),
    sa.Column("remote_address_group_id", Id, sa.ForeignKey("address_groups.id"), nullable=True, index=True),
    # The rule's meaning in one text: the same rule twice in a group is refused by the constraint below.
    sa.Column("identity", sa.String(255), nullable=False),
    sa.UniqueConstraint("security_group_id", "identity"),
)

address_groups = table(
    "address_groups",
    *standard_columns(),
    json("addresses"),
)
