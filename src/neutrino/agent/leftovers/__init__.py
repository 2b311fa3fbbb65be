"""Namespaces, switch ports and processes without a record: of a Neutron agent, or of a lost state path."""
