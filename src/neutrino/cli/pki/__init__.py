"""`neutrino pki`: a small certificate authority for installations without one."""
