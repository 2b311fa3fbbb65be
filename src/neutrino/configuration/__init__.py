"""Configuration copied from a Neutron host: which of its options and values have a meaning here, as tables."""
