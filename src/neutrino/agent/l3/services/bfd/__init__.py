"""A BFD speaker: one process of a host supervises the next hops of all its routers that ask for it."""
