"""Distributed routers: routing on every host, SNAT on one, floating IPs on the host of their port."""
