"""Flavors of routers and VPN services, their service profiles, and service providers."""
