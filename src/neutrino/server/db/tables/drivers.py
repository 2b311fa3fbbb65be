"""What drivers of ML2 keep: values of their attributes, and postcommits that have not run yet."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import Json, json, optional_ids, owner, primary_id, table, text

# Values of attributes that extension drivers add, by resource.
network_attributes, subnet_attributes, port_attributes = (
    table(f"{kind}_attributes", owner("object_id", f"{kind}s"), text(64, "name", primary_key=True), json("value"))
    for kind in ("network", "subnet", "port")
)

# A postcommit that has not run yet: inserted with the change, deleted after the postcommit, replayed after a crash.
journal = table(
    "journal",
    primary_id(),
    text(64, "operation"),
    optional_ids("object_id", nullable=False),
    sa.Column("before", Json, nullable=True),
    sa.Column("after", Json, nullable=True),
    sa.Column("at", sa.Float, nullable=False),
    text(64, "owner"),
)
