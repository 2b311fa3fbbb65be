"""Prometheus metrics of servers, feeds and agents: `catalog.py` declares all of them."""
