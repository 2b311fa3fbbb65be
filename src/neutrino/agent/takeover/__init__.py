"""Conversion of a host of Neutron's agents, and the way back."""
