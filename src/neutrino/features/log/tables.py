"""Packet logs."""

from neutrino.server.db.columns import History, flags, object_table, reference, text

# Deleted with their group or port. That is also done explicitly, since hosts learn of it by the change log.
# `resource_id` is a security group, `firewall_group_id` a firewall group: the API shows either as `resource_id`.
logs = object_table(
    "logs",
    text(255, "resource_type"),
    reference("resource_id", "security_groups", cascade=True, nullable=True),
    reference("target_id", "ports", cascade=True, nullable=True),
    text(8, "event"),
    flags("enabled"),
    reference("firewall_group_id", "firewall_groups", cascade=True, nullable=True),
    history=History("log", feed=True),
)
