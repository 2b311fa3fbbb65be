"""Address groups."""

from neutrino.server.db.columns import History, json, object_table

address_groups = object_table(
    "address_groups",
    json("addresses"),
    history=History("address_group", feed=True),
    quota="address_group",
)
