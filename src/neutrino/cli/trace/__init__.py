"""`neutrino trace`: why a packet arrives or not."""
