"""Trunks and their subports."""

import sqlalchemy as sa

from neutrino.server.db.columns import History, flags, integers, object_table, reference, table, text

# `generation` counts the changes of subports and of the parent's host, which exclude each other by it; the API shows
# neither it nor a stored status: the status follows from the ports.
trunks = object_table(
    "trunks",
    flags("admin_state_up", default=True),
    reference("port_id", "ports", index=False, unique=True),
    integers("generation", default=0),
    text(255, "failed_host", default=""),  # the host that could not wire all its ports, as reported last,
    history=History("trunk"),
    quota="trunk",
)

# A port is a subport of one trunk at most. Without CASCADE on it: a port that is in use cannot be deleted.
trunk_subports = table(
    "trunk_subports",
    reference("port_id", "ports", primary_key=True, index=False),
    reference("trunk_id", "trunks", cascade=True, index=False),
    text(16, "segmentation_type"),
    integers("segmentation_id"),
    sa.UniqueConstraint("trunk_id", "segmentation_type", "segmentation_id"),
)
