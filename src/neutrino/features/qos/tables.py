"""QoS policies and rules."""

import sqlalchemy as sa

from neutrino.server.db.columns import (
    History,
    flags,
    integers,
    json,
    object_table,
    primary_id,
    reference,
    table,
    text,
)

# With the rules as the API shows them. Every change of a rule updates this row, on a condition on its revision.
qos_policies = object_table(
    "qos_policies",
    flags("is_default", default=False),
    json("rules"),
    history=History("qos_policy", feed=True),
    quota="qos_policy",
)

# The policy that new networks of a project get: at most one per project, by the primary key.
default_qos_policies = table(
    "default_qos_policies",
    text(255, "project_id", primary_key=True),
    reference("qos_policy_id", "qos_policies", cascade=True),
)

# A rule's parameters, to filter and sort lists by; those of other types of rules are NULL.
qos_rules = table(
    "qos_rules",
    primary_id(),
    reference("qos_policy_id", "qos_policies", cascade=True),
    text(32, "type"),
    text(16, "direction", default=""),  # empty: DSCP marks have none
    integers("max_kbps", "max_burst_kbps", "min_kbps", nullable=True),
    integers("max_kpps", "max_burst_kpps", "min_kpps", "dscp_mark", nullable=True),
    sa.UniqueConstraint("qos_policy_id", "type", "direction"),
)
