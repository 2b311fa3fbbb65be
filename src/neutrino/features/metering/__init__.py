"""Metering: labels that count the traffic of routers with the outside."""
