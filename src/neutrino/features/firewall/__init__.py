"""Firewall groups, policies and rules (FWaaS v2): ordered rules on ports of instances and interfaces of routers."""
