"""`neutrino up`: server, Open vSwitch, agent and stand-in instances on this machine."""
