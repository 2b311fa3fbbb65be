"""Packet logs."""

from neutrino.server.db.columns import History, flags, object_table, reference, text

# Deleted with their group or port. That is also done explicitly, since hosts learn of it by the change log.
logs = object_table(
    "logs",
    text(255, "resource_type"),
    reference("resource_id", "security_groups", cascade=True, nullable=True),
    reference("target_id", "ports", cascade=True, nullable=True),
    text(8, "event"),
    flags("enabled"),
    history=History("log", feed=True),
)
