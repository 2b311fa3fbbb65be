"""The metadata role: instances request 169.254.169.254, and Nova answers.

One unprivileged proxy process per host serves all namespaces (`proxy/`); the role (`role.py`) gives it listening sockets
opened inside the namespaces, and the instances with their addresses.
"""
