"""The L2 role: wires the ports of a host to their networks on Open vSwitch."""
