"""The hosts of a lab: namespaces, processes, Open vSwitch and the physical networks between them."""
