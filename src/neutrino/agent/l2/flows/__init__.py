"""The built-in extensions: each renders one feature's flows from desired state, without seeing the actual state."""
