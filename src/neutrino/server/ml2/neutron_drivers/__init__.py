"""Drivers written for Neutron, unchanged, as drivers of our ML2 core. docs/design/neutron-drivers.md.

Only what `find` names is imported before such a driver is configured: the rest needs neutron-lib.
"""
