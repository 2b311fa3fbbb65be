"""Quality of service: policies with rules, on networks, ports, floating IPs and gateways."""
