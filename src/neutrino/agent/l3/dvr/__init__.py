"""Distributed routers: one router in up to three kinds of namespaces, on many hosts."""
