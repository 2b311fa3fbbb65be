"""Conversion of many hosts from one command at a server, through the feed."""
