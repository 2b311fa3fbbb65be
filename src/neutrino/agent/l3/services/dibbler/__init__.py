"""dibbler: DHCPv6 clients that request delegated prefixes."""
