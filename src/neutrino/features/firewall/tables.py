"""Firewall groups, policies and rules (FWaaS v2)."""

from neutrino.server.db.columns import (
    History,
    flags,
    integers,
    json,
    object_table,
    owner,
    reference,
    table,
    text,
)

firewall_rules = object_table(
    "firewall_rules",
    flags("shared", default=False, index=True),
    flags("enabled", default=True),
    text(40, "protocol", nullable=True),
    integers("ip_version", default=4),
    text(64, "source_ip_address", "destination_ip_address", nullable=True),
    text(16, "source_port", "destination_port", nullable=True),  # a port, or a range as 80:90
    text(16, "action", default="deny"),
    history=History("firewall_rule", feed=True),
    quota="firewall_rule",
)

firewall_policies = object_table(
    "firewall_policies",
    flags("shared", default=False, index=True),
    flags("audited", default=False),
    json("firewall_rules"),
    history=History("firewall_policy", feed=True),
    quota="firewall_policy",
)

# The same rules as rows: a rule that a policy has cannot be deleted, and the policies of a rule are found.
policy_rules = table(
    "firewall_policy_rules",
    owner("firewall_policy_id", "firewall_policies"),
    reference("firewall_rule_id", "firewall_rules", primary_key=True),
    integers("position"),
)

# `status` is what hosts have applied of the current revision; the API derives INACTIVE and DOWN from the other columns.
firewall_groups = object_table(
    "firewall_groups",
    flags("admin_state_up", default=True),
    flags("shared", default=False, index=True),
    flags("is_default", default=False),
    text(16, "status"),
    reference("ingress_firewall_policy_id", "firewall_policies", nullable=True),
    reference("egress_firewall_policy_id", "firewall_policies", nullable=True),
    history=History("firewall_group", feed=True),
    quota="firewall_group",
)

# A port is in at most one group. The row is deleted with the port, so the deletion of ports costs nothing more.
group_ports = table(
    "firewall_group_ports",
    owner("port_id", "ports"),
    reference("firewall_group_id", "firewall_groups", cascade=True),
)

# What each role of each host reported last on a group: the status of the group follows from these.
group_hosts = table(
    "firewall_group_hosts",
    owner("firewall_group_id", "firewall_groups"),
    text(255, "host", primary_key=True),
    text(16, "role", primary_key=True),
    integers("revision"),
    text(16, "status"),
)

# At most one default group per project, as with security groups.
default_groups = table(
    "default_firewall_groups",
    text(255, "project_id", primary_key=True),
    reference("firewall_group_id", "firewall_groups", cascade=True),
)
