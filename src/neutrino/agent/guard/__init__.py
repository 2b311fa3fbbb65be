"""Guards of an agent's start: whether this host, and this server, are the agent's own."""
