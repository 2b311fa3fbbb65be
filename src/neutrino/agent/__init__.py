"""The host agent: one process per host that turns the state it is given into a dataplane."""
