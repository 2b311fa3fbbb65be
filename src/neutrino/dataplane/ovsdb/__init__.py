"""The configuration of Open vSwitch: bridges, ports and interfaces."""
