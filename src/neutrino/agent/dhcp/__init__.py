"""The DHCP role: a namespace and a dnsmasq for each network that is scheduled to this host."""
