"""The DHCP role: a namespace and a dnsmasq for each network that is scheduled to this host.

`served`, `entries`, `hosts_files`, `options_file`, `command`, `leases`, `namespace` and `plan` are pure; `reconcile`
carries out what they say, and `role` decides when.
"""
