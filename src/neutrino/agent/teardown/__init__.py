"""Removes what an agent has created on a host, when the host stops being one."""
