"""Availability zones: a zone exists if an agent reports it."""
