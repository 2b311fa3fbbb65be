"""Daemons and processes of routers on this host, and the counters that the kernel keeps for them."""
