"""External DNS: records for ports and floating IPs in Designate, or by dynamic updates (docs/design/dns.md)."""
