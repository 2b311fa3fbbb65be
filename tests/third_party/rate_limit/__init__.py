"""A feature of another package: limits of the packets that a port sends. It has a resource, a table, a kind and flows."""
