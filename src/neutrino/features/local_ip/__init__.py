"""Local IPs: one address of a network that each host translates to a port of its own."""
