"""The metadata role: instances ask 169.254.169.254 who they are, and Nova answers.

One process a host serves all namespaces (`proxy/`), and the role of the agent gives it what it needs (`role.py`): sockets
that were opened inside the namespaces, and who has which address.
"""
