"""Security groups, their rules, the and the templates of rules."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import (
    History,
    flags,
    integers,
    object_table,
    optional_ids,
    primary_id,
    reference,
    table,
    text,
)

security_groups = object_table(
    "security_groups",
    flags("stateful", default=True),
    flags("is_default", default=False),
    history=History("security_group", feed=True),
    quota="security_group",
)

# At most one default group per project: of two requests that both find none, one fails on the primary key.
default_security_groups = table(
    "default_security_groups",
    text(255, "project_id", primary_key=True),
    reference("security_group_id", "security_groups", cascade=True),
)

security_group_rules = object_table(
    "security_group_rules",
    reference("security_group_id", "security_groups", cascade=True),
    text(16, "direction", "ethertype"),
    text(64, "protocol", nullable=True),
    integers("port_range_min", "port_range_max", nullable=True),
    text(64, "remote_ip_prefix", "normalized_cidr", nullable=True),
    reference("remote_group_id", "security_groups", nullable=True),
    reference("remote_address_group_id", "address_groups", nullable=True),
    # Uniqueness key of a rule: what it matches, as text. The constraint refuses an equal rule in the same group.
    text(255, "identity"),
    sa.UniqueConstraint("security_group_id", "identity"),
    history=History("security_group_rule"),
    quota="security_group_rule",
)

# Templates of the rules of new groups. They belong to no project, and have the attributes of Neutron's, no others.
default_security_group_rules = table(
    "default_security_group_rules",
    primary_id(),
    text(16, "direction", "ethertype"),
    text(64, "protocol", nullable=True),
    integers("port_range_min", "port_range_max", nullable=True),
    text(64, "remote_ip_prefix", nullable=True),
    optional_ids("remote_group_id"),  # or "PARENT", which is the new group itself
    reference("remote_address_group_id", "address_groups", nullable=True),
    text(255, "description", default=""),
    flags("used_in_default_sg", "used_in_non_default_sg"),
    # The identity of the rule if the template is used in default groups, in other groups: no group gets a rule twice.
    text(255, "in_default", "in_others", nullable=True, unique=True),
)

# The default of `stateful`, for a project or, without one, for all; `scope` makes both unique.
security_groups_default_statefulness = table(
    "security_groups_default_statefulness",
    primary_id(),
    text(255, "project_id", nullable=True),
    text(300, "scope", unique=True),
    flags("stateful", default=True),
)
