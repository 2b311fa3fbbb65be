"""What hosts have counted lately: a ring of rows for each host."""

import sqlalchemy as sa

from neutrino.server.db.columns import integers, json, table, text

# A row per report. Its slot follows from its time, so a host has SLOTS rows at most, whatever it reports. No foreign keys:
# `counted` has the ids of ports as the host has sent them, and is read only for ports that are on this host then.
host_rates = table(
    "host_rates",
    text(255, "host", primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, nullable=False),  # seconds since 1970, of the server's clock
    integers("seconds"),
    json("counted"),
)
