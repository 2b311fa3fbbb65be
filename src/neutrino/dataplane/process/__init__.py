"""Daemons that serve on a host and outlive the agent: dnsmasq, keepalived, radvd."""
