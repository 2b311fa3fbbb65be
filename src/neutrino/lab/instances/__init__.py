"""Stand-in instances: network namespaces that play VMs, on the hosts of a lab or on the machine of `neutrino up`."""
