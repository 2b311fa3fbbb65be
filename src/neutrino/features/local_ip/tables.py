"""Local IPs and their associations."""

from neutrino.server.db.columns import History, flags, object_table, reference, table, text

local_ips = object_table(
    "local_ips",
    reference("local_port_id", "ports"),
    reference("network_id", "networks"),
    text(64, "local_ip_address"),
    text(16, "ip_mode"),
    flags("owns_port"),  # the port was created with the local IP, and is deleted with it,
    history=History("local_ip"),
)

associations = table(
    "local_ip_associations",
    # Without a cascade: a local IP in use cannot be deleted.
    reference("local_ip_id", "local_ips", primary_key=True, index=False),
    reference("fixed_port_id", "ports", cascade=True, primary_key=True),
    text(64, "fixed_ip"),
)
