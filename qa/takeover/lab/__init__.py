"""A cloud of real Neutron on three lab hosts, with continuous traffic: what `make takeover` takes over."""
