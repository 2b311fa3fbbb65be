"""The kernel's packet filter by way of iptables and ipset: rules, sets of addresses, and bridges that pass through it."""
