"""Tap as a service: copies of a port's packets for a monitoring port or a collector outside the cloud."""
