"""Records for the external DNS."""

import sqlalchemy as sa

from neutrino.server.db.columns import flags, integers, optional_ids, owner, primary_id, table, text

# A DNS record that a port or floating IP wants, or wanted: written with the object, published by the API workers, and
# deleted when the record is removed from the DNS. No foreign key: it outlives its object.
dns_records = table(
    "dns_records",
    primary_id(),
    text(16, "object_type"),
    optional_ids("object_id", nullable=False, index=True),
    text(255, "project_id"),
    text(255, "zone"),
    text(255, "name", index=True),
    text(8, "type"),
    text(64, "address"),
    flags("wanted"),
    flags("pending", index=True),  # the publisher has work
    flags("published"),  # it may be in the DNS: set before an update is sent
    text(1000, "error", default=""),  # of the last attempt
    integers("attempts", default=0),  # since the last success
    sa.Column("retry_at", sa.Double, nullable=False),
    # The last claim of a publisher, and until when it works on the row at most; 0: it has finished.
    text(36, "claimed_by", default=""),
    sa.Column("claimed_until", sa.Double, nullable=False),
    sa.UniqueConstraint("object_id", "zone", "name", "type", "address"),
)

# Who has named a port in a domain with keywords: records are made again when the caller is not known any more.
dns_callers = table("dns_callers", owner("port_id", "ports"), text(255, "project_name", "user_id", "user_name"))
