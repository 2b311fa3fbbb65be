"""The kernel's packet filter through iptables and ipset: rules, address sets, and the sysctls of br_netfilter."""
