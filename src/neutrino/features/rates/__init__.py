"""Rates and drops of ports, routers and tunnels."""
