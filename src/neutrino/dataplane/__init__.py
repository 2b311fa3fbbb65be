"""Drivers: the only code of a host with side effects. Each has an api, a real implementation and a stateful fake."""
