"""Metering labels, their rules and counters."""

import sqlalchemy as sa

from neutrino.server.db.columns import History, flags, integers, optional_ids, primary_id, reference, table, text

metering_labels = table(
    "metering_labels",
    primary_id(),
    text(255, "project_id", index=True),
    text(255, "name", default=""),
    text(1024, "description", default=""),
    flags("shared", default=False, index=True),
    # Grows with every change of the label's rules: of two requests that each add a rule, one is repeated.
    integers("revision_number", default=0),
    history=History("metering_label", feed=True),
)

metering_label_rules = table(
    "metering_label_rules",
    primary_id(),
    reference("metering_label_id", "metering_labels", cascade=True),
    text(16, "direction"),
    text(64, "remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix", nullable=True),
    flags("excluded", default=False),
)

# The totals that a host last reported, by its counters: notifications have the difference to the next report. Without
# foreign keys: the last traffic of a deleted label or router is reported after it.
metering_totals = table(
    "metering_totals",
    text(255, "host", primary_key=True),
    optional_ids("counter_id", nullable=False, primary_key=True),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("packets", "bytes", "last_update")),
)
