"""Asks the dataplane what it would do with a packet; nothing is changed."""
