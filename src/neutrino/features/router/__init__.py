"""Routers and floating IPs, with port forwardings, NDP proxies and conntrack helpers, and the agents that serve them."""
