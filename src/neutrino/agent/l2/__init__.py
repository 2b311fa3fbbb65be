"""The L2 role: ports of a host wired to their networks on Open vSwitch.

Everything in this package is pure: state in, flows and plans out. Drivers carry them out.
"""
