"""Meters of traffic: a process of its own with sockets in the namespaces of instances, and what it has measured."""
