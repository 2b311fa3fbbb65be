"""`neutrino takeover`."""
